"""`dragoman run`: run one task with a model and tools, and show its progress."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.attachments import add_attachments, check_words, describe_attachments, read_attachments
from dragoman.cli.options import Fill, PromptName, RunOptions, with_options
from dragoman.cli.prompts import fill_prompt
from dragoman.cli.screen import STANDARD_INPUT, exit_code_of, print_line, print_warnings, read_text, report_error
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.agent import Run, RunEvent
    from dragoman.cli.context import AppContext
    from dragoman.cli.runner import LoopRunner
    from dragoman.types import Message


HELP = """Run a task: ask the model, run the tools that it calls, and repeat until it answers.

The answer is written to standard output; calls, results and everything else to standard error. A TASK of -, or no TASK,
reads standard input; together with other words, - is replaced by standard input. The options override the settings of
`dragoman config` and of the environment.

Ctrl-C ends the run so that --resume can continue it. A second Ctrl-C ends the program at once.

The model has built-in tools for files, commands and the web, limited to the workspace; --builtin selects them. Calls
that only read in the workspace run at once. Calls that write, execute or fetch need your approval at the terminal,
unless --mode or a rule allows them. Without a terminal the run stops and waits for `dragoman approvals`. Commands run
in a sandbox if one works. Secrets in results are hidden from the model.

\b
Examples:
  dragoman run "What is the weather in Paris?" -m ollama:qwen3 --tools weather.py
  dragoman run -m openai:gpt-5 --system @role.md "Summarise this" - < notes.txt
  git diff | dragoman run "Review this change:" - > review.md
  dragoman run "What is in this picture?" -a photo.png -a https://example.org/plan.pdf
  dragoman run "Fix the test" --mode edits --allow 'bash(pytest*)'
  dragoman run -p review --fill language=German - < notes.md   use a saved prompt
  dragoman run "Tidy up" -t files.py --approve move_file --deny delete_file
  dragoman run "Where is the Louvre?" --schema place.json | jq -r .city
  dragoman run "Plan a trip" -m openai:gpt-5 --fallback ollama:qwen3 --mcp 'uvx mcp-server-time'
  dragoman run "And in Rome?" --session trip     continue a session
  dragoman run --resume                          resume the last run without an answer
  dragoman run --resume run_4f2a...              resume this run
  dragoman run "Count" -t tools.py --json | jq -r 'select(.type == "RunEnded").text'

\b
Exit codes:
  0    the model answered, or a tool or a hook ended the run on purpose
  1    permanent failure: a wrong key, a refusal, a tool that ended the run, a loop
  2    usage error: an option, a file of tools or a setting is wrong; no request was sent
  3    a limit was reached: turns, tokens, cost, time, the context window, the length of the answer
  4    temporary failure: the network, an overloaded provider, an empty answer
  5    the run waits for approval: answer with `dragoman approvals`, then use --resume
  130  interrupted by Ctrl-C; 143 by SIGTERM; 129 by SIGHUP
"""


app = typer.Typer(name="run", add_completion=False, rich_markup_mode=None)


@app.command("run", help=HELP)
@with_options(
    RunOptions,
    session="Continue this session, or create it.",
    resume="Resume a run that has no answer yet.",
    quiet="Print only the answer.",
)
def run(
    task: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK", help="The task; - is standard input. With --resume: the id of a run.", show_default=False
        ),
    ] = None,
    prompt: PromptName = None,
    fill: Fill = None,
    *,
    options: RunOptions,
) -> int:
    words = tuple(task or ())
    if options.resume and (prompt is not None or fill):
        raise ConfigError("--resume continues a run and takes no --prompt", hint="leave out one of them")
    if options.resume and options.attach:
        raise ConfigError("--resume continues a run and takes no --attach", hint="leave out one of them")
    if not options.resume:
        if STANDARD_INPUT in options.attach and not words and prompt is None:
            raise ConfigError(
                "there is no task, because -a - reads standard input", hint="write the task: dragoman run TASK -a -"
            )
        check_words(words, options.attach)
        parts = read_attachments(options.attach, uses_stdin=STANDARD_INPUT in words)
        text = fill_prompt(prompt, fill, read_task(words) if words or prompt is None else "", options.mcp)
        code = _run_task(options, add_attachments(text, parts))
        if words and STANDARD_INPUT not in (*words, *options.attach):
            _tell_of_unread_input(options)
        return code
    if len(words) > 1:
        raise ConfigError("--resume takes the id of one run, or none", hint="`dragoman sessions list` shows them")
    return _run_task(options, "", run_id=words[0] if words else None)


def read_task(words: tuple[str, ...]) -> str:
    """The task on the command line. `-` is replaced by standard input. Without a task, a pipe is the task."""
    if not words and sys.stdin.isatty():
        raise ConfigError("there is no task", hint='give one: dragoman run "What is ...?", or pipe it in')
    if not words or STANDARD_INPUT in words:
        piped = read_text(STANDARD_INPUT).strip()
        text = "\n\n".join(piped if word == STANDARD_INPUT else word for word in words or (STANDARD_INPUT,))
    else:
        text = " ".join(words)
    if not text.strip():
        raise ConfigError("the task is empty", hint='give one: dragoman run "What is ...?"')
    return text


def _tell_of_unread_input(options: RunOptions) -> None:
    from dragoman.cli.signals import has_piped_text

    if not options.quiet and not options.as_json and has_piped_text():
        print_line(
            "note: standard input was not read; write - in the task for it: git diff | dragoman run ... -", error=True
        )


def _run_task(options: RunOptions, task: str | list[Message], run_id: str | None = None) -> int:
    from dragoman.cli.context import AppContext
    from dragoman.cli.runner import LoopRunner

    with AppContext(options) as context:
        if context.journal is None and (options.resume or options.session):
            raise ConfigError(
                "a session needs a journal",
                hint="leave out --no-journal, or set journal.enabled",
            )
        if not options.as_json:
            print_warnings(context.warnings)
        if not options.as_json and not options.quiet and not isinstance(task, str):
            for line in describe_attachments([part for message in task for part in message.parts]):
                print_line(f"attached: {line}", error=True)
        runner = LoopRunner()
        try:
            code = runner.run(_run_agent(context, runner, task, run_id))
        except (BrokenPipeError, ConfigError):
            runner.close(0)
            raise
        except Exception as error:
            code = report_error(error, os.environ)
    return runner.close(code)


async def _run_agent(context: AppContext, runner: LoopRunner, task: str | list[Message], run_id: str | None) -> int:
    from dragoman.cli.approval_prompt import CommandApprover
    from dragoman.cli.runner import continue_run, find_run, find_terminal_user, open_view, show_run
    from dragoman.cli.signals import reserve_stdin, reserve_stdout

    options, journal = context.options, context.journal
    stored = await find_run(journal, run_id, options.session) if options.resume and journal is not None else None
    with reserve_stdin(), reserve_stdout() as out:
        view = open_view(options, out, can_resume=journal is not None)
        model = options.model or (stored.header.model if stored is not None else None)
        user = find_terminal_user(out, view, context)
        approver = CommandApprover(options.approve, user.ask_approval, can_defer=context.defers_approvals)
        agent = context.agent(model, approver, ask_user=user.ask_user, attended=user.is_present)

        def start(on_event: Callable[[RunEvent], object]) -> Run:
            if stored is not None:
                return continue_run(agent, stored, on_event)
            return agent.stream(task, session=options.session, on_event=on_event)

        try:
            finished = await show_run(start, view)
        finally:
            view.restore()
            await agent.aclose()
    runner.was_interrupted = finished.signal is not None
    kind = finished.result.outcome.kind
    if kind in ("cancelled", "awaiting_approval") and not options.quiet:
        reason = "interrupted" if kind == "cancelled" else "the run waits for approval"
        command = shlex.join(["dragoman", "run", "--resume", finished.result.run_id, *options.resume_arguments()])
        print_line(f"{reason}; resume with: {command}" if journal is not None else reason, error=True)
    return exit_code_of(finished.result, finished.signal)

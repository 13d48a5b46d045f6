"""`dragoman chat`: a conversation with a model that has tools, kept in a session."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import agent_options as shared
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.cli.agents import Wanted, Workshop
    from dragoman.cli.conversing import Conversation
    from dragoman.cli.following import Stage

HELP = """Talk with a model that has tools. What is said is kept in a session, which --session goes on with.

Ctrl-C ends the reply that is being written, and at the prompt the program; so does Ctrl-D. Several lines are one
message when each ends with a backslash, or between two lines of three quotes. /help lists the commands: /tools, /model,
/session, /usage, /retry, /undo, /quit. With a pipe every line is a message, and the exit code is that of the last.

\b
Examples:
  dragoman chat -m ollama:qwen3
  dragoman chat -m openai:gpt-5 --tools weather.py --system "Answer in one sentence."
  dragoman chat --session trip           go on in that session
  dragoman chat --resume                 go on in the last one
  printf 'hello\\nand in French?\\n' | dragoman chat -m ollama:qwen3
"""

_INTERRUPTED = 130
_TERMINATED = 143


class _Terminated(KeyboardInterrupt):
    """SIGTERM while nothing goes on."""


def chat(
    model: shared.Model = None,
    tools: shared.Tools = None,
    system: shared.System = None,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", metavar="NAME", help="The session; a new one if none.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in the session that was used last.")] = False,
    approve: shared.Approve = None,
    deny: shared.Deny = None,
    allow: shared.Allow = None,
    ask: shared.AskFor = None,
    mode: shared.Mode = None,
    builtin: shared.Builtin = None,
    sandbox: shared.Sandbox = None,
    network: shared.Network = None,
    turns: shared.Turns = None,
    tokens: shared.Tokens = None,
    cost: shared.Cost = None,
    seconds: shared.Seconds = None,
    option: shared.Options = None,
    base_url: shared.BaseUrl = "",
    tool_mode: shared.ToolMode = None,
    trust: shared.Trust = None,
    workspace: shared.Workspace = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event instead.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show the answers alone.")] = False,
    thinking: shared.Thinking = False,
    log: shared.Log = None,
    no_journal: shared.NoJournal = False,
) -> int:
    given = locals()
    from dragoman.cli.agents import Wanted

    wanted = Wanted.read(given)
    return _perform(wanted, resume=resume)


def _perform(wanted: Wanted, *, resume: bool) -> int:
    from dragoman.cli.agents import Workshop
    from dragoman.cli.conversing import Conversation
    from dragoman.cli.following import Stage

    stage = Stage()
    with _taking_termination(), Workshop(wanted) as workshop:
        session = _last_session(workshop, stage) if resume and not wanted.session else wanted.session
        is_kept = workshop.journal is not None
        conversation = Conversation(workshop, stage, session)
        for warning in workshop.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        try:
            code = _converse(conversation)
        except BrokenPipeError:
            conversation.close()
            raise
        except KeyboardInterrupt as interrupt:
            print(file=sys.stderr)
            code = _TERMINATED if isinstance(interrupt, _Terminated) else _INTERRUPTED
        conversation.close()
        if is_kept and conversation.turns and not wanted.quiet and not wanted.as_json:
            print(f"go on with: dragoman chat --session {conversation.session}", file=sys.stderr)
    return stage.close(code)


def _converse(conversation: Conversation) -> int:
    """Read and answer until the end; from a pipe, the exit code is that of the last message."""
    from dragoman.cli.conversing import COMMANDS, tell
    from dragoman.cli.prompting import Prompter
    from dragoman.cli.streams import keep_from_tools

    with keep_from_tools() as lines:
        prompter = Prompter(lines, [f"/{name}" for name in COMMANDS])
        if prompter.is_terminal:
            endpoint, count = conversation.agent.endpoint, len(conversation.agent.tools)
            having = f"{count} tool{'' if count == 1 else 's'}"
            tell(f"{endpoint.provider.name}:{endpoint.model}, {having}, session {conversation.session}; /help helps")
        while not conversation.is_over and (message := prompter.read()) is not None:
            conversation.take(message)
        return 0 if prompter.is_terminal else conversation.code


def _last_session(workshop: Workshop, stage: Stage) -> str:
    if workshop.journal is None:
        raise ConfigError("there is no journal, and without one no session can go on", hint="leave --no-journal out")
    sessions = stage.run(workshop.journal.sessions())
    if not sessions:
        raise ConfigError("there is no session to go on with", hint="begin one: dragoman chat -m provider:model")
    return sessions[0].session


@contextlib.contextmanager
def _taking_termination() -> Iterator[None]:
    """Between two replies SIGTERM ends the chat like an interrupt, so that the terminal is left in order."""

    def end(*_: Any) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

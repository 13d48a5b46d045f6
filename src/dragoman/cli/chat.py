"""`dragoman chat`: a conversation with a model that has tools, saved in a session."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import typer

from dragoman.agent import Agent, Run, RunEvent
from dragoman.agent.resume import read_start
from dragoman.characters import quote_value
from dragoman.cli.approval_prompt import CommandApprover
from dragoman.cli.attachments import add_attachments, read_attachments
from dragoman.cli.context import AppContext
from dragoman.cli.options import RunOptions, with_options
from dragoman.cli.runner import (
    FinishedRun,
    LoopRunner,
    TerminalUser,
    find_terminal_user,
    is_attended,
    open_view,
    show_run,
)
from dragoman.cli.screen import count, exit_code_of, one_line, print_line, print_warnings, report_error
from dragoman.cli.signals import reserve_stdin, reserve_stdout
from dragoman.errors import ConfigError, DragomanError, nearest
from dragoman.journal import MemoryJournal
from dragoman.replies import add_usage
from dragoman.types import Message, Usage

# ---- input -----------------------------------------------------------------------------------------------------------

PROMPT = "> "
_CONTINUATION = ". "
_QUOTES = '"""'


class LineInput:
    """Reads messages line by line; at a terminal with a prompt and line editing."""

    def __init__(self, lines: IO[str], commands: Sequence[str] = ()) -> None:
        self._lines = lines
        self.is_terminal = lines is sys.stdin and lines.isatty()
        if self.is_terminal:
            _enable_line_editing(commands)

    def read(self) -> str | None:
        """The next message; None at the end. Lines between triple quotes, or that end with \\, are one message."""
        first = self._line(PROMPT)
        if first is None:
            return None
        if first.strip().startswith(_QUOTES):
            return self._quoted(first.strip()[len(_QUOTES) :])
        pieces = []
        line: str | None = first
        while line is not None and line.endswith("\\"):
            pieces.append(line[:-1])
            line = self._line(_CONTINUATION)
        return "\n".join([*pieces, *([] if line is None else [line])])

    def _quoted(self, first: str) -> str:
        pieces: list[str] = []
        line: str | None = first
        while line is not None:
            if line.rstrip().endswith(_QUOTES):
                pieces.append(line.rstrip()[: -len(_QUOTES)])
                break
            pieces.append(line)
            line = self._line(_CONTINUATION)
        return "\n".join(pieces).strip("\n")

    def _line(self, prompt: str) -> str | None:
        if not self.is_terminal:
            line = self._lines.readline()
            return line.rstrip("\r\n") if line else None
        try:
            return input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return None


def _enable_line_editing(commands: Sequence[str]) -> None:
    """Turn on arrow keys, history and completion with tab, if Python has readline."""
    with contextlib.suppress(ImportError):
        import readline

        def complete(text: str, number: int) -> str | None:
            # `text` has no slash, because a slash ends a word; so look at the whole line.
            typed = readline.get_line_buffer()
            fitting = [command for command in commands if typed.startswith("/") and command.startswith(typed)]
            return fitting[number][len(typed) - len(text) :] if number < len(fitting) else None

        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")


# ---- the conversation ------------------------------------------------------------------------------------------------


class Conversation:
    """A chat in one session of the journal."""

    def __init__(self, context: AppContext, runner: LoopRunner, session: str | None) -> None:
        self._context = context
        self._runner = runner
        self._approver = CommandApprover(context.options.approve, can_defer=context.defers_approvals)
        if context.journal is None:
            # A message continues from the previous run, which is in the journal.
            context.journal = MemoryJournal()
        self._journal = context.journal
        self.session = session or _new_session()
        self._attached = read_attachments(context.options.attach, uses_stdin=True)
        self._history: list[Message] | None = None
        """The messages before the next one, after an undo; None if the session in the journal has them."""
        self._user = TerminalUser()
        self.agent = self._make_agent(None)
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.turns = 0
        self.code = 0
        self.is_finished = False

    def _make_agent(self, model: str | None) -> Agent:
        async def ask_user(question: str, choices: Sequence[str] = ()) -> str:
            return str(await self._user.ask_user(question, choices)) if self._user.is_present else ""

        attended = is_attended()
        return self._context.agent(model, self._approver, ask_user=ask_user if attended else None, attended=attended)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def handle(self, message: str) -> None:
        """Run a slash command, or send a message to the model."""
        text = message.strip()
        if not text:
            return
        if text.startswith("/") and not text.startswith("//"):
            self._run_command(text)
        else:
            self.send(message[1:] if text.startswith("//") else message)

    def send(self, message: str) -> None:
        """Send a message and show the reply. An error ends this turn, but not the chat."""
        try:
            finished = self._runner.run(self._run_message(message))
        except BrokenPipeError:
            raise
        except Exception as error:
            self.code = report_error(error, os.environ)
            return
        self.turns += 1
        result = finished.result
        self._history = None
        self.usage = add_usage(self.usage, result.usage)
        self.cost = None if self.cost is None or result.cost is None else self.cost + result.cost
        self.code = exit_code_of(result, finished.signal)
        if finished.signal is not None:
            self._runner.was_interrupted = True
            print("interrupted", file=sys.stderr)

    async def _run_message(self, message: str) -> FinishedRun:
        task = add_attachments(message, self._attached)
        self._attached = []
        if self._history is not None:
            task = [*self._history, *([Message.user(task)] if isinstance(task, str) else task)]

        def start(on_event: Callable[[RunEvent], object]) -> Run:
            return self.agent.stream(task, session=self.session, on_event=on_event)

        with reserve_stdout() as out:
            view = open_view(self._context.options, out)
            self._user = find_terminal_user(out, view, self._context)
            self._approver.ask = self._user.ask_approval
            try:
                return await show_run(start, view)
            finally:
                view.restore()

    # ---- slash commands ----------------------------------------------------------------------------------------------

    def _run_command(self, text: str) -> None:
        word, _, rest = text[1:].partition(" ")
        command = COMMANDS.get(word.lower())
        if command is None:
            guess = nearest(word, COMMANDS)
            print_note(
                f"unknown command /{one_line(word, 40)}"
                + (f"; did you mean /{guess}?" if guess else "; /help lists all")
            )
            return
        try:
            command[1](self, rest.strip())
        except DragomanError as error:
            print_note(error.explain())

    def show_help(self, rest: str) -> None:
        for name, (description, _) in COMMANDS.items():
            if name != "exit":
                print_note(f"  /{name:<10}{description}")
        print_note(
            '  Several lines: end each with \\, or write them between """ and """. // starts a message with a slash.'
        )

    def show_tools(self, rest: str) -> None:
        for tool in self.agent.tools:
            asks = " (asks first)" if tool.requires_approval else ""
            print_note(f"  {tool.name}{asks}: {one_line(tool.description.partition(chr(10))[0], 100)}")
        if not len(self.agent.tools):
            print_note("  none; --tools file.py adds some")

    def change_model(self, rest: str) -> None:
        if rest:
            agent = self._make_agent(rest)
            self._runner.run(self.agent.aclose())
            self.agent = agent
        endpoint = self.agent.endpoint
        print_note(f"  {endpoint.provider.name}:{endpoint.model}")

    def change_session(self, rest: str) -> None:
        if rest:
            self.session, self._history = rest, None
        print_note(f"  {self.session}")

    def show_usage(self, rest: str) -> None:
        cost = "the price is unknown" if self.cost is None else f"${self.cost:.4f}"
        tokens = f"{self.usage.input_tokens:,} tokens in, {self.usage.output_tokens:,} out"
        print_note(f"  {count(self.turns, 'message')}, {tokens}, {cost}")

    def retry(self, rest: str) -> None:
        text = self._rewind()
        if text is None:
            print_note("there is no message to retry")
        else:
            self.send(text)

    def undo(self, rest: str) -> None:
        text = self._rewind()
        print_note("there is no message to undo" if text is None else f"removed: {one_line(text, 100)}")

    def quit(self, rest: str) -> None:
        self.is_finished = True

    # ---- undo --------------------------------------------------------------------------------------------------------

    def _rewind(self) -> str | None:
        """Remove the last message and return its text. The chat continues in a new session; the old one is kept."""
        messages = self._history if self._history is not None else self._runner.run(self._last_messages())
        positions = [number for number, message in enumerate(messages) if message.role == "user"]
        if not positions:
            return None
        text = messages[positions[-1]].text
        self._history = messages[: positions[-1]]
        self.session = _new_session()
        return text

    async def _last_messages(self) -> list[Message]:
        """The messages that the last run of the session began with."""
        last = await self._journal.last_run(self.session)
        if last is None:
            return []
        return await read_start(self._journal, last.run_id, await self._journal.read(last.run_id))

    # ---- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._runner.run(self.agent.aclose())


def print_note(text: str) -> None:
    """Print a line of the chat itself; standard output is for the replies of the model."""
    print_line(text, error=True)


def _new_session() -> str:
    return f"chat-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


COMMANDS: dict[str, tuple[str, Callable[[Conversation, str], None]]] = {
    "help": ("this list", Conversation.show_help),
    "tools": ("list the tools of the model", Conversation.show_tools),
    "model": ("show the model; /model PROVIDER:MODEL changes it", Conversation.change_model),
    "session": ("show the session; /session NAME continues another one", Conversation.change_session),
    "usage": ("show tokens and cost so far", Conversation.show_usage),
    "retry": ("send the last message again", Conversation.retry),
    "undo": ("remove the last message", Conversation.undo),
    "quit": ("end the chat, like Ctrl-D", Conversation.quit),
}
COMMANDS["exit"] = COMMANDS["quit"]
"""The commands of a chat, each with its description; they receive the text after their name."""


HELP = """Chat with a model that has tools. The conversation is saved in a session; --session continues it.

Ctrl-C stops the current reply. At the prompt, Ctrl-C and Ctrl-D end the program. To write a message of several lines,
end each line with a backslash, or put the lines between two lines of three quotes. /help lists the commands: /tools,
/model, /session, /usage, /retry, /undo, /quit. From a pipe, every line is a message, and the exit code is that of the
last message.

\b
Examples:
  dragoman chat -m ollama:qwen3
  dragoman chat -m openai:gpt-5 --tools weather.py --system "Answer in one sentence."
  dragoman chat --session trip           continue that session
  dragoman chat --resume                 continue the last session
  printf 'hello\\nand in French?\\n' | dragoman chat -m ollama:qwen3
"""

_INTERRUPTED = 130
_TERMINATED = 143


class _Terminated(KeyboardInterrupt):
    """SIGTERM between two replies."""


app = typer.Typer(name="chat", add_completion=False, rich_markup_mode=None)


@app.command("chat", help=HELP)
@with_options(
    RunOptions,
    session="Continue this session, or create it.",
    resume="Continue the last session.",
    quiet="Print only the answers.",
)
def chat(*, options: RunOptions) -> int:
    runner = LoopRunner()
    with _sigterm_as_interrupt(), AppContext(options) as context:
        session = _last_session(context, runner) if options.resume and not options.session else options.session
        is_saved = context.journal is not None
        conversation = Conversation(context, runner, session)
        print_warnings(context.warnings)
        try:
            code = _read_and_answer(conversation)
        except BrokenPipeError:
            conversation.close()
            raise
        except KeyboardInterrupt as interrupt:
            print(file=sys.stderr)
            code = _TERMINATED if isinstance(interrupt, _Terminated) else _INTERRUPTED
        conversation.close()
        if is_saved and conversation.turns and not options.quiet and not options.as_json:
            print_note(f"continue with: dragoman chat --session {quote_value(conversation.session)}")
    return runner.close(code)


def _read_and_answer(conversation: Conversation) -> int:
    """Read and answer messages until the end. From a pipe, the exit code is that of the last message."""
    with reserve_stdin() as lines:
        line_input = LineInput(lines, [f"/{name}" for name in COMMANDS])
        if line_input.is_terminal:
            endpoint, tools = conversation.agent.endpoint, count(len(conversation.agent.tools), "tool")
            print_note(
                f"{endpoint.provider.name}:{endpoint.model}, {tools}, session {conversation.session}; /help shows more"
            )
        while not conversation.is_finished and (message := line_input.read()) is not None:
            conversation.handle(message)
        return 0 if line_input.is_terminal else conversation.code


def _last_session(context: AppContext, runner: LoopRunner) -> str:
    if context.journal is None:
        raise ConfigError("a session needs a journal", hint="leave out --no-journal")
    sessions = runner.run(context.journal.sessions())
    if not sessions:
        raise ConfigError("there is no session to continue", hint="start one: dragoman chat -m provider:model")
    return sessions[0].session


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Between two replies, let SIGTERM end the chat like an interrupt, so that the terminal is restored."""

    def terminate(*_: Any) -> None:
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

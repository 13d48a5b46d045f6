"""`dragoman chat`: a conversation with a model that has tools, saved in a session."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import typer
from msgspec.structs import replace

from dragoman.agent import Agent, Run, RunEvent
from dragoman.agent.records import Ended, decode
from dragoman.agent.resume import read_start
from dragoman.characters import escape_line, quote_value
from dragoman.cli.approval_prompt import CommandApprover
from dragoman.cli.attachments import add_attachments, describe_attachments, read_attachments
from dragoman.cli.context import AppContext
from dragoman.cli.exit_codes import SIGNAL_BASE
from dragoman.cli.options import Fill, PromptName, RunOptions, with_options
from dragoman.cli.prompts import fill_prompt
from dragoman.cli.runner import (
    FinishedRun,
    LoopRunner,
    TerminalUser,
    find_terminal_user,
    is_attended,
    open_view,
    show_run,
)
from dragoman.cli.screen import (
    CHAT_CONTINUATION,
    CHAT_PROMPT,
    QUOTES,
    can_draw,
    count,
    exit_code_of,
    format_time,
    one_line,
    print_line,
    print_warnings,
    report_error,
)
from dragoman.cli.signals import reserve_stdin, reserve_stdout
from dragoman.config.prompts import find_prompts
from dragoman.errors import ConfigError, DragomanError, nearest
from dragoman.journal import MemoryJournal
from dragoman.paths import current_folder, state_folder
from dragoman.replies import add_usage
from dragoman.secrets import scrub
from dragoman.types import Message, Text, Usage

# ---- input -----------------------------------------------------------------------------------------------------------

_HISTORY = "chat_history.jsonl"
_read_fill = re.compile(r'\s*--fill[= ]\s*([^\s="]+=)(?:"([^"]*)"|(\S*))').match
_AGAIN = "Ctrl-C again, Ctrl-D or /quit ends the chat"


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP between two replies."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LineInput:
    """Reads messages line by line, from a pipe or from a terminal that cannot move its cursor."""

    def __init__(self, lines: IO[str]) -> None:
        self._lines = lines
        self.is_terminal = lines is sys.stdin and lines.isatty()

    def read(self) -> str | None:
        """The next message; None at the end. Lines between triple quotes, or that end with \\, are one message."""
        first = self._line(CHAT_PROMPT)
        if first is None:
            return None
        if first.strip().startswith(QUOTES):
            return self._quoted(first.strip()[len(QUOTES) :])
        pieces = []
        line: str | None = first
        while line is not None and line.endswith("\\"):
            pieces.append(line[:-1])
            line = self._line(CHAT_CONTINUATION)
        return "\n".join([*pieces, *([] if line is None else [line])])

    def _quoted(self, first: str) -> str:
        pieces: list[str] = []
        line: str | None = first
        while line is not None:
            if line.rstrip().endswith(QUOTES):
                pieces.append(line.rstrip()[: -len(QUOTES)])
                break
            pieces.append(line)
            line = self._line(CHAT_CONTINUATION)
        return "\n".join(pieces).strip("\n")

    def _line(self, prompt: str) -> str | None:
        if not self.is_terminal:
            line = self._lines.readline()
            return line.rstrip("\r\n") if line else None
        try:
            return self._ask(prompt)
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, Terminated):
                raise
            print(file=sys.stderr)
            print_note(_AGAIN)
            return self._ask(prompt)

    def _ask(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return None

    def stop(self, number: int) -> bool:
        return False


class EditorInput:
    """Reads messages with a line editor."""

    is_terminal = True

    def __init__(self, conversation: Conversation, runner: LoopRunner, history: Path | None) -> None:
        # Loaded now: a tool may change the files that are imported later.
        from dragoman.cli.editor import Interrupted, LineEditor, MessageCompleter

        self._runner = runner
        self._editor = LineEditor(history, MessageCompleter(COMMANDS, conversation.complete))
        self._interrupted: type[Exception] = Interrupted
        self._signal: int | None = None
        self._has_warned = False

    def read(self) -> str | None:
        """The next message; None at the end."""
        while True:
            print(file=sys.stderr)
            try:
                message = self._runner.run(self._editor.read())
            except EOFError:
                return None
            except self._interrupted:
                self._check_signal()
                if self._has_warned:
                    raise KeyboardInterrupt from None
                self._has_warned = True
                print_note(_AGAIN)
            except OSError:
                # A terminal that is gone cannot be restored.
                self._check_signal()
                raise
            else:
                self._has_warned = False
                return message

    def _check_signal(self) -> None:
        if self._signal is not None:
            raise Terminated(self._signal) from None

    def stop(self, number: int) -> bool:
        """End `read` because of a signal, after it restored the terminal. Returns False if it does not wait."""
        self._signal = number
        return self._editor.stop(self._interrupted())


Input = LineInput | EditorInput


def _open_input(lines: IO[str], conversation: Conversation, runner: LoopRunner) -> Input:
    if not (lines is sys.stdin and lines.isatty()) or not can_draw(sys.stderr):
        return LineInput(lines)
    folder = state_folder(os.environ) if conversation.is_saved else None
    return EditorInput(conversation, runner, None if folder is None else folder / _HISTORY)


# ---- the conversation ------------------------------------------------------------------------------------------------


class Conversation:
    """A chat in one session of the journal."""

    def __init__(self, context: AppContext, runner: LoopRunner, session: str | None) -> None:
        self._context = context
        self._runner = runner
        self._approver = CommandApprover(context.options.approve, can_defer=context.defers_approvals)
        is_saved = context.journal is not None
        if context.journal is None:
            # A message continues from the previous run, which is in the journal.
            context.journal = MemoryJournal()
        self._journal = context.journal
        self.is_saved = is_saved
        self.session = session or _new_session()
        self._attached = read_attachments(context.options.attach, uses_stdin=True)
        self._history: list[Message] | None = None
        """The messages before the next one, after an undo; None if the session in the journal has them."""
        self._listed_sessions: list[str] = []
        self._user = TerminalUser()
        self.model = context.options.model
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

    def send(self, message: str | list[Message]) -> None:
        """Send a message and show the reply. An error ends this turn, but not the chat."""
        try:
            finished = self._runner.run(self._run_message(message))
        except BrokenPipeError:
            raise
        except Exception as error:
            self.code = report_error(error, os.environ)
            if self._attached:
                # The endpoint may be unable to receive them, and then they would stop every further message.
                self._attached = []
                print_note("the attachments were not sent; attach them again if the next message needs them")
            return
        self.turns += 1
        result = finished.result
        self._history = None
        self.usage = add_usage(self.usage, result.usage)
        self.cost = None if self.cost is None or result.cost is None else self.cost + result.cost
        self.code = exit_code_of(result, finished.signal)
        if finished.signal is not None:
            self._runner.was_interrupted = True
            if finished.signal != signal.SIGINT:
                raise Terminated(finished.signal)
            print("interrupted", file=sys.stderr)

    async def _run_message(self, message: str | list[Message]) -> FinishedRun:
        task = add_attachments(message, self._attached)
        if self._history is not None:
            task = [*self._history, *([Message.user(task)] if isinstance(task, str) else task)]

        def start(on_event: Callable[[RunEvent], object]) -> Run:
            run = self.agent.stream(task, session=self.session, on_event=on_event)
            self._attached = []
            return run

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
            print_note(f"{error}\nhint: {error.command_hint}" if error.command_hint else str(error))

    def show_help(self, rest: str) -> None:
        for name, (description, _) in COMMANDS.items():
            if name != "exit":
                print_note(f"  /{name:<10}{description}", indent=13)
        for line in _KEYS_HELP:
            print_note(f"  {line}", indent=4)

    def show_tools(self, rest: str) -> None:
        for tool in self.agent.tools:
            asks = " (asks first)" if tool.requires_approval else ""
            print_note(f"  {tool.name}{asks}: {one_line(tool.description.partition(chr(10))[0], 100)}", indent=4)
        if not len(self.agent.tools):
            print_note("  none; --tools file.py adds some")

    def change_model(self, rest: str) -> None:
        if rest:
            agent = self._make_agent(rest)
            self._runner.run(self.agent.aclose())
            self.agent, self.model = agent, rest
        endpoint = self.agent.endpoint
        print_note(f"  {endpoint.provider.name}:{endpoint.model}")

    def change_session(self, rest: str) -> None:
        if rest:
            self.session, self._history = rest, None
        print_note(f"  {self.session}")

    def list_sessions(self, rest: str) -> None:
        found = self._runner.run(self._journal.sessions())[:_MOST_SESSIONS]
        self._listed_sessions = [each.session for each in found]
        for each in found:
            mark = "* " if each.session == self.session else "  "
            words = f"{format_time(each.last)}, {count(each.runs, 'message')}"
            print_note(f"{mark}{quote_value(each.session)}  {words}")
        if not found:
            print_note("  none")

    def save(self, rest: str) -> None:
        if not rest:
            print_note("name a file: /save notes.md")
            return
        messages = [each for each in self._runner.run(self._all_messages()) if each.text.strip()]
        text = "\n\n".join(f"## {each.role}\n\n{each.text.strip()}" for each in messages if each.role in _SAVED_ROLES)
        try:
            # Only a new file: a mistyped name must not replace one.
            with open(os.path.expanduser(rest), "x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(scrub(text) + "\n")
        except OSError as error:
            print_note(f"cannot write {quote_value(rest)}: {error.strerror}")
        else:
            print_note(f"  saved {count(len(messages), 'message')} in {quote_value(rest)}")

    def attach(self, rest: str) -> None:
        if not rest:
            print_note("name a file or an address: /attach photo.png")
            return
        parts = read_attachments([rest], uses_stdin=True)
        self._attached += parts
        for line in describe_attachments(parts) or [quote_value(rest)]:
            print_note(f"  {line} goes with the next message")

    def send_prompt(self, rest: str) -> None:
        name, _, task = rest.partition(" ")
        if name:
            fill: list[str] = []
            while found := _read_fill(task):
                fill.append(found[1] + (found[3] if found[2] is None else found[2]))
                task = task[found.end() :]
            self.send(fill_prompt(name, fill, task.strip(), self._context.options.mcp))
            return
        known = find_prompts(os.environ, current_folder(os.environ))
        for each in known:
            print_note(f"  {each}")
        if not known:
            print_note("  none; `dragoman prompts` says where they are saved")

    def complete(self, before: str) -> list[str]:
        """What the argument of a command may be; nothing for those that take a file."""
        command = before[1:].partition(" ")[0]
        if command == "session":
            return self._listed_sessions
        if command == "prompt":
            return list(find_prompts(os.environ, current_folder(os.environ)))
        return []

    def show_usage(self, rest: str) -> None:
        cost = "the price is unknown" if self.cost is None else f"${self.cost:.4f}"
        tokens = f"{self.usage.input_tokens:,} tokens in, {self.usage.output_tokens:,} out"
        if self.turns and not self.usage.input_tokens + self.usage.output_tokens:
            tokens = "no tokens reported"
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

    async def _all_messages(self) -> list[Message]:
        """The messages of the session, with the last answer."""
        if self._history is not None:
            return self._history
        last = await self._journal.last_run(self.session)
        if last is None:
            return []
        records = await self._journal.read(last.run_id)
        start = await read_start(self._journal, last.run_id, records)
        ended = decode(records[-1].body, Ended) if records[-1].kind == "ended" else None
        answer = ended.text if ended is not None else ""
        return [*start, *([Message("assistant", [Text(answer)])] if answer else [])]

    # ---- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._runner.run(self.agent.aclose())


def print_note(text: str, indent: int = 2) -> None:
    """Print a line of the chat itself; standard output is for the replies of the model.

    On a terminal, it is broken between words, and its other rows are indented.
    """
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else 0
    for part in text.split("\n"):
        rows = textwrap.wrap(escape_line(part), width - 1, subsequent_indent=" " * indent) if width > 2 * indent else []
        print("\n".join(rows or [escape_line(part)]), file=sys.stderr)


def _new_session() -> str:
    return f"chat-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


COMMANDS: dict[str, tuple[str, Callable[[Conversation, str], None]]] = {
    "help": ("this list", Conversation.show_help),
    "tools": ("list the tools of the model", Conversation.show_tools),
    "model": ("show the model; /model PROVIDER:MODEL changes it", Conversation.change_model),
    "session": ("show the session; /session NAME continues another one", Conversation.change_session),
    "sessions": ("list the last sessions", Conversation.list_sessions),
    "save": ("write the conversation into a file: /save FILE", Conversation.save),
    "attach": ("add a file to the next message: /attach FILE", Conversation.attach),
    "prompt": (
        "send a saved prompt, or that of a server: /prompt NAME [--fill WORD=VALUE] TASK",
        Conversation.send_prompt,
    ),
    "usage": ("show tokens and cost so far", Conversation.show_usage),
    "retry": ("send the last message again", Conversation.retry),
    "undo": ("remove the last message", Conversation.undo),
    "quit": ("end the chat, like Ctrl-D", Conversation.quit),
}
COMMANDS["exit"] = COMMANDS["quit"]
"""The commands of a chat, each with its description; they receive the text after their name."""


HELP = """Chat with a model that has tools. The conversation is saved in a session; --session continues it.

Enter sends a message, Alt-Enter begins a new line, and a paste is one message. Ctrl-C stops the current reply; at the
prompt it clears what was typed. Ctrl-D ends the chat. /help lists the commands: /tools, /model, /session, /sessions,
/save, /attach, /prompt, /usage, /retry, /undo, /quit. From a pipe, every line is a message, and the exit code is that
of the last message.

\b
Examples:
  dragoman chat -m ollama:qwen3
  dragoman chat -m openai:gpt-5 --tools weather.py --system "Answer in one sentence."
  dragoman chat --session trip           continue that session
  dragoman chat --resume                 continue the last session
  dragoman chat -p review --fill language=German     begin with a saved prompt
  printf 'hello\\nand in French?\\n' | dragoman chat -m ollama:qwen3
"""

_KEYS_HELP = (
    "Alt-Enter, or \\ at the end of a line: a new line. A paste is one message.",
    "Ctrl-C: stop the reply, or clear the message. Tab: complete commands and files.",
    "// starts a message with a slash. Ctrl-R: search earlier messages.",
)
_SAVED_ROLES = ("user", "assistant")
_MOST_SESSIONS = 10
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


app = typer.Typer(name="chat", add_completion=False, rich_markup_mode=None)


@app.command("chat", help=HELP)
@with_options(
    RunOptions,
    session="Continue this session, or create it.",
    resume="Continue the last session.",
    quiet="Print only the answers.",
)
def chat(prompt: PromptName = None, fill: Fill = None, *, options: RunOptions) -> int:
    first = fill_prompt(prompt, fill, "", options.mcp)
    runner = LoopRunner()
    with AppContext(options) as context:
        session = _last_session(context, runner) if options.resume and not options.session else options.session
        conversation = Conversation(context, runner, session)
        print_warnings(context.warnings)
        try:
            code = _read_and_answer(conversation, runner, first)
        except BrokenPipeError:
            conversation.close()
            raise
        except Terminated as signal_:
            code = SIGNAL_BASE + signal_.number
        except KeyboardInterrupt:
            print(file=sys.stderr)
            code = SIGNAL_BASE + signal.SIGINT
        conversation.close()
        is_silent = options.quiet or options.as_json or code == SIGNAL_BASE + getattr(signal, "SIGHUP", 0)
        if conversation.is_saved and conversation.turns and not is_silent:
            again = replace(options, model=conversation.model).resume_arguments()
            words = ["dragoman", "chat", "--session", conversation.session, *again]
            print_line(f"continue with: {shlex.join(words)}", error=True)
    return runner.close(code)


def _read_and_answer(conversation: Conversation, runner: LoopRunner, first: str | list[Message]) -> int:
    """Read and answer messages until the end. From a pipe, the exit code is that of the last message."""
    with reserve_stdin() as lines:
        source = _open_input(lines, conversation, runner)
        with _ended_by_signals(source):
            if source.is_terminal:
                endpoint, tools = conversation.agent.endpoint, count(len(conversation.agent.tools), "tool")
                print_note(
                    f"{endpoint.provider.name}:{endpoint.model}, {tools}, session {conversation.session}; "
                    "/help shows more"
                )
            if first:
                conversation.send(first)
            while not conversation.is_finished and (message := source.read()) is not None:
                conversation.handle(message)
        return 0 if source.is_terminal else conversation.code


def _last_session(context: AppContext, runner: LoopRunner) -> str:
    if context.journal is None:
        raise ConfigError("a session needs a journal", hint="leave out --no-journal")
    sessions = runner.run(context.journal.sessions())
    if not sessions:
        raise ConfigError("there is no session to continue", hint="start one: dragoman chat -m provider:model")
    return sessions[0].session


@contextlib.contextmanager
def _ended_by_signals(source: Input) -> Iterator[None]:
    """Between two replies, let SIGTERM and SIGHUP end the chat so that the terminal is restored."""

    def end(number: int, _: object) -> None:
        if not source.stop(number):
            raise Terminated(number)

    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    # `nohup` sets a signal to be ignored. That setting is kept.
    changed = [number for number in _SIGNALS if previous[number] is not signal.SIG_IGN]
    for number in changed:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, previous[number])

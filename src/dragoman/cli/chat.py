"""`dragoman chat`: a conversation with a model that has tools, kept in a session."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct

from dragoman.agent import Agent, Run, RunEvent
from dragoman.agent.records import Header, decode
from dragoman.agent.result import add_usage
from dragoman.cli import options as shared
from dragoman.cli.approval_prompt import Approvals
from dragoman.cli.context import Workshop
from dragoman.cli.runner import Followed, Person, Stage, find_person, follow, is_attended, open_view
from dragoman.cli.screen import code_of, complain_about, one_line
from dragoman.cli.signals import keep_for_answers
from dragoman.errors import ConfigError, DragomanError, nearest
from dragoman.types import Message, Text, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.cli.context import Wanted


# --------------------------------------------------------------------------------------------------------------------
# What somebody types to a chat: lines, texts of several lines, and the end.

PROMPT = "> "
_MORE = ". "
_QUOTES = '"""'


class Prompter:
    """Reads one message after another, with a prompt and an editable line where there is a terminal."""

    def __init__(self, lines: IO[str], commands: Sequence[str] = ()) -> None:
        self._lines = lines
        self.is_terminal = lines is sys.stdin and lines.isatty()
        if self.is_terminal:
            _edit_lines(commands)

    def read(self) -> str | None:
        """The next message, None at the end. Several lines are one between three quotes, or with \\ at their ends."""
        first = self._line(PROMPT)
        if first is None:
            return None
        if first.strip().startswith(_QUOTES):
            return self._quoted(first.strip()[len(_QUOTES) :])
        pieces = []
        line: str | None = first
        while line is not None and line.endswith("\\"):
            pieces.append(line[:-1])
            line = self._line(_MORE)
        return "\n".join([*pieces, *([] if line is None else [line])])

    def _quoted(self, first: str) -> str:
        pieces: list[str] = []
        line: str | None = first
        while line is not None:
            if line.rstrip().endswith(_QUOTES):
                pieces.append(line.rstrip()[: -len(_QUOTES)])
                break
            pieces.append(line)
            line = self._line(_MORE)
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


def _edit_lines(commands: Sequence[str]) -> None:
    """Arrow keys, history and the tab key, where the system has them."""
    with contextlib.suppress(ImportError):
        import readline

        def complete(text: str, number: int) -> str | None:
            # The line is asked for, because a slash ends a word.
            typed = readline.get_line_buffer()
            fitting = [command for command in commands if typed.startswith("/") and command.startswith(typed)]
            return fitting[number][len(typed) - len(text) :] if number < len(fitting) else None

        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")


# --------------------------------------------------------------------------------------------------------------------
# A chat: one session, one message after another, and the commands that begin with a slash.


class Command(Struct, frozen=True):
    """A word that is for the chat and not for the model."""

    name: str
    what: str
    do: Callable[[Conversation, str], None]


class Conversation:
    """A chat that goes on in one session of the journal."""

    def __init__(self, workshop: Workshop, stage: Stage, session: str | None) -> None:
        self._workshop = workshop
        self._stage = stage
        self._approvals = Approvals(workshop.wanted.approve, parks=workshop.parks)
        workshop.remember()
        assert workshop.journal is not None
        self._journal = workshop.journal
        self.session = session or _new_session()
        self._before: list[Message] | None = None
        """What was said before, where it is not what the session holds: after something was taken back."""
        self._person = Person()
        self.agent = self._make_agent(None)
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.turns = 0
        self.code = 0
        self.is_over = False

    def _make_agent(self, model: str | None) -> Agent:
        async def ask_user(question: str, choices: Sequence[str] = ()) -> str:
            return str(await self._person.ask_user(question, choices)) if self._person.is_there else ""

        attended = is_attended()
        asking = ask_user if attended else None
        return self._workshop.agent(model, self._approvals, ask_user=asking, attended=attended)

    # ---- one message -------------------------------------------------------------------------------------------------

    def take(self, message: str) -> None:
        """Do what was typed: a command, or a message for the model."""
        text = message.strip()
        if not text:
            return
        if text.startswith("/") and not text.startswith("//"):
            self._command(text)
        else:
            self.say(message[1:] if text.startswith("//") else message)

    def say(self, message: str) -> None:
        """Send a message and show the reply; what goes wrong ends this turn and not the chat."""
        try:
            followed = self._stage.run(self._exchange(message))
        except BrokenPipeError:
            raise
        except Exception as error:
            self.code = complain_about(error, os.environ)
            return
        self.turns += 1
        result = followed.result
        self._before = None
        self.usage = add_usage(self.usage, result.usage)
        self.cost = None if self.cost is None or result.cost is None else self.cost + result.cost
        self.code = code_of(result, followed.signal)
        if followed.signal is not None:
            self._stage.was_interrupted = True
            print("interrupted", file=sys.stderr)

    async def _exchange(self, message: str) -> Followed:
        task: str | list[Message] = message
        if self._before is not None:
            task = [*self._before, Message("user", [Text(message)])]

        def start(tell: Callable[[RunEvent], object]) -> Run:
            return self.agent.stream(task, session=self.session, on_event=tell)

        with keep_for_answers() as out:
            view = open_view(self._workshop.wanted, out)
            self._person = find_person(out, view, self._workshop)
            self._approvals.question = self._person.question
            try:
                return await follow(start, view)
            finally:
                view.tidy()

    # ---- commands ----------------------------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        word, _, rest = text[1:].partition(" ")
        command = COMMANDS.get(word.lower())
        if command is None:
            guess = nearest(word, COMMANDS)
            tell(f"there is no /{one_line(word, 40)}" + (f"; did you mean /{guess}?" if guess else "; /help lists all"))
            return
        try:
            command.do(self, rest.strip())
        except DragomanError as error:
            tell(error.explain())

    def show_help(self, rest: str) -> None:
        for command in dict.fromkeys(COMMANDS.values()):
            tell(f"  /{command.name:<10}{command.what}")
        tell('  Several lines: end each with \\, or write them between """ and """. // sends a message that begins so.')

    def show_tools(self, rest: str) -> None:
        for tool in self.agent.tools:
            asks = " (asks first)" if tool.requires_approval else ""
            tell(f"  {tool.name}{asks}: {one_line(tool.description.partition(chr(10))[0], 100)}")
        if not len(self.agent.tools):
            tell("  none; --tools file.py brings some")

    def change_model(self, rest: str) -> None:
        if rest:
            agent = self._make_agent(rest)
            self._stage.run(self.agent.aclose())
            self.agent = agent
        endpoint = self.agent.endpoint
        tell(f"  {endpoint.provider.name}:{endpoint.model}")

    def change_session(self, rest: str) -> None:
        if rest:
            self.session, self._before = rest, None
        tell(f"  {self.session}")

    def show_usage(self, rest: str) -> None:
        cost = "the price is not known" if self.cost is None else f"${self.cost:.4f}"
        tokens = f"{self.usage.input_tokens:,} tokens in, {self.usage.output_tokens:,} out"
        tell(f"  {self.turns} message{'' if self.turns == 1 else 's'}, {tokens}, {cost}")

    def retry(self, rest: str) -> None:
        taken = self._take_back()
        if taken is None:
            tell("there is nothing to try again")
        else:
            self.say(taken)

    def undo(self, rest: str) -> None:
        taken = self._take_back()
        tell("there is nothing to take back" if taken is None else f"taken back: {one_line(taken, 100)}")

    def quit(self, rest: str) -> None:
        self.is_over = True

    # ---- taking back -------------------------------------------------------------------------------------------------

    def _take_back(self) -> str | None:
        """Go back to before the last message, in a session of a new name; the old one keeps what was said."""
        said = self._before if self._before is not None else self._stage.run(self._last_asked())
        places = [number for number, message in enumerate(said) if message.role == "user"]
        if not places:
            return None
        text = said[places[-1]].text
        self._before = said[: places[-1]]
        self.session = _new_session()
        return text

    async def _last_asked(self) -> list[Message]:
        """The conversation up to the last message, as its run was begun with it."""
        last = await self._journal.last_run(self.session)
        if last is None:
            return []
        header: Header = decode((await self._journal.read(last.run_id))[0].body, Header)
        return header.messages

    # ---- its end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._stage.run(self.agent.aclose())


def tell(words: str) -> None:
    """Say something that is not the model's."""
    print(words, file=sys.stderr)


def _new_session() -> str:
    return f"chat-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "this list", Conversation.show_help),
        Command("tools", "the tools that the model has", Conversation.show_tools),
        Command("model", "the model; /model PROVIDER:MODEL takes another one", Conversation.change_model),
        Command("session", "the session; /session NAME goes on in another one", Conversation.change_session),
        Command("usage", "tokens and cost so far", Conversation.show_usage),
        Command("retry", "send the last message again", Conversation.retry),
        Command("undo", "take the last message back", Conversation.undo),
        Command("quit", "end; Ctrl-D does so, too", Conversation.quit),
    )
}
COMMANDS["exit"] = COMMANDS["quit"]


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


app = typer.Typer(name="chat", add_completion=False, rich_markup_mode=None)


@app.command("chat", help=HELP)
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
    from dragoman.cli.context import Wanted

    wanted = Wanted.read(given)
    return _perform(wanted, resume=resume)


def _perform(wanted: Wanted, *, resume: bool) -> int:
    from dragoman.cli.context import Workshop
    from dragoman.cli.runner import Stage

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
    pass  # FOLD
    from dragoman.cli.signals import keep_from_tools

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

"""A chat: one session, one message after another, and the commands that begin with a slash."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.agent import Agent, Run, RunEvent
from dragoman.agent.records import Header, decode
from dragoman.agent.result import add_usage
from dragoman.cli.agents import Workshop
from dragoman.cli.approvals_prompt import Approvals
from dragoman.cli.excerpts import one_line
from dragoman.cli.exits import code_of, complain_about
from dragoman.cli.following import Followed, Person, Stage, find_person, follow, is_attended, open_view
from dragoman.cli.streams import keep_for_answers
from dragoman.errors import DragomanError, nearest
from dragoman.types import Message, Text, Usage


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

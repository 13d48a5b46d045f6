"""Secrets in results: neither the model nor a log sees them, and files keep them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.agent.runs import agent, wait

import dragoman
from dragoman.agent import Agent, Connection
from dragoman.agent.events import Noticed, RunEnded, RunEvent, ToolEnded, ToolStarted, TurnEnded
from dragoman.agent.redaction import EventRedactor
from dragoman.events import ArgumentsDelta, TextDelta, ThinkingDelta
from dragoman.journal import MemoryJournal
from dragoman.secrets import HumanSink
from dragoman.telemetry import JsonLog
from dragoman.testing import ScriptedModel, call
from dragoman.types import File, Image, Message, Request, Text

REGISTERED = "tr0ub4dor-and-3-horses"
TOKEN = "ghp_" + "R4nd0mR4nd0mR4nd0mR4nd0mR4nd0m" + "1Yl9Xz"
PASSWORD = "password = hunter2-but-longer"
FILE = f"token: {TOKEN}\n{PASSWORD}\nkey={REGISTERED}\nplain = yes\n"
KNOWN = (REGISTERED, TOKEN, "hunter2-but-longer")


def shown_to_the_model(request: Request) -> str:
    return json.dumps(dragoman.wire.get("openai_chat").encode_request(request), default=str)


class SecretFile:
    """A file with secrets in it, and tools that read and write it."""

    def __init__(self) -> None:
        self.content = FILE
        self.sent: list[str] = []

        @dragoman.tool
        def read() -> str:
            """Read the file."""
            return self.content

        @dragoman.tool(metadata={"restores": True})
        def write(content: str) -> str:
            """Write the file."""
            self.content = content
            return "written"

        @dragoman.tool
        def send(text: str) -> str:
            """Send a text to somebody."""
            self.sent.append(text)
            return "sent"

        self.tools = [read, write, send]


def copy_with(change: Any) -> Any:
    """A model that reads the file, then writes what it saw with a change, then says what it saw."""

    def say(request: Request) -> Any:
        results = [part for message in request.messages for part in message.parts if hasattr(part, "call_id")]
        texts = [message.text for message in request.messages if message.role == "user"]
        if not results and not any("plain = yes" in text for text in texts):
            return call("read")
        seen = str(results[0].content) if results else next(text for text in texts if "plain = yes" in text)
        told = json.dumps([str(result.content) for result in results]) + " ".join(texts)
        if "written" in told or "sent" in told:
            return f"I saw: {seen}"
        return change(seen)

    return say


@pytest.mark.parametrize("native", [True, False], ids=["native", "in the prompt"])
def test_a_secret_in_a_result_is_in_no_later_request(native: bool) -> None:
    secret_file = SecretFile()
    requests: list[str] = []

    def say(request: Request) -> Any:
        requests.append(shown_to_the_model(request))
        return call("read") if len(requests) == 1 else "I have read it."

    made = agent(say, *secret_file.tools, native=native, loop=True, secrets=[REGISTERED])
    result = wait(made.arun("Read the file."))
    assert result.outcome.kind == "answered"
    assert len(requests) == 2 and "plain = yes" in requests[1]
    for secret in KNOWN:
        assert secret not in requests[1]
        assert secret not in str(result.messages), "nor in the history that another run would go on from"


def test_a_secret_that_the_model_never_saw_is_written_back_exactly() -> None:
    secret_file = SecretFile()
    write = copy_with(lambda seen: call("write", content=seen.replace("plain = yes", "plain = no")))
    result = wait(agent(write, *secret_file.tools, loop=True, secrets=[REGISTERED]).arun("Change the file."))
    assert secret_file.content == FILE.replace("plain = yes", "plain = no")
    assert not any(secret in result.text for secret in KNOWN)


def test_a_tool_that_does_not_write_gets_the_placeholder() -> None:
    secret_file = SecretFile()
    send = copy_with(lambda seen: call("send", text=seen))
    wait(agent(send, *secret_file.tools, loop=True, secrets=[REGISTERED]).arun("Send the file."))
    assert len(secret_file.sent) == 1
    assert not any(secret in secret_file.sent[0] for secret in KNOWN)
    assert "[redacted:" in secret_file.sent[0]


def test_a_placeholder_of_another_run_is_not_written() -> None:
    secret_file = SecretFile()
    first = wait(agent([call("read"), "done"], *secret_file.tools, secrets=[REGISTERED]).arun("Read."))
    seen = str(first.results[0].content)
    result = wait(agent([call("write", content=seen), "done"], *secret_file.tools, secrets=[REGISTERED]).arun("Write."))
    assert secret_file.content == FILE
    assert "stands for a secret that is not known any more" in str(result.results[0].content)


def test_text_about_placeholders_is_written_as_it_is() -> None:
    secret_file = SecretFile()
    text = "Results show `[redacted:github_token]` or `[redacted:github_token#1]` there."
    wait(agent([call("write", content=text), "done"], *secret_file.tools).arun("Write."))
    assert secret_file.content == text


def test_the_caller_may_let_the_model_see_everything() -> None:
    secret_file = SecretFile()
    result = wait(agent([call("read"), "done"], *secret_file.tools, scrub=False).arun("Read."))
    assert result.results[0].content == FILE


def test_keys_of_providers_and_of_the_environment_are_known_without_registration() -> None:
    key, other = "k3y-0f-the-provider-itself", "v4lue-of-a-variable"

    @dragoman.tool
    def environment() -> str:
        return f"A {key} B {other} C"

    model = ScriptedModel([call("environment"), "done"])
    made = Agent(
        model.endpoint(),
        [environment],
        connection=Connection(transport=model, environment={"DEPLOY_TOKEN": other}),
        key=key,
    )
    content = str(wait(made.arun("hi")).results[0].content)
    assert key not in content and other not in content
    assert content.startswith("A [redacted:") and content.endswith(" C")


# ---- people and logs -------------------------------------------------------------------------------------------------


def test_events_logs_and_the_journal_hold_no_secret(tmp_path: Path) -> None:
    secret_file = SecretFile()
    events: list[RunEvent] = []
    journal = MemoryJournal()
    log = tmp_path / "log.jsonl"

    @dragoman.tool
    def fail(token: str) -> str:
        raise ValueError(f"cannot use {REGISTERED}")

    replies = [call("read"), call("fail", token=TOKEN), f"I know {REGISTERED} and {TOKEN}."]
    made = agent(replies, *secret_file.tools, fail, secrets=[REGISTERED], listeners=[JsonLog(log)], journal=journal)

    async def scenario() -> Any:
        result = await made.arun("hi", on_event=events.append)
        return result, await journal.read(result.run_id)

    result, records = wait(scenario())
    written = log.read_text(encoding="utf-8")
    told = "".join(str(event) for event in events)
    for secret in KNOWN:
        assert secret not in written
        assert secret not in told
    results = b"".join(record.body for record in records if record.kind == "finished").decode()
    assert not any(secret in results for secret in KNOWN)
    assert REGISTERED in result.text, "the caller gets the answer unchanged"
    started = [event for event in events if isinstance(event, ToolStarted)]
    assert started[1].call.arguments["token"].startswith("[redacted:")
    assert any(isinstance(event, ToolEnded) for event in events)
    assert any(isinstance(event, TurnEnded) for event in events)
    ended = events[-1]
    assert isinstance(ended, RunEnded) and REGISTERED not in ended.result.text


def test_a_tool_runs_with_the_arguments_as_they_are() -> None:
    got: list[str] = []

    @dragoman.tool
    def login(token: str) -> str:
        got.append(token)
        return "in"

    wait(agent([call("login", token=TOKEN), "done"], login, listeners=[lambda run_id, event: None]).arun("hi"))
    assert got == [TOKEN]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


SPOKEN = f"The deploy uses {TOKEN} today, and the word is {REGISTERED}. Nothing else.\n{PASSWORD}\nDone, said he."


@given(st.lists(st.integers(0, 10_000), max_size=40), st.sampled_from([TextDelta, ThinkingDelta]))
def test_60_a_secret_that_is_spoken_in_pieces_is_shown_in_none_of_them(cuts: list[int], kind: Any) -> None:
    hider = EventRedactor(HumanSink([REGISTERED]))
    shown: list[Any] = []
    for piece in pieces_of(SPOKEN, cuts):
        shown += hider.show(kind(piece))
    shown += hider.show(TurnEnded(1, dragoman.types.Usage()))
    spoken = "".join(event.text for event in shown if isinstance(event, kind))
    assert not any(secret in spoken for secret in KNOWN)
    assert spoken.startswith("The deploy uses [redacted:") and spoken.endswith("Done, said he.")
    assert isinstance(shown[-1], TurnEnded)


def test_60_every_single_cut_hides_the_same() -> None:
    whole = "".join(event.text for event in redact_all([SPOKEN]))
    for cut in range(1, len(SPOKEN)):
        assert "".join(event.text for event in redact_all([SPOKEN[:cut], SPOKEN[cut:]])) == whole


def redact_all(pieces: list[str]) -> list[Any]:
    hider = EventRedactor(HumanSink([REGISTERED]))
    shown = [event for piece in pieces for event in hider.show(TextDelta(piece))]
    shown += hider.show(TurnEnded(1, dragoman.types.Usage()))
    return [event for event in shown if isinstance(event, TextDelta)]


@given(st.lists(st.text(alphabet="ab c.\n", min_size=1, max_size=9), max_size=20))
def test_text_without_secrets_is_unchanged(pieces: list[str]) -> None:
    assert "".join(event.text for event in redact_all(pieces)) == "".join(pieces)


def test_arguments_in_pieces_are_hidden_too_and_calls_are_kept_apart() -> None:
    hider = EventRedactor(HumanSink([REGISTERED]))
    shown: list[Any] = []
    for event in (
        ArgumentsDelta(0, '{"word": "' + REGISTERED[:9]),
        ArgumentsDelta(0, REGISTERED[9:] + '"}'),
        ArgumentsDelta(1, '{"plain": '),
        ArgumentsDelta(1, "1}"),
    ):
        shown += hider.show(event)
    shown += hider.show(TurnEnded(1, dragoman.types.Usage()))
    by_call = {
        index: "".join(event.text for event in shown if isinstance(event, ArgumentsDelta) and event.index == index)
        for index in (0, 1)
    }
    assert REGISTERED not in by_call[0] and by_call[0].startswith('{"word": "')
    assert by_call[1] == '{"plain": 1}'


def test_what_a_run_leaves_for_the_next_one_is_scrubbed_too() -> None:
    secret_file = SecretFile()
    journal = MemoryJournal()
    requests: list[str] = []

    def say(request: Request) -> Any:
        requests.append(shown_to_the_model(request))
        return call("read") if len(requests) == 1 else "yes"

    made = agent(say, *secret_file.tools, loop=True, secrets=[REGISTERED], journal=journal)

    async def scenario() -> None:
        await made.arun("Read.", session="s")
        await made.arun("And?", session="s")

    wait(scenario())
    assert len(requests) == 3 and "plain = yes" in requests[2]
    assert not any(secret in requests[2] for secret in KNOWN)


def test_results_of_several_parts_are_scrubbed_part_by_part() -> None:
    from dragoman.agent.redaction import hide_secrets
    from dragoman.secrets import ModelSink
    from dragoman.types import ToolResult

    image = Image(data="aGk=", media_type="image/png")
    result = ToolResult("c", "x", [Text(f"a {TOKEN}"), image, Text("b")], data={"raw": TOKEN})
    hidden = hide_secrets(result, ModelSink())
    assert TOKEN not in str(hidden.content)
    assert hidden.content[1] is image and hidden.data == {"raw": TOKEN}
    assert hide_secrets(replace(result, content="plain"), ModelSink()).content == "plain"
    assert Message("tool", [hidden]).parts[0] is hidden


def test_names_and_addresses_in_a_result_are_hidden_in_events() -> None:
    @dragoman.tool
    def look() -> list[Image | File]:
        """Look."""
        address = f"https://reader:{REGISTERED}@example.org/{TOKEN}"
        return [Image(url=address), File(f"{TOKEN}.txt", url=address)]

    # The model calls a tool by the name of a secret that it read.
    model = ScriptedModel([call("look"), call(REGISTERED), "Done."])
    listed = Agent(model, tools=[look], safety=dragoman.Safety(secrets=[REGISTERED]))

    async def follow() -> list[RunEvent]:
        return [event async for event in listed.stream("Look.")]

    events = [event for event in wait(follow()) if isinstance(event, ToolEnded | TurnEnded | RunEnded)]
    assert len(events) > 3
    assert not any(secret in repr(event) for event in events for secret in KNOWN)


# ---- every type of event -------------------------------------------------------------------------------------------


class Unlisted(msgspec.Struct, frozen=True):
    """An event type that somebody adds and forgets to enter in the table."""

    words: str
    notes: list[Noticed]
    pairs: dict[str, str]
    count: int = 3


def test_an_event_type_that_is_in_no_table_is_redacted() -> None:
    redactor = EventRedactor(HumanSink([REGISTERED]))
    event = Unlisted(f"key {REGISTERED}", [Noticed("watch", f"it said {TOKEN}")], {"note": REGISTERED})
    (shown,) = redactor.show(event)  # type: ignore[arg-type]
    assert type(shown) is Unlisted and shown.count == 3
    assert not any(secret in repr(shown) for secret in KNOWN)

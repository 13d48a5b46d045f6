"""Conversations as text, for a model that reads and writes only text; written and read back."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.events import CallBroken, CallEnded
from dragoman.extraction.control_tokens import MARK, break_everything, break_tokens, mend_tokens
from dragoman.extraction.text_results import (
    Envelope,
    choose_boundary,
    open_results,
    seal_results,
    strip_invented_results,
)
from dragoman.formats import Format, Parsed
from dragoman.formats.prompt import sample_calls, vary_arguments
from dragoman.formats.renderer import difference
from dragoman.toolset import Toolset
from dragoman.types import (
    Fault,
    File,
    Image,
    InvalidCall,
    Message,
    Part,
    Provenance,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire.failures import Loss
from dragoman.wire.history import Turn, pair
from dragoman.wire.values import join_texts, plain_result

# --------------------------------------------------------------------------------------------------------------------
# The assistant's side: its text and calls as one text in a format, and back.

FALLBACK = "fenced"
"""The format for calls that the model's own format cannot express. It writes JSON, which can express everything."""
_PROBE = ToolCall("", "zz_name", {"zz_key": "1"})


class RenderedText(Struct, frozen=True):
    """A text, and the changes that were necessary so that it reads back correctly."""

    text: str
    exact: bool = True
    format: str = ""
    broken: bool = False


class AssistantWriter:
    """Writes and reads the assistant's side of a conversation in one format."""

    def __init__(self, format: str | Format, tools: Toolset | None = None) -> None:
        self.row = format if isinstance(format, Format) else formats.get(format)
        self._format = format
        fallback = formats.get(FALLBACK)
        self._rows = (self.row,) if self.row is fallback else (self.row, fallback)
        if tools is not None and _carries_types(self.row):
            # The history stays unchanged: a schema would coerce arguments that do not fit it.
            tools = Toolset(Tool(tool.name) for tool in tools)
        self._tools = tools

    def parse(self, text: str) -> Parsed:
        """Parse a text of this format. Calls in the fallback format are read as well."""
        return formats.parse(text, self._format, self._tools, extra=self._rows[1:])

    def read_text(self, parsed: Parsed) -> str:
        return mend_tokens(parsed.text.strip())

    def write(self, text: str, raws: Sequence[str], calls: Sequence[ToolCall]) -> RenderedText:
        """Join the trimmed text, calls that could not be read, and the calls, with newlines."""
        text = text.strip()
        wanted = [call for raw in raws for call in self.parse(raw).calls] + list(calls)
        first: RenderedText | None = None
        for format, rendered in self._render(calls):
            for shown in _ways_to_show(text):
                joined = "\n".join(filter(None, (shown, *raws, rendered)))
                written = RenderedText(joined, format=format, broken=shown != text)
                first = first or written
                if self._reads_back(written.text, None if raws else text, wanted):
                    return written
        return RenderedText(first.text if first else "\n".join(filter(None, (text, *raws))), exact=False)

    def _render(self, calls: Sequence[ToolCall]) -> Iterator[tuple[str, str]]:
        for row in self._rows:
            try:
                yield row.name, formats.render(calls, row) if calls else ""
            except (CannotExpress, ValueError, RecursionError):
                continue

    def _reads_back(self, written: str, text: str | None, calls: Sequence[ToolCall]) -> bool:
        parsed = self.parse(written)
        return (
            [call.name for call in parsed.calls] == [call.name for call in calls]
            and all(difference(a.arguments, b.arguments) is None for a, b in zip(calls, parsed.calls, strict=True))
            and (text is None or (self.read_text(parsed) == text and not parsed.thinking and not parsed.broken))
        )


def _ways_to_show(text: str) -> Iterator[str]:
    """Yield a text unchanged; if that would be read as more than text, with few, then all, control strings broken."""
    if MARK not in text:
        yield text
    if text:
        yield break_tokens(text).text
        yield break_everything(text)


def _carries_types(row: Format) -> bool:
    """Whether `"1"` reads back as text without a schema."""
    try:
        written = formats.render([_PROBE], row)
    except CannotExpress:
        return False
    return [call.arguments for call in formats.parse(written, row).calls] == [_PROBE.arguments]


# --------------------------------------------------------------------------------------------------------------------
# Examples instead of explanations, for very small models.
#
# A model of a hundred million parameters does not follow a description of a format, but it continues a pattern. So the
# prompt shows one invented request for each of the first tools with its call, once with a result and an answer, and two
# exchanges without a call.

MOST = 6
"""The number of tools in examples. Each costs about forty tokens, and the model remembers the last one best."""
_GREETING = ("Hello!", "Hello! How can I help?")
_THANKS = ("Thank you!", "You are welcome!")
# A constant boundary keeps the start of prompts equal. The content of this envelope is known to be harmless.
_BOUNDARY = "example"
_RESULT = "42"
_ANSWER = "The result is 42."


def write_examples(tools: Iterable[Tool], format: str | Format, *, replies: bool = True) -> list[Message]:
    """Return a short conversation that shows the format. Without `replies`, it contains only calls.

    Such a model continues like the last exchange. So the last one is a call, after the exchanges without a call.
    """
    offered = list(tools)[:MOST]
    shown: list[list[Message]] = []
    for tool, (name, arguments) in zip(offered, sample_calls(offered), strict=False):
        is_form = any(isinstance(value, dict) and value for value in arguments.values())
        # A model copies a value that is in no request, and one that every example has.
        varied = vary_arguments(arguments, tool.parameters, 2) if is_form else [arguments]
        try:
            exchanges = [_chat(_request(tool, each), formats.render([(name, each)], format)) for each in varied]
        except CannotExpress:
            continue
        exchange = exchanges[0]
        if is_form and len(offered) == 1:
            shown += exchanges
            break
        if not shown and replies:
            result = seal_results([ToolResult("example", name, _RESULT)], boundary=_BOUNDARY)
            exchange += [_say("user", result), _say("assistant", _ANSWER)]
        shown.append(exchange)
    if len(shown) == 1 and replies:
        shown.append(shown[0][:2])
    if shown and replies:
        middle = len(shown) // 2
        shown = [_chat(*_GREETING), *shown[:middle], _chat(*_THANKS), *shown[middle:]]
    return [message for exchange in shown for message in exchange]


def _chat(said: str, answered: str) -> list[Message]:
    return [_say("user", said), _say("assistant", answered)]


def _request(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return a request that a user may have made for this call: the description, and the values."""
    described = tool.description.strip().split("\n", 1)[0] or tool.name.replace("_", " ")
    values = " ".join(str(value) for value in arguments.values() if isinstance(value, str | int | float))
    forms = [form for form in arguments.values() if isinstance(form, dict)]
    facts = [pair for form in forms for pair in form.items() if isinstance(pair[1], str | int | float)]
    if facts:
        asked = [f"{described} {values}."] if values else []
        return " ".join([*asked, *(f"The {name} is {value}." for name, value in facts)])
    return f"{described} {values}".strip()


def _say(role: Any, text: str) -> Message:
    return Message(role, [Text(text)])


# --------------------------------------------------------------------------------------------------------------------
# A conversation for a model that reads and writes only text.

_opens_results = re.compile(r"<<result ([A-Za-z0-9_\-]+) ").match


class Rendered(Struct, frozen=True):
    """A conversation as text, its losses, and the boundaries that were used, in order."""

    messages: list[Message]
    losses: list[Loss]
    boundaries: tuple[str, ...] = ()


def render_history(
    messages: Iterable[Message],
    format: str | Format,
    *,
    boundaries: Iterable[str] = (),
    tools: Toolset | Iterable[object] | None = None,
    envelope: Envelope = "boundary",
) -> Rendered:
    """Write a conversation for a text model: calls in its format, the results of a turn in one user message.

    `boundaries` are random strings, at least one for each turn with results. With the same ones, a longer conversation
    begins with the same bytes, so that prompt caches match.
    """
    losses: list[Loss] = []
    turns = [Turn(place, each.role, list(each.parts), each.extra) for place, each in enumerate(messages)]
    renderer = _Renderer(AssistantWriter(format, Toolset.of(tools)), envelope, iter(boundaries), losses)
    written = [message for turn in pair(turns, losses) for message in renderer.render(turn)]
    return Rendered(written, losses, tuple(renderer.used))


class _Renderer:
    def __init__(
        self, writer: AssistantWriter, envelope: Envelope, boundaries: Iterator[str], losses: list[Loss]
    ) -> None:
        self._writer = writer
        self._envelope = envelope
        self._boundaries = boundaries
        self._losses = losses
        self._taken: set[str] = set()
        self.used: list[str] = []

    def render(self, turn: Turn) -> Iterator[Message]:
        if turn.role == "assistant":
            yield self._render_assistant(turn)
        elif turn.role == "tool":
            if turn.parts:
                yield self._render_results(turn)
        else:
            opened = [_opens_results(part.text) for part in turn.parts if isinstance(part, Text)]
            self._taken.update(match[1] for match in opened if match)
            yield Message(turn.role, turn.parts, turn.extra)

    def _lose(self, rule: str, turn: Turn, detail: str) -> None:
        self._losses.append(Loss(rule, f"message {turn.place}", detail))

    # ---- the assistant -----------------------------------------------------------------------------------------------

    def _render_assistant(self, turn: Turn) -> Message:
        text = self._take_text(turn)
        raws, notes = self._take_invalid(turn)
        calls = [part for part in turn.parts if isinstance(part, ToolCall)]
        written = self._writer.write("\n".join(filter(None, [text, *notes])), raws, calls)
        if not written.exact:
            self._lose("approximated", turn, "no format can express this message unchanged")
        elif calls and written.format != self._writer.row.name:
            self._lose("approximated", turn, f"{self._writer.row.name} cannot express the calls; {written.format} does")
        if written.broken:
            self._lose("approximated", turn, "control strings in text that would be read as a call were broken")
        media: list[Part] = [part for part in turn.parts if isinstance(part, Image | File)]
        if turn.extra:
            self._lose("dropped", turn, f"data that only {', '.join(sorted(turn.extra))} understands was left out")
        return Message("assistant", [*([Text(written.text)] if written.text else ()), *media])

    def _take_text(self, turn: Turn) -> str:
        if any(isinstance(part, Thinking) for part in turn.parts):
            self._lose("dropped", turn, "reasoning was left out")
        said = False
        for part in turn.parts:
            if isinstance(part, ToolCall | InvalidCall):
                said = True
            elif said and isinstance(part, Text) and part.text.strip():
                self._lose("moved", turn, "text after a call was moved before it")
                break
        text, invented = strip_invented_results(join_texts(turn.parts), beside_calls=said)
        if invented:
            self._lose("dropped", turn, "a result that the model made up was left out")
        return text.strip()

    def _take_invalid(self, turn: Turn) -> tuple[list[str], list[str]]:
        """Write calls that could not be read: unchanged if they were text, otherwise as a description."""
        raws: list[str] = []
        notes: list[str] = []
        for part in turn.parts:
            if isinstance(part, InvalidCall):
                if part.raw and part.provenance is not None and part.provenance.channel == "text":
                    raws.append(part.raw.strip())
                else:
                    notes.append(f"[a call of {part.name or 'a tool'} that could not be read: {part.raw}]")
                    self._lose("approximated", turn, f"the call {part.id} that could not be read became text")
        return raws, notes

    # ---- results -----------------------------------------------------------------------------------------------------

    def _render_results(self, turn: Turn) -> Message:
        results = [part for part in turn.parts if isinstance(part, ToolResult)]
        media: list[Part] = []
        for result in results:
            if not isinstance(result.content, str):
                found = [part for part in result.content if not isinstance(part, Text)]
                if found:
                    self._lose(
                        "moved", turn, f"images and files of the result of {result.name} were moved after its text"
                    )
                media += found
        boundary = self._choose_boundary(results)
        text = seal_results(results, boundary=boundary, envelope=self._envelope)
        if self._envelope == "seed":
            self._lose("approximated", turn, "the results have no ids, and their content could forge them")
        return Message("user", [Text(text), *media])

    def _choose_boundary(self, results: Sequence[ToolResult]) -> str:
        if self._envelope == "seed":
            return ""
        free = (candidate for candidate in self._boundaries if candidate not in self._taken)
        boundary = choose_boundary(free, map(plain_result, results))
        self._taken.add(boundary)
        self.used.append(boundary)
        return boundary


# --------------------------------------------------------------------------------------------------------------------
# A conversation that was written for a text model, read back as calls and results.


def read_history(
    messages: Iterable[Message],
    format: str | Format,
    *,
    boundaries: Iterable[str] = (),
    tools: Toolset | Iterable[object] | None = None,
    envelope: Envelope = "boundary",
) -> list[Message]:
    """Read the conversation that `render_history` wrote, with the same format, tools and boundaries.

    Only an envelope with the next of these boundaries contains results. Anything else that looks like one is text.
    """
    reader = _Reader(AssistantWriter(format, Toolset.of(tools)), envelope, boundaries)
    for message in messages:
        reader.read(message)
    return reader.out


class _Reader:
    def __init__(self, writer: AssistantWriter, envelope: Envelope, boundaries: Iterable[str]) -> None:
        self._writer = writer
        self._envelope: Envelope = envelope
        self._expected = deque(boundaries)
        self._count = 0
        self.out: list[Message] = []

    def read(self, message: Message) -> None:
        if message.role == "assistant":
            self.out.append(Message("assistant", self._read_assistant(message)))
            return
        results: list[ToolResult] = []
        rest: list[Part] = []
        for part in message.parts:
            opened = self._open(part.text) if isinstance(part, Text) and message.role == "user" else []
            results += opened
            rest += [] if opened else [part]
        if results:
            self.out.append(Message("tool", self._match(results)))
        if rest or not results:
            self.out.append(Message(message.role, rest, message.extra))

    def _read_assistant(self, message: Message) -> list[Part]:
        parsed = self._writer.parse(join_texts(message.parts))
        text = self._writer.read_text(parsed)
        parts: list[Part] = [Text(text)] if text else []
        for event in parsed.events:
            if isinstance(event, CallEnded | CallBroken):
                self._count += 1
                parts.append(_as_part(event, f"call_{self._count}"))
        return [*parts, *(part for part in message.parts if not isinstance(part, Text))]

    def _open(self, text: str) -> list[ToolResult]:
        if self._envelope == "seed":
            follows = bool(self.out) and self.out[-1].role == "assistant"
            return open_results(text, envelope="seed") if follows else []
        if not self._expected:
            return []
        results = open_results(text, boundary=self._expected[0])
        if results:
            self._expected.popleft()
        return results

    def _match(self, results: list[ToolResult]) -> list[Part]:
        """Give calls and results common ids. They have the same order, and most formats write no ids."""
        said = list(self.out[-1].parts) if self.out and self.out[-1].role == "assistant" else []
        places = [place for place, part in enumerate(said) if isinstance(part, ToolCall | InvalidCall)]
        if len(places) != len(results):
            return list(results)
        matched: list[Part] = []
        for place, result in zip(places, results, strict=True):
            call = said[place]
            assert isinstance(call, ToolCall | InvalidCall)
            if result.call_id:
                said[place] = replace(call, id=result.call_id)
            matched.append(result if result.call_id else replace(result, call_id=call.id))
        self.out[-1] = replace(self.out[-1], parts=said)
        return matched


def _as_part(event: CallEnded | CallBroken, identity: str) -> ToolCall | InvalidCall:
    if isinstance(event, CallEnded):
        return replace(event.call, id=identity)
    provenance = Provenance("text", event.format, event.span)
    return InvalidCall(identity, event.name or "", event.raw, (Fault("$", event.why),), provenance)

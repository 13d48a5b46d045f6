"""Tool mode: native or text tool calls, the request for either, and the reader of the reply."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman import formats
from dragoman.errors import CannotExpress, ConfigError
from dragoman.events import CallBroken, CallEnded, CallRefused, Event
from dragoman.extraction import ConversationContext, Extraction, Extractor
from dragoman.extraction.judge import Settings, ToolNames
from dragoman.extraction.text_history import render_history, write_examples
from dragoman.extraction.text_results import STOP_SEQUENCES, explain_results
from dragoman.extraction.trust import Profile, get_profile
from dragoman.formats import Format
from dragoman.formats.prompt import Layout, sample_calls
from dragoman.providers import Endpoint
from dragoman.providers.provider import overrule
from dragoman.providers.registry import overlay
from dragoman.toolset import Toolset
from dragoman.types import (
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolModeName,
    ToolResult,
)
from dragoman.wire import registry as wires
from dragoman.wire.failures import Loss
from dragoman.wire.options import Choice, read_choice
from dragoman.wire.quirks import Quirks

# --------------------------------------------------------------------------------------------------------------------
# Constrained output: a grammar in the request, if the endpoint accepts one.
#
# A capable model is constrained only if the caller requires a call, because in text mode nothing else enforces that. A
# weak model is always constrained, also against endless output.

_WEAK: dict[str, Any] = {"most_calls": 1, "most_items": 8, "longest_text": 200}
"""Narrower limits for very small models, which repeat themselves wherever they can."""


def constrain(tools: Toolset, format: str | Format, choice: Choice, quirks: Quirks, *, weak: bool) -> JsonObject:
    """Return the request fields that constrain the reply to the format and the tool choice; none if none are needed.

    Raises ConfigError if no grammar can be written.
    """
    if not (weak or choice.mode in ("required", "none") or choice.names) or not len(tools):
        return {}
    if not quirks.grammar_field or (quirks.grammar_syntax == "json_schema" and choice.mode != "required"):
        # An answer in words is not JSON, so a schema can only constrain a call.
        return {}
    wanted = {"mode": choice.mode, "names": list(choice.names)} if choice.names else choice.mode
    written = formats.grammar(tools, format, quirks.grammar_syntax, tool_choice=wanted, **(_WEAK if weak else {}))
    value = msgspec.json.decode(written) if quirks.grammar_syntax == "json_schema" else written
    return nest(quirks.grammar_field, value)


# ---- alternatives ----------------------------------------------------------------------------------------------------
#
# A very small model decides badly whether to call: its first token depends more on the examples than on the question.
# Its likelihoods say more than its first choice. So an endpoint that can compare them gets every choice by itself.

_MOST_WEIGHED = 16
"""Every tool costs the endpoint about six tokens for each question."""
_JOINTS = " \"'=<"
"""Characters before a name that share a token with it."""


class CallAlternative(Struct, frozen=True):
    """A call of one tool: how every call begins, how the name continues it, and the grammar of the whole call."""

    opening: str
    name: str
    grammar: str


class Alternatives(Struct, frozen=True):
    """The replies that a model may choose from: one of the calls, or words that the grammar `reply` allows."""

    reply: str
    calls: tuple[CallAlternative, ...]


def list_alternatives(tools: Toolset, format: str | Format) -> Alternatives | None:
    """Return the alternatives of a weak model; None if there are too many, or if the format cannot separate them.

    Raises ConfigError if no grammar can be written.
    """
    if not 0 < len(tools) <= _MOST_WEIGHED:
        return None
    calls: list[CallAlternative] = []
    for name, arguments in list(sample_calls(tools))[: len(tools)]:
        try:
            written, longer = (formats.render([(each, arguments)], format) for each in (name, f"{name}_"))
        except CannotExpress:
            return None
        # The first occurrence of a name may be a part of the opening, but two names differ where they end.
        end = next(place for place, (one, other) in enumerate(zip(f"{written} ", longer, strict=False)) if one != other)
        if written[end - len(name) : end] != name:
            return None
        opening = written[: end - len(name)].rstrip(_JOINTS)
        # The character behind the name tells `get` from `get_time`.
        named = written[len(opening) : end + 1]
        wanted = {"mode": "required", "names": [name]}
        calls.append(CallAlternative(opening, named, formats.grammar(tools, format, tool_choice=wanted, **_WEAK)))
    return Alternatives(formats.grammar(tools, format, tool_choice="none", **_WEAK), tuple(calls))


def nest(path: str, value: Any) -> JsonObject:
    """Return `a.b` with a value as nested objects."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


# --------------------------------------------------------------------------------------------------------------------
# The request in the tool mode of an endpoint, and the reader of the reply.
#
# Tools are sent as definitions if the endpoint has native calls, otherwise as instructions in the prompt; never as
# both. `choose_tool_mode` decides, `compose` writes the request, `open_reader` reads the reply.

Mode = Literal["", "native", "text"]
_PLAIN = "json_message"
COMPACT = "compact"
"""The rule of the loss that reports compact descriptions of tools, which nobody asked for."""
_MOST_STOPS = 4
"""Some servers accept no more stop sequences than this."""


class ToolPrompt(Struct, frozen=True, kw_only=True):
    """How tools are described to a model. The first two fields are for text mode."""

    format: str = ""
    """The text format of calls; empty means that of the model or its provider."""
    layout: Layout = "list"
    """`list`: a heading and one line per parameter. `schema`: the JSON Schemas."""
    compact: bool | None = None
    """Short descriptions: one line per tool in text mode, definitions without long descriptions in native mode. None
    decides by the size of the prompt and the window of the model."""
    defer: int | None = None
    """The tokens of definitions above which a request describes only some tools and a search for the others. None
    chooses a limit by the tool mode and the window of the model; 0 means no limit."""

    def __post_init__(self) -> None:
        if self.format:
            formats.get(self.format)
        if self.layout not in get_args(Layout):
            raise ConfigError(f"unknown layout {self.layout!r}", hint=f"use {' or '.join(get_args(Layout))}")


# ---- the size of definitions -----------------------------------------------------------------------------------------

NATIVE_LIMIT = 12_000
TEXT_LIMIT = 4_000
"""Tokens of definitions above which tools are deferred. A model without native tools follows shorter prompts."""
_CHARACTERS_PER_TOKEN = 3.0
"""Of JSON. The estimate is only compared with limits, which are estimates too."""
_TOKENS_PER_TOOL = 8
_WINDOW_SHARE = 3
_COMPACT_SHARE = 6


def count_tokens(tools: Iterable[Tool]) -> int:
    """Return about how many tokens the definitions of these tools have."""
    size = 0
    for tool in tools:
        try:
            schema = len(json.dumps(tool.parameters, ensure_ascii=False, default=str))
        except (ValueError, RecursionError):
            schema = 0
        size += _TOKENS_PER_TOOL + ceil((len(tool.name) + len(tool.description) + schema) / _CHARACTERS_PER_TOKEN)
    return size


def limit_for(window: int | None, *, native: bool, asked: int | None = None) -> int | None:
    """Return the limit of definitions in tokens: the one that was asked for, else one for the mode and the window.

    None means no limit; 0 asks for none.
    """
    if asked is not None:
        return asked or None
    limit = NATIVE_LIMIT if native else TEXT_LIMIT
    return limit if window is None else min(limit, max(window // _WINDOW_SHARE, 1))


def is_narrow(size: int, window: int) -> bool:
    """Whether definitions of this size are to be shortened for a window."""
    return size > window // _COMPACT_SHARE


def is_large(tools: Iterable[Tool], window: int | None, prompt: ToolPrompt) -> bool:
    """Whether a request may describe these tools in another way than in full, in one of the two modes."""
    if prompt.compact is True:
        return True
    size = count_tokens(tools)
    limits = [limit_for(window, native=native, asked=prompt.defer) for native in (True, False)]
    if any(limit is not None and size > limit for limit in limits):
        return True
    return prompt.compact is None and window is not None and is_narrow(size, window)


class ToolMode(Struct, frozen=True):
    """The tool mode of one endpoint with these tools. `mode` is empty without tools."""

    endpoint: Endpoint
    tools: Toolset
    mode: Mode = ""
    instructions: str = ""
    trust: str | Profile = "default"
    aliases: dict[str, str] = {}
    prompt: ToolPrompt = ToolPrompt()
    text_calls: bool = True
    """Whether calls in text count."""
    shown: Toolset | None = None
    """The tools that a request describes; None means all. Calls of the others count too."""
    found: tuple[Tool, ...] = ()
    """Tools that the model has found. Native definitions of them follow the others; in text mode the results of the
    search describe them."""

    @property
    def described(self) -> Toolset:
        """The tools that every request describes."""
        return self.tools if self.shown is None else self.shown

    def shows(self, name: str) -> bool:
        """Whether every request describes the tool of this name."""
        return name in self.described.names

    @property
    def known(self) -> Toolset:
        """The tools of which the model knows the definition."""
        return Toolset([*self.described, *self.found]) if self.found else self.described

    @property
    def format(self) -> str:
        """The text format of the instructions."""
        return self.prompt.format or self.endpoint.prompt_format

    @property
    def family(self) -> tuple[str, ...] | None:
        """The text formats of the model's family; None if they are unknown."""
        if not self.endpoint.profile.format:
            return None
        return tuple(dict.fromkeys((self.format, *self.endpoint.formats)))


class ComposedRequest(Struct, frozen=True):
    """A request to send, and what is needed to read the reply."""

    request: Request
    chosen_mode: ToolMode
    nonce: str | None = None
    losses: tuple[Loss, ...] = ()
    boundaries: tuple[str, ...] = ()
    choice: Choice = Choice()
    """The requested tool choice."""


_AUTO = Choice()


def check_text_calls(tool_mode: ToolModeName, *, text_calls: bool) -> None:
    """Raise ConfigError for text mode without calls in text."""
    if tool_mode == "text" and not text_calls:
        raise ConfigError("text mode needs calls in text", hint='use text_calls=True, or tool_mode="native"')


def choose_tool_mode(
    endpoint: Endpoint,
    tools: Toolset,
    tool_mode: ToolModeName = "auto",
    *,
    trust: str | Profile = "default",
    aliases: Mapping[str, str] | None = None,
    prompt: ToolPrompt | None = None,
    text_calls: bool = True,
    shown: Toolset | None = None,
) -> ToolMode:
    """Choose the tool mode: the one that the caller forces, else the one that the endpoint supports.

    If calls in text do not count, only native calls are left.
    """
    check_text_calls(tool_mode, text_calls=text_calls)
    if not text_calls:
        tool_mode = "native"
    is_native = tool_mode == "native"
    if tool_mode != "auto" and endpoint.capabilities.native_tool_calls is not is_native:
        forced = {"native_tool_calls": is_native}
        endpoint = replace(endpoint, capabilities=overrule(endpoint.capabilities, forced))
    chosen = ToolMode(
        endpoint,
        tools,
        trust=trust,
        aliases=dict(aliases or {}),
        prompt=prompt or ToolPrompt(),
        text_calls=text_calls,
        shown=shown,
    )
    if not len(tools):
        return chosen
    if endpoint.capabilities.native_tool_calls:
        # The codec encodes the definitions when the request is sent. Here only its existence matters.
        endpoint.check_wire()
        return replace(chosen, mode="native")
    taught = formats.instructions(chosen.described, chosen.format, layout=chosen.prompt.layout)
    return replace(chosen, mode="text", instructions=taught)


def rechoose(chosen: ToolMode, tool_mode: ToolModeName, endpoint: Endpoint | None = None) -> ToolMode:
    """Return the same choice for another tool mode or another endpoint."""
    again = choose_tool_mode(
        endpoint or chosen.endpoint,
        chosen.tools,
        tool_mode,
        trust=chosen.trust,
        aliases=chosen.aliases,
        prompt=chosen.prompt,
        text_calls=chosen.text_calls,
        shown=chosen.shown,
    )
    return replace(again, found=chosen.found)


def withhold(composed: ComposedRequest, names: Collection[str]) -> ComposedRequest:
    """Return the request without these tools, so that calls of them do not count."""
    if not names:
        return composed
    chosen = composed.chosen_mode
    kept = Toolset([tool for tool in chosen.tools if tool.name not in names])
    shown = Toolset([tool for tool in chosen.described if tool.name not in names])
    found = tuple(tool for tool in chosen.found if tool.name not in names)
    return replace(composed, chosen_mode=replace(chosen, tools=kept, shown=shown, found=found))


def compose(
    messages: Iterable[Message],
    chosen_mode: ToolMode,
    options: Mapping[str, Any] | None = None,
    *,
    nonce: str | None = None,
    boundaries: Iterable[str] = (),
) -> ComposedRequest:
    """Write the request. `nonce` and `boundaries` are random strings for text mode, from the caller."""
    wire = chosen_mode.endpoint.wire
    given = dict(options or {})
    if wire in wires.ROWS:
        # The messages are the whole conversation, so nobody else has to store it.
        given = wires.get(wire).keep_history(given)
    choice = read_choice(given) or _AUTO
    conversation = list(messages)
    if choice is not _AUTO:
        _check_choice(choice, chosen_mode)
        if _needs_grammar(choice, chosen_mode):
            # The same tools in the prompt, where a grammar can constrain the reply.
            chosen_mode = rechoose(chosen_mode, "text")
    if is_written_as_text(conversation, chosen_mode):
        return _compose_text(conversation, chosen_mode, given, choice, nonce, boundaries)
    tools = list(chosen_mode.known)
    if choice.mode == "none" and _is_ignored(choice, chosen_mode):
        tools = []
    request = Request(chosen_mode.endpoint.model, conversation, tools, given)
    return ComposedRequest(request, _reading(chosen_mode, choice), choice=choice)


def _check_choice(choice: Choice, chosen_mode: ToolMode) -> None:
    for name in choice.names:
        if chosen_mode.tools.find(name) is None:
            raise ConfigError(
                f"tool_choice names {name!r}, which is not offered",
                hint=f"offered are {', '.join(chosen_mode.tools.names)}",
            )


def _is_ignored(choice: Choice, chosen_mode: ToolMode) -> bool:
    """Whether an endpoint with native tools ignores this tool choice.

    To offer only one tool and to require a call is equivalent to naming the tool.
    """
    if chosen_mode.mode != "native" or choice.mode == "auto":
        return False
    return not {choice.kind, choice.mode} & set(chosen_mode.endpoint.quirks.tool_choice)


def _needs_grammar(choice: Choice, chosen_mode: ToolMode) -> bool:
    """Whether only a grammar can guarantee a call, so that the tools have to be offered as text."""
    return (
        choice.mode == "required"
        and chosen_mode.text_calls
        and _is_ignored(choice, chosen_mode)
        and bool(chosen_mode.endpoint.quirks.grammar_field)
    )


def _reading(chosen_mode: ToolMode, choice: Choice) -> ToolMode:
    """Return how the reply is read. If no call is wanted, none is searched for."""
    return replace(chosen_mode, tools=Toolset(()), mode="") if choice.mode == "none" else chosen_mode


def is_written_as_text(
    messages: Sequence[Message], chosen_mode: ToolMode, options: Mapping[str, Any] | None = None
) -> bool:
    """Whether the request contains calls and results as text: such a request needs boundaries."""
    if chosen_mode.mode == "text":
        return True
    if options and options.get("tool_choice") and _needs_grammar(read_choice(options) or _AUTO, chosen_mode):
        return True
    return not chosen_mode.endpoint.capabilities.native_tool_calls and any(
        isinstance(part, ToolCall | InvalidCall | ToolResult) for message in messages for part in message.parts
    )


def _compose_text(
    messages: list[Message],
    chosen_mode: ToolMode,
    options: dict[str, Any],
    choice: Choice,
    nonce: str | None,
    boundaries: Iterable[str],
) -> ComposedRequest:
    endpoint = chosen_mode.endpoint
    format = _format_of(chosen_mode, choice, nonce)
    options.pop("tool_choice", None)
    options.pop("parallel_tool_calls", None)
    offered = chosen_mode.mode == "text" and choice.mode != "none"
    taught = chosen_mode.format if isinstance(format, formats.Format) else format
    rendered = render_history(messages, taught, boundaries=boundaries, tools=chosen_mode.tools)
    written = rendered.messages
    losses = list(rendered.losses)
    if offered:
        written, why = _with_instructions(written, chosen_mode, nonce, choice)
        losses += [Loss(COMPACT, "tools", f"the instructions are compact: {why}")] if why else []
        if nonce is None:
            written = [written[0], *_show(chosen_mode, choice, format), *written[1:]]
        stops = list(options.get("stop") or ())
        if len(stops) + len(STOP_SEQUENCES) <= _MOST_STOPS:
            options["stop"] = [*stops, *STOP_SEQUENCES]
    if chosen_mode.mode == "text":
        losses += _hold(chosen_mode, options, choice, format, is_question=_is_question(messages))
    request = Request(endpoint.model, written, [], options)
    return ComposedRequest(
        request, _reading(chosen_mode, choice), nonce if offered else None, tuple(losses), rendered.boundaries, choice
    )


def _format_of(chosen_mode: ToolMode, choice: Choice, nonce: str | None) -> str | formats.Format:
    """Return the format of calls: the model's own, or plain JSON if a schema has to constrain them."""
    if nonce is not None:
        return formats.nonce_format(nonce)
    quirks = chosen_mode.endpoint.quirks
    held = quirks.grammar_field and quirks.grammar_syntax == "json_schema" and choice.mode == "required"
    return _PLAIN if held else chosen_mode.format


def _show(chosen_mode: ToolMode, choice: Choice, format: str | formats.Format) -> list[Message]:
    """Return examples for a model that learns only from examples."""
    if not chosen_mode.endpoint.profile.weak:
        return []
    tools = [tool for tool in chosen_mode.described if not choice.names or tool.name in choice.names]
    return write_examples(tools, format, replies=choice.mode == "auto")


def _is_question(messages: Sequence[Message]) -> bool:
    """Whether the conversation ends with words of the user, and not with results."""
    last = messages[-1] if messages else None
    return last is not None and last.role == "user" and all(isinstance(part, Text) for part in last.parts)


def _hold(
    chosen_mode: ToolMode,
    options: dict[str, Any],
    choice: Choice,
    format: str | formats.Format,
    *,
    is_question: bool,
) -> list[Loss]:
    """Add a grammar to the options, if one is needed. A grammar of the caller is kept."""
    endpoint = chosen_mode.endpoint
    wire, field = endpoint.wire, endpoint.quirks.grammar_field.partition(".")[0]
    own = options.get(wire)
    own = own if isinstance(own, Mapping) else {}
    if options.get("response_format") or field in own:
        return []
    try:
        held = constrain(chosen_mode.known, format, choice, endpoint.quirks, weak=endpoint.profile.weak)
        if held and is_question and endpoint.quirks.weighs_calls and choice.mode == "auto" and not choice.names:
            alternatives = list_alternatives(chosen_mode.known, format)
            held |= {"alternatives": msgspec.to_builtins(alternatives)} if alternatives is not None else {}
    except ConfigError as error:
        return [Loss("dropped", "options", f"no grammar constrains the reply: {error}")]
    if held:
        options[wire] = overlay(own, held)
    return []


def _with_instructions(
    messages: list[Message], chosen_mode: ToolMode, nonce: str | None, choice: Choice
) -> tuple[list[Message], str]:
    """Append the tools to the system prompt, or create one. Also return why the instructions are compact, or ""."""
    first = messages[0] if messages and messages[0].role == "system" else None
    existing = first.text if first is not None else None
    taught, why = _teach(existing or "", chosen_mode, nonce, choice)
    prompt = f"{existing}\n\n{taught}" if existing else taught
    head = Message("system", [Text(prompt)], first.extra if first is not None else {})
    return [head, *(messages[1:] if first is not None else messages)], why


def _teach(existing: str, chosen_mode: ToolMode, nonce: str | None, choice: Choice) -> tuple[str, str]:
    format, prompt = _format_of(chosen_mode, choice, None), chosen_mode.prompt
    taught = chosen_mode.instructions
    if nonce is not None or format != chosen_mode.format:
        taught = formats.instructions(chosen_mode.described, format, layout=prompt.layout, nonce=nonce)
    why = ""
    if prompt.compact is None:
        weak = chosen_mode.endpoint.profile.weak
        why = formats.needs_compact(f"{existing}\n\n{taught}", native=False, weak=weak) or ""
    if prompt.compact or why:
        taught = formats.instructions(chosen_mode.described, format, True, nonce=nonce)
    said = [taught, explain_results()]
    if choice.mode == "required":
        # In text mode the model learns the tool choice only from the prompt.
        said.append(f"Your next reply has to be a call of {' or '.join(choice.names) or 'one of these tools'}.")
    return "\n".join(filter(None, said)), why


def find_breach(composed: ComposedRequest, called: Iterable[str]) -> str:
    """Return how a reply violates the tool choice, or "". `called` are the names of the called tools."""
    choice, names = composed.choice, list(called)
    if choice.mode == "none" and names:
        return f"tool_choice is none, and the model called {names[0] or 'a tool'}"
    if choice.mode == "required" and not names:
        wanted = f"{choice.names[0]!r}" if choice.kind == "named" else "'required'"
        return f"tool_choice is {wanted}, and the model called nothing"
    # A call that was cut off before its name says nothing about which tool was meant.
    wrong = [name for name in names if name and choice.names and name not in choice.names]
    return f"tool_choice allows {', '.join(choice.names)}, and the model called {wrong[0]}" if wrong else ""


def open_reader(
    composed: ComposedRequest, conversation: ConversationContext | Iterable[Message] | None = None
) -> Extractor:
    """Return a Stage for the events of the reply. Its output can be displayed, and `.extraction` is the verdict."""
    chosen_mode = composed.chosen_mode
    endpoint, book = chosen_mode.endpoint, ToolNames(chosen_mode.tools, chosen_mode.aliases)
    if not isinstance(conversation, ConversationContext):
        conversation = ConversationContext(conversation, book.offered)
    settings = Settings(
        get_profile(chosen_mode.trust),
        book,
        conversation,
        endpoint.capabilities.native_tool_calls,
        nonce=composed.nonce,
        family=chosen_mode.family,
        opens_thinking=endpoint.profile.opens_thinking,
        text_calls=chosen_mode.text_calls,
    )
    return Extractor(settings)


def answer_parts(parts: Iterable[Part], text: str, calls: Iterable[ToolCall | InvalidCall]) -> list[Part]:
    """Return the parts of a reply for the history: in order, with the calls as they were read.

    `calls` are the calls and the invalid calls that were read, in any channel. A text that contained calls is replaced
    by the rest of it.
    """
    received = list(parts)
    paired, others = _pair(received, calls)
    whole = "".join(part.text for part in received if isinstance(part, Text))
    written: list[Part] = []
    placed = False
    for place, part in enumerate(received):
        if isinstance(part, Text) and text != whole:
            if not placed and text.strip():
                written.append(Text(text))
            placed = True
        elif isinstance(part, ToolCall | InvalidCall):
            written += [paired[place]] if place in paired else []
        elif not isinstance(part, Text) or part.text:
            # An empty text has no content, and some providers reject it.
            written.append(part)
    return [*written, *others]


def judge_ends(ends: Iterable[Event], extraction: Extraction, parts: Iterable[Part]) -> list[Event]:
    """The ends of calls as reading judged them: `ends` are those that the wire and the text gave, `parts` those of the
    message that is the verdict. A call that is in neither of them ends as refused."""
    judged = [part for part in parts if isinstance(part, ToolCall | InvalidCall)]
    refused = list(extraction.refused)
    events: list[Event] = []
    for end in ends:
        if not isinstance(end, CallEnded):
            continue
        found = next((part for part in judged if _is_of(part, end.call)), None)
        if found is not None:
            judged.remove(found)
            events.append(_end_call(found, end.index))
            continue
        why = next((entry.why for entry in refused if _is_of(entry.call, end.call)), "it does not count")
        events.append(CallRefused(end.call, why, end.index))
    started = {end.name: end.index for end in ends if isinstance(end, CallBroken)}
    return [*events, *(_end_call(part, started.pop(part.name, None)) for part in judged)]


def _end_call(part: ToolCall | InvalidCall, index: int | None) -> Event:
    if isinstance(part, ToolCall):
        return CallEnded(-1 if index is None else index, part)
    format = part.provenance.format if part.provenance else ""
    why = "; ".join(fault.why for fault in part.faults)
    is_cut = part.kind == "truncated"
    return CallBroken(part.raw, why, (0, 0), format, part.name, index, part.extra, part.wire_id, is_cut)


def _pair(
    parts: list[Part], calls: Iterable[ToolCall | InvalidCall]
) -> tuple[dict[int, ToolCall | InvalidCall], list[ToolCall | InvalidCall]]:
    """Return the read call for each native call, by its place, and the calls from elsewhere.

    They are paired in order, because an id that was already in use has been replaced.
    """
    found = list(calls)
    good = [call for call in found if isinstance(call, ToolCall)]
    bad = [call for call in found if isinstance(call, InvalidCall)]
    paired: dict[int, ToolCall | InvalidCall] = {}
    for place, part in enumerate(parts):
        if isinstance(part, ToolCall) and part.complete and (good or bad):
            is_bad = not good or bool(bad and not _is_of(good[0], part) and _is_of(bad[0], part))
            paired[place] = bad.pop(0) if is_bad else good.pop(0)
    for place, part in enumerate(parts):
        if isinstance(part, InvalidCall) and bad:
            paired[place] = bad.pop(0)
    return paired, [*good, *bad]


def _is_of(call: ToolCall | InvalidCall, part: ToolCall) -> bool:
    return call.id == part.id or (call.wire_id, call.raw, call.name) == (part.wire_id, part.raw, part.name)

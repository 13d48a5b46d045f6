"""The client side of Bedrock Converse: writes requests and reads replies."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from dragoman.events import Event
from dragoman.types import InvalidCall as Invalid
from dragoman.types import JsonObject, Message, Request, StopReason, Thinking, ToolCall
from dragoman.wire.aliases import IdRule
from dragoman.wire.bedrock.parts import (
    STOPS,
    WIRE,
    BlockWriter,
    as_blob,
    cited_words,
    family_of,
    find_type,
    is_servers,
    odd_type,
    open_reasoning,
    own,
    read_failure,
    read_image,
    read_usage,
)
from dragoman.wire.codec import Offer, Prepared
from dragoman.wire.eventstream import Frame
from dragoman.wire.failures import Loss
from dragoman.wire.history import History, HistoryRules
from dragoman.wire.options import (
    OptionTable,
    is_count,
    place_tools,
    read_choice,
    report_choice,
    report_format,
    settle_choice,
    unsupported_options,
)
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import Reader
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, dicts, merge_fields, parse, parse_frame, write

# --------------------------------------------------------------------------------------------------------------------
# Cache points: blocks that mark the end of a cached prefix of the prompt.
#
# They are after the last tool, after the last system block and at the end of the last two user messages, which contain
# user text or results: at most four, the limit of Bedrock.

_MARKED_MESSAGES = 2


def write_marks(body: JsonObject, cache: Any) -> JsonObject:
    """The body with cache points. One that has some already keeps those and gets no others."""
    if not cache or find_marks(body):
        return body
    point = {"cachePoint": {"type": "default", "ttl": "1h"} if cache == "1h" else {"type": "default"}}
    marked = dict(body)
    config = as_dict(body.get("toolConfig"))
    if as_list(config.get("tools")):
        marked["toolConfig"] = {**config, "tools": [*config["tools"], point]}
    if as_list(body.get("system")):
        marked["system"] = [*body["system"], point]
    messages = list(as_list(body.get("messages")))
    speaking = [place for place, message in enumerate(messages) if _can_be_marked(message)]
    for place in speaking[-_MARKED_MESSAGES:]:
        messages[place] = {**messages[place], "content": [*messages[place]["content"], point]}
    if speaking:
        marked["messages"] = messages
    return marked


def _can_be_marked(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user" and bool(as_list(message.get("content")))


def find_marks(body: JsonObject) -> list[JsonObject]:
    """All cache points of a body."""
    places = [as_dict(body.get("toolConfig")).get("tools"), body.get("system")]
    places += [message.get("content") for message in dicts(body.get("messages"))]
    return [block["cachePoint"] for blocks in places for block in dicts(blocks) if "cachePoint" in block]


def read_marks(body: JsonObject) -> tuple[JsonObject, bool | str | None]:
    """The body without its cache points, and the neutral option for them.

    Only if they stand where `write_marks` puts them: any others stay in the body, to be sent on as they are.
    """
    marks = find_marks(body)
    if not marks:
        return body, None
    cache = "1h" if any(as_dict(mark).get("ttl") == "1h" for mark in marks) else True
    plain = _without_marks(body)
    return (plain if write_marks(plain, cache) == body else body), cache


def _without_marks(body: JsonObject) -> JsonObject:
    plain = dict(body)
    config = as_dict(body.get("toolConfig"))
    if isinstance(config.get("tools"), list):
        plain["toolConfig"] = {**config, "tools": _unmarked(config["tools"])}
    if isinstance(body.get("system"), list):
        plain["system"] = _unmarked(body["system"])
    plain["messages"] = [
        {**message, "content": _unmarked(message["content"])}
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        else message
        for message in as_list(body.get("messages"))
    ]
    return plain


def _unmarked(blocks: list[Any]) -> list[Any]:
    return [block for block in blocks if not (isinstance(block, dict) and "cachePoint" in block)]


# --------------------------------------------------------------------------------------------------------------------
# The tools of a request: `toolConfig`, and what a choice among them becomes.


_MODES = {"auto": "auto", "required": "any"}


def write_definitions(offered: Offer, strict: bool) -> list[JsonObject]:
    """Every tool as a `toolSpec`. A description may not be empty: the name has to do."""
    definitions = []
    for entry in offered.tools:
        spec: JsonObject = {
            "name": entry.name,
            "description": entry.tool.description if entry.tool.description.strip() else entry.name,
            "inputSchema": {"json": entry.schema},
        }
        if entry.tool.metadata:
            spec.update(as_dict(entry.tool.metadata.get(WIRE)))
        definitions.append({"toolSpec": {**spec, "strict": True} if strict else spec})
    return definitions


def write_tools(
    request: Request, messages: list[Message], offered: Offer, quirks: Quirks, losses: list[Loss], *, free: bool
) -> JsonObject:
    """The `toolConfig` of a body; empty if none is sent.

    `free`: the model thinks within a budget, and no call can be demanded.
    """
    own = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    definitions = write_definitions(offered, quirks.strict_tools)
    named = {entry.tool.name: each for entry, each in zip(offered.tools, definitions, strict=True)}
    choice = read_choice(request.options)
    if choice is not None and choice.mode == "none":
        if not _names_called(messages):
            return {}
        losses.append(Loss("approximated", "options", "tool_choice none: the history needs its tools; it became auto"))
        choice = None
    if not named and (called := _names_called(messages)):
        losses.append(
            Loss("inserted", "tools", "bare definitions of the tools that the history calls: they must be sent")
        )
        named = {name: _define(name) for name in called}
    if not named and not any("systemTool" in entry for entry in dicts(own)):
        report_choice(request.options, losses)
        return {}
    if choice is None:
        return {"tools": place_tools(named, own)}
    chosen = settle_choice(choice, offered.name_of, quirks, losses)
    if chosen.only is not None:
        named = {ours: entry for ours, entry in named.items() if entry["toolSpec"]["name"] in chosen.only}
    said: JsonObject = {_MODES[chosen.mode]: {}} if chosen.mode in _MODES else {}
    if chosen.mode == "named":
        said = {"tool": {"name": chosen.names[0]}}
    if free and not said.keys() <= {"auto"}:
        losses.append(Loss("approximated", "options", "tool_choice: no call can be demanded of a model that thinks"))
        said = {"auto": {}}
    return {"tools": place_tools(named, own), **({"toolChoice": said} if said else {})}


def _names_called(messages: list[Message]) -> list[str]:
    calls = (part for message in messages for part in message.parts if isinstance(part, ToolCall | Invalid))
    return list(dict.fromkeys(call.name for call in calls))


def _define(name: str) -> JsonObject:
    return {"toolSpec": {"name": name, "description": name, "inputSchema": {"json": {"type": "object"}}}}


# --------------------------------------------------------------------------------------------------------------------
# The options of a request: `inferenceConfig`, `outputConfig`, and the fields that only one family of models has.
#
# Converse passes `additionalModelRequestFields` on to the model. What Claude and Nova take there is written for them;
# for other models it is only what the caller gives as this wire's own.

OPTIONS = OptionTable(
    {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP", "stop": "stopSequences"},
    limits={"temperature": 1, "top_p": 1},
)
_LEAST_BUDGET = 1024
_LABEL = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{1,256}")
_MOST_LABELS = 16


def write_options(
    request: Request, tooling: JsonObject, thinking: JsonObject, quirks: Quirks, losses: list[Loss]
) -> JsonObject:
    """Everything in a body that is neither conversation nor tools; `thinking` is what `write_thinking` gave."""
    options = request.options
    taken = {"stream", "cache", "tool_choice", "parallel_tool_calls", "reasoning", "response_format", "metadata"}
    inference = OPTIONS.write(options, quirks, losses, taken)
    if inference.get("maxTokens") == 0:
        # Bedrock refuses a request with it, so it counts as an option without a place.
        del inference["maxTokens"]
        taken.remove("max_tokens")
    fields: JsonObject = {
        "inferenceConfig": inference,
        "outputConfig": _write_output(options, losses),
        "additionalModelRequestFields": {
            **thinking,
            **_write_additional(request, tooling, quirks, taken, losses),
        },
        "requestMetadata": _write_labels(as_dict(options.get("metadata")), losses),
    }
    losses += unsupported_options(options, taken, WIRE)
    merged = merge_fields(fields, as_dict(options.get(WIRE)))
    return {name: value for name, value in merged.items() if value != {}}


def _write_output(options: dict[str, Any], losses: list[Loss]) -> JsonObject:
    fields: JsonObject = {}
    wanted = as_dict(options.get("response_format"))
    if wanted.get("type") == "json_schema":
        named = {name: wanted[name] for name in ("name", "description") if isinstance(wanted.get(name), str)}
        report_format(wanted, ("strict",), losses, WIRE)
        definition = {"schema": write(as_dict(wanted.get("schema"))), **named}
        fields["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": definition}}
    elif wanted:
        losses.append(Loss("dropped", "options", "response_format: this wire knows only JSON by a schema"))
    effort = as_dict(options.get("reasoning")).get("effort")
    if isinstance(effort, str) and effort:
        fields["effort"] = effort
    return fields


# ---- fields of one family of models ----------------------------------------------------------------------------------


def _write_additional(
    request: Request, tooling: JsonObject, quirks: Quirks, taken: set[str], losses: list[Loss]
) -> JsonObject:
    options, family = request.options, family_of(request.model)
    fields: JsonObject = {}
    top_k = options.get("top_k")
    if quirks.sends_sampling and top_k and is_count(top_k) and family:
        taken.add("top_k")
        fields.update({"top_k": top_k} if family == "claude" else {"inferenceConfig": {"topK": top_k}})
    if options.get("parallel_tool_calls") is False and tooling:
        if family == "claude" and quirks.parallel_flag:
            fields["tool_choice"] = {
                **_in_claude_words(as_dict(tooling.get("toolChoice"))),
                "disable_parallel_tool_use": True,
            }
        else:
            losses.append(Loss("dropped", "options", "this model has no switch against parallel calls"))
    return fields


def _in_claude_words(choice: JsonObject) -> JsonObject:
    if "tool" in choice:
        return {"type": "tool", "name": choice["tool"]["name"]}
    return {"type": "any"} if "any" in choice else {"type": "auto"}


def write_thinking(request: Request, losses: list[Loss]) -> JsonObject:
    """How the model shall think, in the words of Claude; an effort is said elsewhere, and to every model."""
    reasoning = as_dict(request.options.get("reasoning"))
    said = {name for name, value in reasoning.items() if value is not None} - {"effort"}
    if not said:
        return {}
    if family_of(request.model) != "claude":
        losses.append(
            Loss("dropped", "options", f"reasoning: only an effort can be said to this model, not {_list(said)}")
        )
        return {}
    if "summary" in said:
        losses.append(Loss("dropped", "options", "reasoning: a summary cannot be asked for"))
    if reasoning.get("enabled") is False:
        return {"thinking": {"type": "disabled"}}
    budget = reasoning.get("budget")
    if budget and is_count(budget):
        return _write_budget(budget, request.options.get("max_tokens"), losses)
    return {"thinking": {"type": "adaptive"}} if reasoning.get("enabled") is True else {}


def _write_budget(budget: Any, limit: Any, losses: list[Loss]) -> JsonObject:
    """A budget of thinking is at least 1024 tokens, and less than the whole reply may have."""
    fitting = max(budget, _LEAST_BUDGET)
    if limit and is_count(limit) and fitting >= limit:
        fitting = limit - 1
    if fitting < _LEAST_BUDGET:
        losses.append(Loss("dropped", "options", f"reasoning: max_tokens {limit} leaves no room for a budget"))
        return {}
    if fitting != budget:
        losses.append(Loss("approximated", "options", f"reasoning: the budget {budget} became {fitting}"))
    return {"thinking": {"type": "enabled", "budget_tokens": fitting}}


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _write_labels(metadata: JsonObject, losses: list[Loss]) -> JsonObject:
    """Labels for the log of requests: short texts, sixteen at the most."""
    labels = {name: value for name, value in metadata.items() if _is_label(name) and _is_label(value)}
    labels = dict(list(labels.items())[:_MOST_LABELS])
    if len(labels) < len(metadata):
        losses.append(
            Loss("dropped", "options", f"metadata: {len(metadata) - len(labels)} labels do not fit this wire")
        )
    return labels


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and _LABEL.fullmatch(value) is not None


# --------------------------------------------------------------------------------------------------------------------
# A conversation as the messages of Converse: user and assistant in turns, and no text of blanks alone.

RULES = HistoryRules(
    WIRE,
    ids=IdRule(r"[a-zA-Z0-9_.:-]+", 64),
    system="front",
    result_images=True,
    result_files=True,
    text_after_calls=True,
    first_user=True,
    merges=True,
)


def may_return(part: Thinking, model: str, quirks: Quirks) -> bool:
    """Whether reasoning can be sent back: Claude takes only what is signed or hidden."""
    signed_only = family_of(model) == "claude" and not quirks.unsigned_thinking
    return not signed_only or bool(own(part.extra).keys() & {"signature", "redacted"})


def write_messages(history: History, writer: BlockWriter, losses: list[Loss]) -> list[JsonObject]:
    """The messages of a body. Results and the words behind them make one message of the user, the results first."""
    written: list[JsonObject] = []
    for place, message in enumerate(history.messages):
        role = message.role if message.role in ("assistant", "system") else "user"
        where = f"message {place}"
        blocks: list[JsonObject] = []
        for part in message.parts:
            blocks += writer.write(part, where, documents=role == "user")
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    if not written:
        losses.append(Loss("inserted", "history", "a first user message, without which the wire takes no conversation"))
        written.append({"role": "user", "content": [{"text": "Continue."}]})
    return written


# --------------------------------------------------------------------------------------------------------------------
# Answers of Converse read: frames and whole bodies to events.

_KEPT = ("additionalModelResponseFields", "trace", "metrics", "performanceConfig", "serviceTier")


class ConverseReader(Reader):
    """Reads one answer. Blocks come one after the other; a text has no start: its first piece begins it."""

    _read_failure = staticmethod(read_failure)
    answers = ("output",)

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._kind = ""  # of the open block
        self._index: Any = None
        self._thought = False
        self._signature: list[str] = []
        self._pieces: list[str] = []  # of what is only of use as a whole: hidden reasoning, an image, a server's call
        self._citations: list[Any] = []
        self._start: JsonObject = {}
        self._result: list[Any] = []
        self._stop: StopReason = "unknown"
        self._extra: JsonObject = {}
        self._stopped = self._counted = False
        self._readers: dict[Any, Callable[[JsonObject], None]] = {
            "messageStart": self._read_start,
            "contentBlockStart": self._read_block_start,
            "contentBlockDelta": self._read_delta,
            "contentBlockStop": self._read_block_stop,
            "messageStop": self._read_stop,
            "metadata": self._read_metadata,
        }

    # ---- frames -----------------------------------------------------------------------------------------------------

    def read(self, frame: Any) -> list[Event]:
        if isinstance(frame, Frame):
            self._open_frame(frame)
        elif frame.why != "cut":
            self._break(f"a frame of the stream was damaged ({frame.why})")
        return self._builder.take()

    def _open_frame(self, frame: Frame) -> None:
        headers = frame.headers
        payload = parse_frame(frame.payload) if frame.payload else {}
        if payload is BROKEN:
            self._break(f"a frame is not JSON: {frame.payload[:200].decode('utf-8', 'replace')}")
            return
        self._doubt(payload)
        fields = as_dict(payload)
        if headers.get(":message-type") in ("exception", "error"):
            code = as_text(headers.get(":exception-type")) or as_text(headers.get(":error-code"))
            fields = fields or {"message": as_text(headers.get(":error-message"))}
            self._builder.fail(read_failure(None, fields, None, code))
            self._end()
            return
        self._read_frame(fields, headers.get(":event-type"))

    def _read_frame(self, content: Any, event: Any) -> None:
        fields: JsonObject = content
        if event not in self._readers and len(fields) == 1:
            # Some gateways, and models behind the older operation, name the event in the payload alone.
            event, fields = next((name, as_dict(value)) for name, value in fields.items())
        read = self._readers.get(event)
        if read is not None and not self._builder.ended:
            read(fields)

    def _break(self, why: str) -> None:
        # Behind the end of the message only the counts can be lost.
        if not self._stopped:
            self._builder.fail(read_failure(None, {"message": why}))
        self._end()

    def _read_start(self, fields: JsonObject) -> None:
        self._builder.start()

    def _read_block_start(self, fields: JsonObject) -> None:
        self._builder.start()
        index, start = fields.get("contentBlockIndex"), as_dict(fields.get("start"))
        use = as_dict(start.get("toolUse"))
        if use and not is_servers(use):
            self._open_call(index, use)
        elif start:
            kind = "image" if "image" in start else "opaque"
            self._switch(kind, index, anew=True)
            self._start = start

    def _open_call(self, index: Any, use: JsonObject) -> None:
        identity = use.get("toolUseId")
        said_before = self._kind == "call" and self._index == index and identity and identity == self._start.get("id")
        if not said_before:
            self._switch("call", index, anew=True)
            self._start = {"id": identity}
            self._builder.open_call(index, identity, use.get("name"), odd_type(use))
        if use.get("input"):
            self._builder.call_delta(index, arguments=use["input"])

    def _read_delta(self, fields: JsonObject) -> None:
        index, delta = fields.get("contentBlockIndex"), as_dict(fields.get("delta"))
        if "text" in delta:
            self._switch("text", index)
            self._builder.text(delta["text"])
        elif "toolUse" in delta:
            self._read_call_delta(index, as_dict(delta["toolUse"]))
        elif "reasoningContent" in delta:
            self._read_reasoning(index, as_dict(delta["reasoningContent"]))
        else:
            self._read_rare(index, delta)

    def _read_call_delta(self, index: Any, use: JsonObject) -> None:
        if self._kind == "opaque":
            self._pieces.append(as_text(use.get("input")))
            return
        self._switch("call", index)
        self._builder.call_delta(index, use.get("toolUseId"), use.get("name"), use.get("input"))

    def _read_reasoning(self, index: Any, content: JsonObject) -> None:
        if "redactedContent" in content:
            self._switch("hidden", index)
            self._pieces.append(as_blob(content["redactedContent"]))
            return
        # Whole, as in a body that came in one piece, or in pieces.
        inner = as_dict(content.get("reasoningText")) or content
        self._switch("thinking", index)
        if as_text(inner.get("text")):
            self._thought = True
            self._builder.thinking(inner["text"])
        self._signature.append(as_text(inner.get("signature")))

    def _read_rare(self, index: Any, delta: JsonObject) -> None:
        if "citation" in delta:
            self._switch("text", index)
            self._citations.append(delta["citation"])
        elif "image" in delta and self._kind == "image":
            source = as_dict(as_dict(delta["image"]).get("source"))
            self._start = {**self._start, "source": source} if "bytes" not in source else self._start
            self._pieces.append(as_blob(source.get("bytes")))
        elif "toolResult" in delta and self._kind == "opaque":
            self._result += as_list(delta["toolResult"])

    def _read_block_stop(self, fields: JsonObject) -> None:
        index = fields.get("contentBlockIndex")
        if index is None or index == self._index:
            self._end_block()
        else:
            self._builder.close_call(index)

    def _read_stop(self, fields: JsonObject) -> None:
        self._builder.start()
        self._end_block()
        self._keep_stop(fields)
        self._stopped = True
        self._builder.terminate()
        if self._counted:
            self._end()

    def _read_metadata(self, fields: JsonObject) -> None:
        self._builder.start()
        self._keep_usage(fields)
        self._counted = True
        if self._stopped:
            self._end()

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _switch(self, kind: str, index: Any, *, anew: bool = False) -> None:
        """Go on with a block, or end the open one and begin this."""
        if anew or kind != self._kind or index != self._index:
            self._end_block()
            self._kind, self._index = kind, index

    def _end_block(self) -> None:
        kind, self._kind = self._kind, ""
        if kind == "text":
            citations, self._citations = self._citations, []
            self._builder.end_part("text", {"citations": citations} if citations else None)
        elif kind == "thinking":
            self._end_thinking()
        elif kind == "hidden":
            hidden = _join_blobs(self._take_pieces())
            if hidden:
                self._builder.end_part("thinking", {"redacted": hidden})
        elif kind == "call":
            self._builder.close_call(self._index)
        elif kind:
            self._end_rare(kind)

    def _end_thinking(self) -> None:
        signature, self._signature = "".join(self._signature), []
        thought, self._thought = self._thought, False
        if thought or signature:
            signed = {"signature": signature} if signature else {}
            self._builder.end_part("thinking", {"field": "reasoningText", **signed})

    def _end_rare(self, kind: str) -> None:
        start, self._start = self._start, {}
        pieces = self._take_pieces()
        if kind == "image":
            image = as_dict(start.get("image"))
            source = as_dict(start.get("source")) or {"bytes": _join_blobs(pieces)}
            self._builder.part(read_image({"image": {**image, "source": source}}))
            return
        result, self._result = self._result, []
        use, answer = start.get("toolUse"), start.get("toolResult")
        block = start
        if isinstance(use, dict):
            given = parse("".join(pieces)) if any(pieces) else {}
            block = {"toolUse": {**use, "input": {} if given is BROKEN else given}}
        elif isinstance(answer, dict):
            block = {"toolResult": {**answer, "content": result}}
        self._builder.end_part("text", {"block": block})

    def _take_pieces(self) -> list[str]:
        pieces, self._pieces = self._pieces, []
        return pieces

    # ---- whole bodies -----------------------------------------------------------------------------------------------

    def _read_body(self, body: JsonObject) -> None:
        output = body.get("output")
        if not isinstance(output, dict) and (
            find_type(body) or isinstance(body.get("message", body.get("Message")), str)
        ):
            self._builder.fail(read_failure(None, body))
        else:
            self._builder.start()
            content = as_dict(as_dict(output).get("message")).get("content")
            for block in [{"text": content}] if isinstance(content, str) else dicts(content):
                self._read_block(block)
            self._keep_usage(body)
            self._keep_stop(body)

    def _read_block(self, block: JsonObject) -> None:
        builder = self._builder
        use = block.get("toolUse")
        if "text" in block:
            builder.text(block["text"])
            builder.end_part("text")
        elif isinstance(use, dict) and not is_servers(use):
            builder.whole_call(use.get("toolUseId"), use.get("name"), use.get("input"), odd_type(use))
        elif "reasoningContent" in block:
            text, opaque = open_reasoning(block["reasoningContent"])
            if text or len(opaque) > 1 or "redacted" in opaque:
                builder.thinking(text)
                builder.end_part("thinking", opaque)
        elif "citationsContent" in block:
            builder.text(cited_words(block))
            citations = as_list(as_dict(block["citationsContent"]).get("citations"))
            builder.end_part("text", {"citations": citations} if citations else None)
        elif "image" in block:
            builder.part(read_image(block))
        elif block:
            builder.end_part("text", {"block": block})

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _keep_stop(self, fields: JsonObject) -> None:
        reason = fields.get("stopReason")
        if isinstance(reason, str) and reason:
            self._stop = STOPS.get(reason, "unknown")
            self._extra["reason"] = reason
        self._keep(fields)

    def _keep_usage(self, fields: JsonObject) -> None:
        usage = read_usage(fields.get("usage"))
        if usage is not None:
            self._builder.usage(usage)
        self._keep(fields)

    def _keep(self, fields: JsonObject) -> None:
        self._extra.update({name: fields[name] for name in _KEPT if fields.get(name)})

    def _settle(self) -> None:
        self._end_block()
        self._builder.stop(self._stop, self._extra)


def _join_blobs(pieces: list[str]) -> str:
    """Base64 of bytes that came in pieces, each with an end of its own."""
    if len(pieces) < 2:
        return "".join(pieces)
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError):
        return "".join(pieces)

"""The client side of generateContent: writes requests and reads replies."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from dragoman.types import (
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Request,
    StopReason,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire.codec import Offer, Offered, Prepared
from dragoman.wire.failures import Loss
from dragoman.wire.gemini.parts import (
    BUDGETS,
    LEVELS,
    PLACEHOLDER,
    STOPS,
    WIRE,
    ResultWriter,
    camel,
    generation_of,
    is_anonymous,
    kind_of,
    own_of,
    read_failure,
    read_media,
    read_own,
    read_usage,
    write_own,
    write_part,
)
from dragoman.wire.history import History
from dragoman.wire.media import NO_CONTENT, omit
from dragoman.wire.options import (
    OptionTable,
    place_tools,
    read_choice,
    report_choice,
    report_format,
    settle_choice,
    unsupported_options,
)
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import SseReader
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, dicts, parse, show

# --------------------------------------------------------------------------------------------------------------------
# A call whose arguments come in pieces, each with the place where it belongs, as Vertex streams them.

_DEEPEST = 64
_step = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""").match
_unescape = re.compile(r"\\(.)", re.DOTALL).sub


def read_path(path: str) -> list[str | int] | None:
    """The steps of a JSON path such as `$.places[0]['name']`; None for one that cannot be followed."""
    steps: list[str | int] = []
    position = 1
    while position < len(path):
        found = _step(path, position)
        if found is None or len(steps) == _DEEPEST:
            return None
        bare, index, *quoted = found.groups()
        name = next((_unescape(r"\1", text) for text in quoted if text is not None), bare)
        steps.append(int(index) if index is not None else name)
        position = found.end()
    return steps if path.startswith("$") and steps else None


class PartialCall:
    """One call in the making. `sound` is False once a piece of its arguments came that fits nowhere."""

    def __init__(self, call: JsonObject) -> None:
        arguments = call.get("args")
        self.id, self.name = call.get("id"), call.get("name")
        self.key = object()
        self.own: JsonObject = {}
        self.is_passed = False  # another call began behind it
        copied = parse(show(arguments)) if isinstance(arguments, dict) else {}
        self._root: JsonObject = copied if copied is not BROKEN else {}
        self._growing: dict[str, tuple[Any, str | int, list[str]]] = {}  # texts that will continue, by their path
        self.sound = True

    def add(self, pieces: Any) -> None:
        for piece in dicts(pieces):
            self._add(camel(piece))

    def _add(self, piece: JsonObject) -> None:
        path = as_text(piece.get("jsonPath"))
        text = piece.get("stringValue")
        growing = self._growing.get(path)
        if growing is not None and (text is None or isinstance(text, str)):
            growing[2].append(text or "")
        else:
            place = self._make_place(path)
            if place is None:
                self.sound = False
                return
            container, key = place
            if isinstance(text, str):
                growing = self._growing[path] = (container, key, [text])
            else:
                container[key] = _value_of(piece)
        if growing is not None and piece.get("willContinue") is not True:
            self._settle(path)

    def _settle(self, path: str) -> None:
        container, key, pieces = self._growing.pop(path)
        container[key] = "".join(pieces)

    def _make_place(self, path: str) -> tuple[Any, str | int] | None:
        """The container and key that a path leads to, with everything on the way there."""
        steps = read_path(path)
        if steps is None:
            return None
        at: Any = self._root
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if not _takes(at, step):
                return None
            fresh: Any = None if following is None else [] if isinstance(following, int) else {}
            if isinstance(at, list) and step == len(at):
                at.append(fresh)
            elif isinstance(at, dict) and step not in at:
                at[step] = fresh
            if following is None:
                return at, step
            at = at[step]
        return None

    @property
    def is_growing(self) -> bool:
        """Whether a text was announced to continue and has not ended."""
        return bool(self._growing)

    def finish(self) -> JsonObject:
        """The arguments as far as they came."""
        for path in list(self._growing):
            self._settle(path)
        return self._root


def _takes(container: Any, step: str | int) -> bool:
    """Whether a step can be made here: names into objects, and in lists no further than one behind the last."""
    if isinstance(step, int):
        return isinstance(container, list) and step <= len(container)
    return isinstance(container, dict)


def _value_of(piece: JsonObject) -> Any:
    for name in ("numberValue", "boolValue"):
        if piece.get(name) is not None:
            return piece[name]
    return None


# --------------------------------------------------------------------------------------------------------------------
# Options of a request as the fields of generateContent that are neither conversation nor tools.

OPTIONS = OptionTable(
    {
        "max_tokens": "maxOutputTokens",
        "temperature": "temperature",
        "top_p": "topP",
        "top_k": "topK",
        "seed": "seed",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
        "stop": "stopSequences",
    }
)


def write_config(request: Request, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The neutral options, in this wire's words."""
    options = request.options
    taken = {"stream", "tool_choice", "parallel_tool_calls", "reasoning", "response_format"}
    config = OPTIONS.write(options, quirks, losses, taken)
    config.update(_write_format(as_dict(options.get("response_format")), losses))
    thinking = _write_thinking(as_dict(options.get("reasoning")), request.model, losses)
    if thinking:
        config["thinkingConfig"] = thinking
    losses += unsupported_options(options, taken, WIRE)
    return {"generationConfig": config} if config else {}


def _write_format(wanted: JsonObject, losses: list[Loss]) -> JsonObject:
    if wanted.get("type") not in ("json", "json_schema"):
        return {}
    config: JsonObject = {"responseMimeType": "application/json"}
    if wanted["type"] == "json_schema":
        config["responseJsonSchema"] = as_dict(wanted.get("schema"))
        report_format(wanted, ("name", "strict", "description"), losses, WIRE)
    return config


def _write_thinking(reasoning: JsonObject, model: str, losses: list[Loss]) -> JsonObject:
    config: JsonObject = {}
    if reasoning.get("summary"):
        config["includeThoughts"] = True
    effort = reasoning.get("effort")
    if reasoning.get("enabled") is False or effort == "none":
        return {**config, "thinkingBudget": 0}
    if isinstance(reasoning.get("budget"), int):
        return {**config, "thinkingBudget": reasoning["budget"]}
    if isinstance(effort, str):
        return {**config, **_write_effort(effort, model, losses)}
    if reasoning.get("enabled") is True:
        # The model decides how much.
        return {**config, "thinkingBudget": -1}
    return config


def _write_effort(effort: str, model: str, losses: list[Loss]) -> JsonObject:
    level = LEVELS.get(effort.lower())
    if level is None:
        losses.append(Loss("dropped", "options", f"reasoning: this wire knows no effort {effort!r}"))
        return {}
    if 0 < generation_of(model) < 3:
        losses.append(Loss("approximated", "options", f"reasoning: effort {effort} became a budget for {model}"))
        return {"thinkingBudget": BUDGETS[level]}
    if level != effort.upper():
        losses.append(Loss("approximated", "options", f"reasoning: effort {effort} became {level}"))
    return {"thinkingLevel": level}


def add_own(body: JsonObject, request: Request, losses: list[Loss]) -> JsonObject:
    """The body with the fields that only this wire has, which count before anything translated."""
    own = as_dict(request.options.get(WIRE))
    for name, value in own.items():
        if name != "tools":
            body[name] = _merge(body.get(name), value)
    config = as_dict(body.get("generationConfig"))
    if "responseSchema" in config:
        # The two forms of one schema exclude each other; this one came from the client itself.
        body["generationConfig"] = {name: value for name, value in config.items() if name != "responseJsonSchema"}
    if "cachedContent" in own:
        for name in ("systemInstruction", "tools", "toolConfig"):
            if body.pop(name, None) is not None:
                losses.append(Loss("dropped", name, "it has to be in the cache that the request names"))
    return body


def _merge(ours: Any, own: Any) -> Any:
    if not isinstance(ours, dict) or not isinstance(own, dict):
        return own
    merged = dict(ours)
    for name, value in own.items():
        merged[name] = _merge(merged.get(name), value)
    return merged


# --------------------------------------------------------------------------------------------------------------------
# Tools and the choice among them, as a request to generateContent declares them.

MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def target_of(tool: Tool, quirks: Quirks) -> str:
    """The schema target of a tool: standard JSON Schema where the endpoint or the client asks for it."""
    own = as_dict(tool.metadata.get(WIRE)) if tool.metadata else {}
    return "gemini_json" if quirks.json_schema or own.get("json_schema") is True else "gemini"


def write_definitions(
    offered: Offer, quirks: Quirks, names: Container[str] | None = None, own: Iterable[Any] = ()
) -> list[JsonObject]:
    """Neighbouring declarations in one object, as the API wants them, with the wire's `own` tools among them.

    `names` lets only some declarations through.
    """
    written = {
        entry.tool.name: {"functionDeclarations": [_write_declaration(entry, quirks)]}
        for entry in offered.tools
        if names is None or entry.name in names
    }
    groups: list[JsonObject] = []
    for group in place_tools(written, own):
        if groups and groups[-1].keys() == group.keys() == {"functionDeclarations"}:
            groups[-1]["functionDeclarations"] += group["functionDeclarations"]
        else:
            groups.append(group)
    return groups


def _write_declaration(entry: Offered, quirks: Quirks) -> JsonObject:
    declaration: JsonObject = {"name": entry.name}
    if entry.tool.description:
        declaration["description"] = entry.tool.description
    if entry.schema:
        standard = target_of(entry.tool, quirks) == "gemini_json"
        declaration["parametersJsonSchema" if standard else "parameters"] = entry.schema
    own = as_dict(entry.tool.metadata.get(WIRE)) if entry.tool.metadata else {}
    return {**declaration, **{name: value for name, value in own.items() if name != "json_schema"}}


def write_tools(request: Request, offered: Offer, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that speak of tools."""
    own = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    if request.options.get("parallel_tool_calls") is False and offered.tools:
        losses.append(Loss("dropped", "options", "this wire has no switch against parallel calls"))
    choice = read_choice(request.options) if offered.tools else None
    chosen = settle_choice(choice, offered.name_of, quirks, losses, lists_tools=True, omits_tools=True)
    tools = write_definitions(offered, quirks, chosen.only, own)
    if not tools:
        report_choice(request.options, losses)
        return {}
    config: JsonObject = {"mode": MODES[chosen.mode]} if chosen.mode in MODES else {}
    if chosen.mode in ("named", "listed"):
        # Only two modes take a list of names; VALIDATED is the one that leaves text open.
        mode = "ANY" if chosen.required else "VALIDATED"
        config = {"mode": mode, "allowedFunctionNames": list(chosen.names)}
    return {"tools": tools, **({"toolConfig": {"functionCallingConfig": config}} if config else {})}


# --------------------------------------------------------------------------------------------------------------------
# A request as the body of generateContent: the conversation.


def write_history(history: History, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that hold the conversation."""
    contents = ContentWriter(quirks, losses).write(history.messages)
    if not contents:
        losses.append(Loss("inserted", "history", "a first user message, without which the wire takes no conversation"))
        contents.append({"role": "user", "parts": [{"text": "Continue."}]})
    system = [{"text": part.text, **write_own(own_of(part))} for part in history.system if part.text.strip()]
    return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}


class ContentWriter:
    """Writes messages as contents, one after the other."""

    def __init__(self, quirks: Quirks, losses: list[Loss]) -> None:
        self._quirks = quirks
        self._losses = losses
        self._anonymous: set[str] = set()  # the ids, ours, of calls that came without one

    def write(self, messages: list[Message]) -> list[JsonObject]:
        contents: list[JsonObject] = []
        before = ""
        for message in messages:
            parts = self._write_results(message) if message.role == "tool" else self._write_parts(message)
            if message.role == "user" and before == "tool" and _is_media(message):
                # Images beside results stand in the turn of the results; only words need one of their own.
                contents[-1]["parts"] += parts
            elif parts:
                contents.append({"role": "model" if message.role == "assistant" else "user", "parts": parts})
                before = message.role
        return contents

    def _write_results(self, message: Message) -> list[JsonObject]:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        writer = ResultWriter(self._losses, holds_media=self._quirks.result_images)
        return writer.write([(result, result.call_id not in self._anonymous) for result in results])

    def _write_parts(self, message: Message) -> list[JsonObject]:
        parts: list[JsonObject] = []
        called = False
        for part in message.parts:
            written = write_part(part)
            if written is None:
                if isinstance(part, Image | File):
                    parts.append({"text": omit(part, NO_CONTENT, self._losses).text})
                else:
                    self._losses.append(Loss("dropped", "history", "a part that has no place in its message"))
                continue
            if isinstance(part, Text):
                parts.append(written)
                continue
            if isinstance(part, ToolCall | InvalidCall):
                if is_anonymous(part):
                    self._anonymous.add(part.id)
                if not called:
                    self._sign(written, part)
                called = True
            elif isinstance(part, File) and part.name and "displayName" not in own_of(part):
                self._losses.append(Loss("dropped", "history", f"the name of a file, {part.name}"))
            parts.append(written)
        return parts

    def _sign(self, written: JsonObject, call: ToolCall | InvalidCall) -> None:
        """The first call of a step needs a signature, also when another model made it."""
        if self._quirks.call_signatures and "thoughtSignature" not in written:
            written["thoughtSignature"] = PLACEHOLDER
            self._losses.append(Loss("inserted", f"call {call.id} of {call.name}", "a placeholder for its signature"))


def _is_media(message: Message) -> bool:
    return bool(message.parts) and all(isinstance(part, Image | File) for part in message.parts)


# --------------------------------------------------------------------------------------------------------------------
# GenerateContentResponse read: chunks and whole bodies to events.

_WORDS = {"text"}
_CHUNK = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
_READ = frozenset({"content", "finishReason", "finishMessage", "index", "tokenCount"})


class GeminiReader(SseReader):
    """Reads one reply. Only the first candidate counts: a conversation goes on from one."""

    _read_failure = staticmethod(read_failure)
    answers = ("candidates", "promptFeedback", "prompt_feedback")

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._kind = ""  # of the open part: text or thinking
        self._stop: StopReason = "unknown"
        self._finished = False
        self._over = False
        self._has_parts = False
        self._own: JsonObject = {}  # what the candidate says beside its content
        self._usage: JsonObject = {}
        self._pending: list[PartialCall] = []  # the calls in the making, in the order in which they began

    def _read_body(self, body: Any) -> None:
        for chunk in body if isinstance(body, list) else [body]:
            self._read_frame(chunk, None)

    def _read_done(self) -> None:
        """No end: the counts may come behind the chunk that has the finish reason, so that only `close` ends."""

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def _read_frame(self, content: Any, event: str | None) -> None:
        builder = self._builder
        if isinstance(content, list):
            # All chunks at once, or an error that is wrapped in a list.
            for each in dicts(content):
                self._read_frame(each, event)
            return
        chunk = as_dict(content)
        if "response" in chunk and "candidates" not in chunk:
            chunk = as_dict(chunk["response"])  # as the endpoint of Google's command line wraps it
        if not _CHUNK.issuperset(chunk):
            chunk = camel(chunk)
        if builder.ended:
            return
        if chunk.get("error"):
            self._fail(chunk)
            return
        if not builder.started:
            builder.start(chunk.get("modelVersion"), chunk.get("responseId"))
        if "promptFeedback" in chunk:
            self._read_feedback(camel(as_dict(chunk["promptFeedback"])))
        for candidate in as_list(chunk.get("candidates")):
            if isinstance(candidate, dict) and candidate.get("index") in (0, None):
                self._read_candidate(candidate if _READ.issuperset(candidate) else camel(candidate))
        usage = chunk.get("usageMetadata")
        if isinstance(usage, dict) and usage:
            # It comes with every chunk, and only the last one counts: it is read at the end.
            self._usage = usage

    def _read_feedback(self, feedback: JsonObject) -> None:
        reason = feedback.get("blockReason")
        if isinstance(reason, str) and reason:
            self._stop = "refusal"
            self._builder.stop("refusal", {"reason": reason, "prompt_feedback": feedback})
            self._builder.terminate()

    def _read_candidate(self, candidate: JsonObject) -> None:
        reason = as_text(candidate.get("finishReason"))
        parts = as_dict(candidate.get("content")).get("parts")
        if self._finished and parts and not reason:
            # Some servers say the reason in every chunk, or in those before the first part; but behind the last one
            # that does, nothing belongs here.
            self._over = self._has_parts
            if not self._over:
                self._finished = False
                self._builder.resume()
        if self._over:
            return
        for part in as_list(parts):
            if not isinstance(part, dict):
                continue
            self._has_parts = True
            if part.keys() == _WORDS and self._kind == "text" and isinstance(part["text"], str):
                # By far the most: the next words of the open text.
                self._builder.text(part["text"])
            else:
                self._read_part(part, camel(part))
        if not _READ.issuperset(candidate):
            self._own.update({name: value for name, value in candidate.items() if name not in _READ})
        if reason:
            message = as_text(candidate.get("finishMessage"))
            self._stop = STOPS.get(reason, "unknown")
            if reason == "UNEXPECTED_TOOL_CALL" and self._builder.has_calls:
                # The call is whole, but of a tool that was not offered: that is what the model has to be told.
                self._stop = "tool_calls"
            self._builder.stop(self._stop, {"reason": reason, **({"message": message} if message else {})})
            self._builder.terminate()
            self._finished = True

    def _read_part(self, given: JsonObject, part: JsonObject) -> None:
        kind = kind_of(part)
        own = read_own(part)
        if kind == "functionCall":
            self._end_part()
            self._read_call(camel(as_dict(part["functionCall"])), own)
        elif kind == "text":
            self._finish_pending()
            self._read_text(as_text(part.get("text")), own)
        elif kind in ("inlineData", "fileData"):
            self._end_part()
            self._builder.part(read_media(part))
        else:
            self._end_part()
            self._builder.end_part("text", {"part": given})

    def _read_text(self, text: str, own: JsonObject) -> None:
        kind = "thinking" if own.get("thought") else "text"
        # What carries a signature goes back as the part it was: neither with what came before nor with what follows.
        signed = bool(own.keys() - {"thought"})
        if self._kind != kind or signed:
            self._end_part()
        if text:
            self._kind = kind
            (self._builder.thinking if kind == "thinking" else self._builder.text)(text)
        if signed:
            self._kind = ""
            self._builder.end_part(kind, own)

    def _end_part(self) -> None:
        if self._kind:
            self._builder.end_part(self._kind, {"thought": True} if self._kind == "thinking" else None)
            self._kind = ""

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _read_call(self, call: JsonObject, own: JsonObject) -> None:
        streams = call.get("partialArgs") is not None or call.get("willContinue") is True
        pending = self._find_pending(call)
        if pending is None:
            self._pass_by()
            if not streams:
                self._builder.whole_call(call.get("id"), call.get("name"), call.get("args"), own)
                return
            pending = PartialCall(call)
            self._pending.append(pending)
            self._builder.open_call(pending.key, call.get("id"), call.get("name"))
        pending.own.update(own)
        pending.add(call.get("partialArgs"))
        if call.get("willContinue") is not True:
            self._close(pending, complete=True)

    def _find_pending(self, call: JsonObject) -> PartialCall | None:
        """The call that a piece belongs to: the one with its id, or the last one if the piece names none.

        Before a text of the last one has ended, no other call can begin without an id.
        """
        if call.get("id"):
            return next((each for each in self._pending if each.id == call["id"]), None)
        last, name = self._pending[-1] if self._pending else None, call.get("name")
        return last if last is not None and (not name or (name == last.name and last.is_growing)) else None

    def _pass_by(self) -> None:
        """Another call begins: one that goes by an id may still go on behind it."""
        for pending in list(self._pending):
            pending.is_passed = True
            if not pending.id:
                self._close(pending, complete=not pending.is_growing)

    def _finish_pending(self, *, over: bool = False) -> None:
        """The model went on to something else, or the reply is over, and a pending call was not said to be done."""
        for pending in list(self._pending):
            complete = pending.is_passed or not over
            self._close(pending, complete=complete and not pending.is_growing)

    def _close(self, pending: PartialCall, *, complete: bool) -> None:
        self._pending.remove(pending)
        arguments: Any = pending.finish()
        if not complete or not pending.sound:
            # An object that is open behind a comma: nobody can take it for all that was meant.
            arguments = show(arguments)[:-1] + ("," if arguments else "")
        self._builder.call_delta(pending.key, arguments=arguments, extra=pending.own)
        self._builder.close_call(pending.key)

    def _settle(self) -> None:
        self._end_part()
        self._finish_pending(over=True)
        if self._own:
            self._builder.stop(self._stop, {"candidate": self._own})
        usage = read_usage(self._usage)
        if usage is not None:
            self._builder.usage(usage)

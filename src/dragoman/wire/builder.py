"""The reply builder: assembles a reply from the frames of a server. All wires use it, and it tolerates faulty servers.

Servers give two calls the same index, omit ids or indexes, send arguments as objects, repeat names, or omit the finish
reason. A reader passes the content of each frame to the builder. The builder assigns the pieces to calls, returns
events in order, and ends no call before the whole reply has ended.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.args.coercion import coerce
from dragoman.args.decoder import Undecodable, decode, find_unsound
from dragoman.args.loader import MOST_MEMBERS, Loaded, load
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallStarted,
    Event,
    PartEnded,
    PartReceived,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.jsonscan import JsonScanner
from dragoman.types import Failure, File, Image, Provenance, StopReason, Tool, ToolCall, Usage
from dragoman.wire.codec import Prepared
from dragoman.wire.schemas import restore
from dragoman.wire.values import half_character, is_same_json, join_halves, write

_KEY_TYPES = frozenset({int, str, tuple})
_CUTS = frozenset({"length", "refusal", "error"})
_CONTROL = "<|"
# A comparison takes as long as all arguments: more of them would not be linear in the input.
_MOST_COMPARED = 3


class _Call(Struct, eq=False):
    """A call under construction."""

    index: int
    id: str = ""
    wire_id: str | None = None
    name: str = ""
    pieces: list[str] = []
    shown: int = 0
    whole: Any = None
    extra: dict[str, Any] = {}
    repairs: tuple[str, ...] = ()
    scanner: JsonScanner | None = None
    scanned: int = 0
    _complete: bool = False
    decoded: dict[str, Any] | None = None
    """The object that all pieces are, if they are one."""
    started: bool = False
    closed: bool = False
    compared: int = 0
    """How many pieces behind the complete arguments were compared with them."""

    @property
    def has_arguments(self) -> bool:
        return bool(self.pieces) or self.whole is not None

    @property
    def is_settled(self) -> bool:
        """Whether nothing more can follow: it was closed, or its arguments are a complete value."""
        return self.closed or self.whole is not None or self.is_complete

    @property
    def is_complete(self) -> bool:
        """Whether the pieces are one complete value; further pieces do not change that."""
        if not self._complete and self.pieces:
            # The first check is mostly at the end, where the decoder is faster than the scanner.
            self.decoded = _read_object("".join(self.pieces)) if self.scanner is None else None
            self._complete = self.decoded is not None or self.scan().done
        return self._complete

    def scan(self) -> JsonScanner:
        """Scan the pieces so far. Each piece is scanned once, and only on demand."""
        scanner = self.scanner
        if scanner is None:
            scanner = self.scanner = JsonScanner()
        while self.scanned < len(self.pieces) and not scanner.done and scanner.failed is None:
            scanner.scan(self.pieces[self.scanned], 0)
            self.scanned += 1
        return scanner


class ReplyBuilder:
    """Collects the content of frames and returns events; `take()` returns those since the last call."""

    def __init__(self, wire: str, sent: Prepared | None = None, *, masks_length: bool = False) -> None:
        self.wire = wire
        self._sent = sent or Prepared({})
        self._masks_length = masks_length
        self._events: list[Event] = []
        self._calls: list[_Call] = []
        self._keys: dict[Any, _Call] = {}
        self._by_id: dict[str, _Call] = {}  # the last call with each id of the server
        self._head = 0
        self._made = 0
        self._ids: set[str] = set(self._sent.aliases.ids.values())
        self.started = False
        """Whether the beginning of the reply was told."""
        self._usage: Usage | None = None
        self._stop: StopReason | None = None
        self._extra: dict[str, Any] = {}
        self._failure: Failure | None = None
        self._halves: dict[Any, str] = {}  # the half of a character that a piece ended with, by what it is a piece of
        self._terminated = False
        self._has_strays = False
        self._doubt = ""
        self._is_over = False  # nothing more comes
        self.ended = False

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    # ---- content of frames ----------------------------------------------------------------------------------------

    def start(self, model: Any = "", id: Any = "") -> None:
        """Start the reply; later starts are ignored."""
        if not self.started:
            self.started = True
            self._events.append(
                ReplyStarted(model if isinstance(model, str) else "", id if isinstance(id, str) else "")
            )

    def text(self, piece: Any, kind: type[TextDelta] = TextDelta) -> None:
        if isinstance(piece, str) and piece and not self.ended:
            if self._halves or not piece.isascii():
                self._flush_half("thinking")
                piece = self._join_halves("text", piece)
            if piece:
                self._events.append(kind(piece))

    def thinking(self, piece: Any) -> None:
        if isinstance(piece, str) and piece and not self.ended:
            if self._halves or not piece.isascii():
                self._flush_half("text")
                piece = self._join_halves("thinking", piece)
            if piece:
                self._events.append(ThinkingDelta(piece))

    def _join_halves(self, place: Any, piece: str) -> str:
        """The piece behind the half of a character that the piece before it ended with, and without its own such half.

        A server that cuts its text where a token ends may cut a character in two.
        """
        whole = self._halves.pop(place, "") + piece
        if "\ud800" <= whole[-1] <= "\udbff":
            self._halves[place] = whole[-1]
            whole = whole[:-1]
        return join_halves(whole)

    def _flush_half(self, kind: str) -> None:
        """The other half of a character never came."""
        if self._halves.pop(kind, ""):
            self._events.append(TextDelta("\ufffd") if kind == "text" else ThinkingDelta("\ufffd"))

    def end_part(self, kind: str, extra: dict[str, Any] | None = None) -> None:
        """A part of text or thinking is complete; `extra` is what only this wire understands of it."""
        if not self.ended:
            if self._halves:
                self._flush_half(kind)
            self._events.append(
                PartEnded("text" if kind == "text" else "thinking", {self.wire: extra} if extra else {})
            )

    def part(self, part: Image | File) -> None:
        self._events.append(PartReceived(part))

    def usage(self, usage: Usage) -> None:
        """Set the usage; a later report replaces an earlier one."""
        self._usage = usage

    def stop(self, reason: StopReason, extra: dict[str, Any] | None = None) -> None:
        """Set the stop reason, if the server sent one."""
        self._stop = reason
        if extra:
            self._extra = {**self._extra, **extra}

    def keep(self, extra: dict[str, Any]) -> None:
        """Keep what only this wire understands of the whole reply."""
        self._extra = {**self._extra, **extra}

    def fail(self, failure: Failure) -> None:
        """Record an error of the server; the first one counts."""
        if self._failure is None:
            self._failure = failure

    def doubt(self, why: str) -> None:
        """Record that a frame can be read in two ways: no call of the reply is certain."""
        self._doubt = self._doubt or why

    def terminate(self) -> None:
        """Record the terminal frame of the wire."""
        self._terminated = True

    def resume(self) -> None:
        """Record that the reply goes on behind what looked like its end."""
        self._terminated = False
        self._stop = None

    # ---- calls ------------------------------------------------------------------------------------------------------

    def call_delta(self, key: Any, id: Any = None, name: Any = None, arguments: Any = None, extra: Any = None) -> None:
        """Add a piece of a call, as chat streams send them: `key` is the server's index, None if there is none."""
        if self.ended:
            return
        if type(arguments) is str and arguments and (self._halves or not arguments.isascii()):
            arguments = self._join_halves(("call", _as_key(key)), arguments)
        known = self._keys.get(key) if type(key) in _KEY_TYPES else None
        if known is not None and not extra and self._goes_on(known, id, name, arguments):
            # The most frequent case: the next piece of the arguments of the current call.
            known.pieces.append(arguments)
            known.decoded = None
            known.shown += 1
            self._events.append(ArgumentsDelta(known.index, arguments))
            return
        key = _as_key(key)
        identity = id if isinstance(id, str) and id else None
        label = name if isinstance(name, str) and name else None
        call = self._find(key, identity, label, arguments)
        if identity and call.wire_id is None:
            self._identify(call, identity)
        if label:
            self._name(call, label)
        if isinstance(extra, dict) and extra:
            call.extra.update(extra)
        if not (label and identity and _tells_again(call, arguments)):
            self._append_arguments(call, arguments)
        self._advance()

    def open_call(self, key: Any, id: Any = None, name: Any = None, extra: Any = None) -> None:
        """Start a new call under this key, even if the key is in use."""
        if not self.ended:
            key = _as_key(key)
            self._add_call(("unnumbered", len(self._calls)) if key is None else key)
            self.call_delta(key, id, name, None, extra)

    def set_arguments(self, key: Any, arguments: Any) -> None:
        """Set the complete arguments; they count if no pieces came, or if the pieces are incomplete."""
        call = self._get(key)
        if call is None or self.ended:
            return
        if isinstance(arguments, str) and arguments and not call.pieces:
            self._append_arguments(call, arguments)
        elif isinstance(arguments, dict) and arguments and not call.pieces:
            call.whole = arguments
        self._advance()

    def close_call(self, key: Any, extra: Any = None) -> None:
        """Record that the server marked this call as complete."""
        call = self._get(key)
        if call is not None and not self.ended:
            call.closed = True
            if isinstance(extra, dict):
                call.extra.update(extra)
            self._advance()

    def has_call(self, key: Any) -> bool:
        return _as_key(key) in self._keys

    def _get(self, key: Any) -> _Call | None:
        """Return the call under a key; without a key, the last call."""
        clean = _as_key(key)
        if clean is None:
            return self._calls[-1] if self._calls else None
        return self._keys.get(clean)

    def whole_call(self, id: Any, name: Any, arguments: Any, extra: Any = None, repairs: tuple[str, ...] = ()) -> None:
        """Add a call that came in one piece; `repairs` are the repairs of its reader."""
        if self.ended:
            return
        call = self._add_call(object())
        if isinstance(id, str) and id:
            self._identify(call, id)
        call.name = name if isinstance(name, str) else ""
        if isinstance(extra, dict) and extra:
            call.extra.update(extra)
        call.repairs = repairs
        self._append_arguments(call, arguments)
        call.closed = True
        self._advance()

    @property
    def has_news(self) -> bool:
        """Whether anything came of the reply but its beginning: a part, a call, a reason, a failure."""
        if self._calls or self._stop is not None or self._failure is not None or self.ended:
            return True
        return any([type(event) is not ReplyStarted for event in self._events])

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def _identify(self, call: _Call, identity: str) -> None:
        call.wire_id = identity
        if identity not in self._by_id or self._by_id[identity].index < call.index:
            self._by_id[identity] = call

    def _find(self, key: Any, identity: str | None, label: str | None, arguments: Any) -> _Call:
        if key is None:
            return self._find_without_index(identity, label)
        call = self._keys.get(key)
        if call is None and not identity and not label and (last := self._find_displaced(key)) is not None:
            self._keys[key] = last
            return last
        if call is None or self._begins_another(call, identity, label, arguments):
            return self._add_call(key)
        return call

    def _find_displaced(self, key: Any) -> _Call | None:
        """The last call, if it began under the index of an earlier one, and these arguments have its own index."""
        last = self._calls[-1] if self._calls else None
        if last is None or last.index != key or type(key) is not int or last.has_arguments or last.closed:
            return None
        return last

    def _find_without_index(self, identity: str | None, label: str | None) -> _Call:
        if identity and (call := self._by_id.get(identity)) is not None:
            return call
        last = self._calls[-1] if self._calls else None
        if last is None or last.closed or (identity and last.wire_id) or (label and last.has_arguments):
            return self._add_call(("unnumbered", len(self._calls)))
        return last

    def _begins_another(self, call: _Call, identity: str | None, label: str | None, arguments: Any) -> bool:
        """Whether a piece under the index of `call` is the start of the next call: servers reuse indexes."""
        if identity and call.wire_id and identity != call.wire_id:
            # Without a name, it is the same call with an id that changes with every piece.
            return label is not None or call.is_settled
        if label and call.name and call.is_settled and call.has_arguments:
            return label != call.name or (arguments is not None and arguments != "" and identity is None)
        return False

    def _add_call(self, key: Any) -> _Call:
        call = _Call(len(self._calls))
        self._calls.append(call)
        self._keys[key] = call
        return call

    def _name(self, call: _Call, label: str) -> None:
        if call.started or label == call.name or call.name.startswith(label):
            return
        # Servers send the name repeatedly, growing, or in pieces.
        call.name = label if label.startswith(call.name) else call.name + label

    def _append_arguments(self, call: _Call, arguments: Any) -> None:
        if isinstance(arguments, str):
            if arguments:
                call.pieces.append(arguments)
                call.decoded = None
        elif arguments is not None:
            call.whole = arguments

    def _goes_on(self, call: _Call, id: Any, name: Any, arguments: Any) -> bool:
        """Whether a piece has only arguments for the last call, and everything before it has been emitted.

        It may repeat the id and name of the call.
        """
        if type(arguments) is not str or not arguments or call is not self._calls[-1]:
            return False
        if not call.started or call.whole is not None or call.shown < len(call.pieces):
            return False
        return (not id or id == call.wire_id) and (
            not name or (bool(id) and name == call.name and not call.is_complete)
        )

    # ---- events in order --------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Emit the events that are certain: one call at a time, the next one when the previous one is complete."""
        while self._head < len(self._calls):
            call = self._calls[self._head]
            self._show(call)
            if self._head + 1 == len(self._calls) or not call.is_settled or not call.started:
                return
            self._head += 1

    def _show(self, call: _Call) -> None:
        if not call.started:
            if not (call.has_arguments and call.name) and not call.closed and not self._is_over:
                # The name may still grow or follow, and so may the id.
                return
            self._begin(call)
        if call.whole is not None and not call.pieces:
            call.pieces.append(write(call.whole))
        if call.shown < len(call.pieces):
            self._events.append(ArgumentsDelta(call.index, "".join(call.pieces[call.shown :])))
            call.shown = len(call.pieces)

    def _begin(self, call: _Call) -> None:
        call.started = True
        said, (call.name, tool) = call.name, self._recognise(call.name)
        if tool is not None and _CONTROL in said and _CONTROL not in call.name:
            call.repairs = (*call.repairs, "trimmed_name")
        # A journal stores ids as UTF-8, which has no lone surrogates.
        is_usable = call.wire_id and call.wire_id not in self._ids and not half_character.search(call.wire_id)
        call.id = call.wire_id if call.wire_id and is_usable else self._make_id()
        self._ids.add(call.id)
        self._events.append(CallStarted(call.index, call.name, call.id))

    def _make_id(self) -> str:
        while True:
            self._made += 1
            if f"call_{self._made}" not in self._ids:
                return f"call_{self._made}"

    def _recognise(self, name: str) -> tuple[str, Tool | None]:
        """Return our name of a tool, in the offered spelling, and the tool if it was offered."""
        ours = self._sent.aliases.name(name)
        tool = self._sent.tools.find(ours) if self._sent.tools is not None else None
        if tool is None and self._sent.tools is not None and _CONTROL in ours:
            # Hosts of gpt-oss let the control token behind a name through: `search<|channel|>commentary`.
            tool = self._sent.tools.find(ours.partition(_CONTROL)[0])
        return (tool.name, tool) if tool is not None else (ours, None)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End the reply, complete or not: end every call and the reply. A second call has no effect."""
        if self.ended:
            return
        self.start()
        if self._halves:
            self._flush_half("text")
            self._flush_half("thinking")
        if self._failure is None and not self._terminated:
            self._failure = Failure("stream_cut", "the connection ended before the reply did")
        stop = self._judge_stop()
        self._is_over = True
        for call in self._calls:
            self._show(call)
            if not call.started:
                self._begin(call)
            if not call.pieces:
                self._events.append(ArgumentsDelta(call.index, "{}"))
        self._has_strays = any([not call.name and call.has_arguments for call in self._calls])
        for call in self._calls:
            self._settle(call, stop)
        if self._failure is not None:
            self._events.append(ReplyFailed(self._failure))
        if self._usage is not None:
            self._events.append(UsageReported(self._usage))
        if stop in ("end", "unknown") and any([type(event) is CallEnded for event in self._events]):
            stop = "tool_calls"
        self._events.append(ReplyEnded(stop, {self.wire: self._extra} if self._extra else {}))
        self.ended = True

    def _judge_stop(self) -> StopReason:
        if self._failure is not None:
            return "error"
        limit, used = self._sent.limit, self._usage.output_tokens if self._usage is not None else 0
        if limit and (used >= limit if self._masks_length else used == limit and self._stop == "tool_calls"):
            # A reply that ends with a call and has exactly as many tokens as it may have was cut by the limit: vLLM
            # hides this, and it also serves behind addresses whose row does not say so.
            return "length"
        if self._stop is None or self._stop == "unknown":
            return "end" if self._terminated else "unknown"
        if self._stop == "tool_calls" and not self._calls:
            return "end"
        return self._stop

    def _settle(self, call: _Call, stop: StopReason) -> None:
        why = self._find_cut(call, stop)
        is_cut = why is not None
        if why is None:
            ended = self._find_flaw(call) or self._read_call(call)
            if isinstance(ended, ToolCall):
                self._events.append(CallEnded(call.index, ended))
                return
            why = ended
        raw = "".join(call.pieces)
        extra = {self.wire: call.extra} if call.extra else {}
        broken = CallBroken(raw, why, (0, 0), self.wire, call.name, call.index, extra, call.wire_id, is_cut)
        self._events.append(broken)

    def _find_flaw(self, call: _Call) -> str | None:
        if self._doubt:
            return self._doubt
        if not call.name:
            return "the call names no tool"
        if self._has_strays and not call.has_arguments:
            return "arguments arrived without a call, and this call has none"
        return None

    def _find_cut(self, call: _Call, stop: StopReason) -> str | None:
        if self._failure is not None:
            return f"the call was cut off: {self._failure.message or self._failure.kind}"
        if stop in _CUTS and call is self._calls[-1]:
            return f"the reply stopped ({stop}) before the call was known to be complete"
        if call.whole is None and call.pieces and not call.is_complete and not _is_closable(call):
            # Text that does not begin like an object is not a truncated object.
            return "the arguments were cut off" if "".join(call.pieces).lstrip()[:1] in ("{", "[", '"') else None
        return None

    def _read_call(self, call: _Call) -> ToolCall | str:
        # Most arguments are decoded already, because only then it is known that they are complete.
        raw = call.whole if call.whole is not None else "".join(call.pieces)
        is_read = call.decoded is not None and call.whole is None and len(raw) <= MOST_MEMBERS
        loaded = Loaded(call.decoded) if is_read else load(raw)
        if loaded.value is None:
            return "; ".join(fault.why for fault in loaded.errors) or "the arguments are not an object"
        if "closed_string" in loaded.repairs:
            return "the arguments were cut off inside a text"
        name, tool = self._recognise(call.name)
        value, changes = loaded.value, loaded.changes
        undo = self._sent.aliases.undo.get(name)
        if undo is not None:
            value, undone = restore(value, undo)
            changes = (*changes, *undone)
        if tool is not None and tool.parameters and (undo is None or find_unsound(value) is None):
            # Coercion only; the code that runs the tool validates the arguments.
            fitted = coerce(value, tool.parameters)
            value, changes = fitted.value, (*changes, *fitted.changes)
        known = None if self._sent.tools is None else tool is not None
        provenance = Provenance("native", self.wire)
        extra = {self.wire: call.extra} if call.extra else {}
        return ToolCall(
            call.id,
            name,
            value,
            True,
            known,
            (*call.repairs, *loaded.repairs),
            changes,
            provenance,
            extra=extra,
            wire_id=call.wire_id,
        )


def _as_key(key: Any) -> Any:
    """Convert an index of a server to a key; None if it is invalid."""
    return None if isinstance(key, bool | float | list | dict) else key


def _tells_again(call: _Call, arguments: Any) -> bool:
    """Whether a piece with the id and the name of a complete call has all of its arguments once more."""
    if not call.is_complete or not isinstance(arguments, str) or not arguments or call.compared == _MOST_COMPARED:
        return False
    call.compared += 1
    return is_same_json("".join(call.pieces), arguments)


def _read_object(text: str) -> dict[str, Any] | None:
    try:
        value = decode(text)
    except Undecodable:
        return None
    return value if isinstance(value, dict) else None


def _is_closable(call: _Call) -> bool:
    """Whether arguments without their last brackets can be closed, because no value in them can be truncated.

    A number or a string at the end may be incomplete; after a closing quote or bracket, only brackets or further
    arguments can be missing. Text that is not JSON is left to the repairs.
    """
    scanner = call.scan()
    if scanner.failed is not None:
        return True
    last = next((piece.rstrip() for piece in reversed(call.pieces) if piece and not piece.isspace()), "")
    # Only blanks: complete, without arguments.
    return not last or (last[-1] in {'"', "}", "]"} and not scanner.in_string)

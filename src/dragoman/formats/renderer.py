"""The renderer: writes calls in a format and verifies the text by parsing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dragoman.errors import CannotExpress, ConfigError
from dragoman.formats.entities import escape_text
from dragoman.formats.notation import notation_of
from dragoman.formats.notation import write_strict_json as write_strict_json  # the changelog names this path
from dragoman.formats.pairs import own_lines
from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.plan import Plan
from dragoman.formats.template import Format, Hole, Literal, Many, Maybe, Node, Space, compile_template, has_hole
from dragoman.jsonschema.keywords import kind_of
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Tool, ToolCall

# --------------------------------------------------------------------------------------------------------------------
# The renderer fills the template, parses the result, and compares the calls. So a value that a format cannot carry
# (a string with the format's own closer, a blank that the format strips) raises CannotExpress and is never written
# wrongly.

_ENTITIES = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})
Call = ToolCall | tuple[str, Mapping[str, Any]] | Mapping[str, Any]


def json_type(value: Any) -> str:
    """Return the JSON Schema name of a value's type."""
    return "array" if isinstance(value, tuple) else kind_of(value) or "null"


def as_calls(calls: Iterable[Call] | ToolCall) -> list[ToolCall]:
    """Convert calls to ToolCalls. Each is a ToolCall, (name, arguments), or a dict with `name` and `arguments`."""
    if isinstance(calls, ToolCall):
        calls = [calls]
    return [_as_call(call) for call in calls]


def _as_call(call: Call) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    name: Any = None
    arguments: Any = None
    identity = None
    if isinstance(call, Mapping):
        name, arguments, identity = call.get("name"), call.get("arguments", {}), call.get("id")
    else:
        with suppress(TypeError, ValueError):
            name, arguments = call
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        raise ConfigError(f"not a call: {call!r}", hint="give ToolCall values or (name, arguments) pairs")
    return ToolCall(str(identity or ""), name, dict(arguments))


def render(calls: Sequence[ToolCall], row: Format, plan: Plan) -> str:
    """Return the text that a model of this format writes for these calls."""
    if not calls:
        return ""
    text = write_template(calls, row)
    _check(calls, text, plan)
    return text


def write_template(calls: Sequence[ToolCall], row: Format) -> str:
    """Fill the template of the row, without the check."""
    return _Writer(row).write(calls)


def type_word(row: Format, kind: str) -> str:
    """Return the word that `{type}` writes for a JSON type in this row."""
    return row.type_words.get(kind) or row.type_words.get("") or kind


# ---- the template, backwards -----------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, row: Format) -> None:
        self.row = row
        self.nodes = compile_template(row.template)
        self.notation = notation_of(row)
        self._is_framed = any(
            node == Hole("value") and isinstance(pairs.body[place - 1], Space)
            for pairs in self.nodes
            if isinstance(pairs, Many)
            for place, node in enumerate(pairs.body)
        )
        # The reader decodes entities in values between tags, so a text that looks escaped must be escaped once more.
        self._decodes = row.notation == "json" and any(
            literal.text.startswith("</") for node in self.nodes if isinstance(node, Many) for literal in _closers(node)
        )

    def write(self, calls: Sequence[ToolCall]) -> str:
        if has_hole(self.nodes, "calls"):
            body = self._fill(self.nodes, {"calls": self._write_list(calls)})
        else:
            body = self.row.separator.join(
                self._fill(self.nodes, self._scope(call, index)) for index, call in enumerate(calls)
            )
        opening, closing = self.row.section or ("", "")
        return opening + body + closing

    def _scope(self, call: ToolCall, index: int) -> dict[str, Any]:
        return {
            "name": call.name,
            "id": self._identity(call, index),
            "args": self.notation.write_arguments(call.arguments) if has_hole(self.nodes, "args") else "",
            "call": self._write_call(call, index) if has_hole(self.nodes, "call") else "",
            "pairs": call.arguments,
        }

    def _write_list(self, calls: Sequence[ToolCall]) -> str:
        written = [self._write_call(call, index) for index, call in enumerate(calls)]
        return written[0] if self.row.single_is_bare and len(written) == 1 else f"[{', '.join(written)}]"

    def _write_call(self, call: ToolCall, index: int) -> str:
        return self.notation.write_call(call.name, call.arguments, self._envelope(call, index))

    def _identity(self, call: ToolCall, index: int) -> str:
        """Return the id. In a format whose id names the tool, it is `functions.` with the name and a number."""
        if self.row.numbered:
            return call.id if call.id.isdecimal() else str(index + 1)
        if has_hole(self.nodes, "name"):
            return call.id
        name, colon, number = call.id.rpartition(":")
        fits = colon and number.isdigit() and name.removeprefix("functions.") == call.name
        return call.id if fits else f"functions.{call.name}:{index}"

    def _envelope(self, call: ToolCall, index: int) -> JsonObject:
        if self.row.name_is_key:
            return {call.name: call.arguments}
        name_key, arguments_key = self.row.keys
        envelope = {name_key: call.name, arguments_key: call.arguments}
        return {self.row.id_key: call.id or str(index), **envelope} if self.row.id_key else envelope

    def _fill(self, nodes: Sequence[Node], scope: Mapping[str, Any]) -> str:
        written = ""
        for node in nodes:
            text = self._write_node(node, scope)
            in_quotes = self.row.entities and isinstance(node, Hole) and written.endswith('="')
            written += text.translate(_ENTITIES) if in_quotes else text
        return written

    def _write_node(self, node: Node, scope: Mapping[str, Any]) -> str:
        if isinstance(node, Literal | Space):
            return node.text
        if isinstance(node, Maybe):
            wanted = [kind for kind in ("id", "type") if has_hole(node.body, kind)]
            return self._fill(node.body, scope) if all(scope.get(kind) for kind in wanted) else ""
        if isinstance(node, Many):
            return "".join(self._fill(node.body, self._pair(key, value)) for key, value in scope["pairs"].items())
        return str(scope[node.kind])

    def _pair(self, key: str, value: Any) -> dict[str, str]:
        text = self.notation.write_value(value, f"$.{key}")
        if isinstance(value, str) and self._decodes:
            wrapped = self.row.wrap_text(text) if self.row.cdata else text
            text = wrapped if wrapped != text else escape_text(text)
            if not self._is_framed and own_lines(text) is not None:
                text = f"\n{text}\n"  # the reader takes the line ends around such a value for layout
        return {"key": key, "value": text, "type": type_word(self.row, json_type(value))}


def _closers(pairs: Many) -> list[Literal]:
    value = next(at for at, node in enumerate(pairs.body) if isinstance(node, Hole) and node.kind == "value")
    return [node for node in pairs.body[value + 1 :] if isinstance(node, Literal)][:1]


# ---- the check -------------------------------------------------------------------------------------------------------


def _check(calls: Sequence[ToolCall], text: str, plan: Plan) -> None:
    parser = Parser(plan, _tools_of(calls))
    parsed = fold(parser.feed(text) + parser.close())
    if [call.name for call in parsed.calls] != [call.name for call in calls]:
        raise CannotExpress("$", _first_reason(parsed) or "the parser would read other calls")
    for wanted, found in zip(calls, parsed.calls, strict=True):
        path = difference(wanted.arguments, found.arguments)
        if path is not None:
            raise CannotExpress(path, "this format would change the value")
    if parsed.text.strip() or parsed.thinking or parsed.broken:
        raise CannotExpress("$", _first_reason(parsed) or "the parser would read a part of the call as text")


def _first_reason(parsed: Parsed) -> str:
    return parsed.broken[0].why if parsed.broken else ""


def _tools_of(calls: Sequence[ToolCall]) -> Toolset:
    """Build tools whose schemas these arguments fit: the parser needs them for formats without types."""
    properties: dict[str, dict[str, set[str]]] = {}
    for call in calls:
        for key, value in call.arguments.items():
            properties.setdefault(call.name, {}).setdefault(key, set()).add(json_type(value))
        properties.setdefault(call.name, {})
    return Toolset(
        Tool(
            name,
            parameters={
                "type": "object",
                "properties": {
                    key: {"type": next(iter(types)) if len(types) == 1 else sorted(types)}
                    for key, types in keys.items()
                },
            },
        )
        for name, keys in properties.items()
    )


def difference(wanted: Any, found: Any, path: str = "$") -> str | None:
    """Return the JSON path of the first difference between two values, types included; None if they are equal."""
    if type(wanted) is not type(found) and not (isinstance(wanted, list | tuple) and isinstance(found, list)):
        return path
    if isinstance(wanted, dict):
        if wanted.keys() != found.keys():
            odd = sorted(map(str, wanted.keys() ^ found.keys()))
            return f"{path}.{odd[0]}"
        return next((at for key in wanted if (at := difference(wanted[key], found[key], f"{path}.{key}"))), None)
    if isinstance(wanted, list | tuple):
        if len(wanted) != len(found):
            return path
        pairs = enumerate(zip(wanted, found, strict=True))
        return next((at for index, (one, other) in pairs if (at := difference(one, other, f"{path}[{index}]"))), None)
    return None if wanted == found else path

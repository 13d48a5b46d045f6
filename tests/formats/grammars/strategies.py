"""Random tools, and calls that fit them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from dragoman.formats.grammars.calls import has_grammar
from dragoman.formats.registry import rows
from dragoman.types import JsonObject

WITHOUT = ("kimi_k3", "minimax_m3", "perl", "xml_attributes")
"""Formats for which there is no grammar."""


NAMES = [row.name for row in rows() if has_grammar(row)]
"""Every other row of the catalogue: a new one is under the laws as soon as it is there."""

_KEYS = ["city", "days", "unit", "note", "path", "flag", "size", "when"]
_DATES = ["2024-02-29", "1999-12-31", "2000-02-29", "2023-01-01"]
_FORMS: dict[str, list[str]] = {
    "date": _DATES,
    "time": ["00:00:00Z", "23:59:59.5+02:00"],
    "date-time": [f"{date}T12:30:00Z" for date in _DATES],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "email": ["a.b@example.org"],
    "ipv4": ["127.0.0.1", "255.255.0.9"],
}
_LETTERS = "abcXYZ019 .,:;-_\"'\\/<>{}[]()|`~&é日🎉\n\t\r"
TEXTS = st.text(st.sampled_from(_LETTERS), max_size=12)

# ---- schemas ---------------------------------------------------------------------------------------------------------


@st.composite
def _texts(draw: st.DrawFn) -> JsonObject:
    way = draw(st.sampled_from(["any", "any", "long", "short", "form"]))
    if way == "form":
        return {"type": "string", "format": draw(st.sampled_from(sorted(_FORMS)))}
    schema: JsonObject = {"type": "string"}
    if way == "long":
        schema["minLength"] = draw(st.integers(1, 4))
    if way == "short":
        least = draw(st.integers(0, 3))
        schema |= {"minLength": least, "maxLength": draw(st.integers(least, 8))}
    return schema


@st.composite
def _numbers(draw: st.DrawFn) -> JsonObject:
    schema: JsonObject = {"type": draw(st.sampled_from(["integer", "number"]))}
    edges = st.integers(-1200, 1200)
    if schema["type"] == "number":
        edges = st.integers(-3000, 3000).map(lambda number: number / 100)  # type: ignore[assignment]
    low, high = sorted([draw(edges), draw(edges)])
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["minimum", "exclusiveMinimum"]))] = low
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["maximum", "exclusiveMaximum"]))] = high + 2
    return schema


_LITERALS = st.sampled_from(["a", "b c", "Oslo", "", "x<y", "5", "null", 5, -1, 2.5, True, False, None])


@st.composite
def _choices(draw: st.DrawFn) -> JsonObject:
    values = draw(st.lists(_LITERALS, min_size=1, max_size=4, unique_by=repr))
    if draw(st.booleans()):
        return {"const": values[0]}
    texts = [value for value in values if isinstance(value, str)]
    return {"type": "string", "enum": texts} if texts and draw(st.booleans()) else {"enum": values}


_SCALARS = st.one_of(
    _texts(),
    _numbers(),
    _choices(),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.lists(st.sampled_from(["string", "integer", "boolean", "null"]), min_size=1, max_size=3, unique=True).map(
        lambda kinds: {"type": kinds}
    ),
)


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> JsonObject:
    schema: JsonObject = {"type": "array", "items": draw(inner)}
    least = draw(st.integers(0, 2))
    if draw(st.booleans()):
        schema["minItems"] = least
    if draw(st.booleans()):
        schema["maxItems"] = least + draw(st.integers(0, 3))
    if draw(st.integers(0, 4)) == 0:
        schema["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
    return schema


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> JsonObject:
    keys = draw(st.lists(st.sampled_from(_KEYS), max_size=4, unique=True))
    schema: JsonObject = {"type": "object", "properties": {key: draw(inner) for key in keys}}
    if keys and draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(keys), unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    return schema


def schemas(depth: int) -> st.SearchStrategy[JsonObject]:
    """A schema of this depth, without patterns."""
    if depth == 0:
        return _SCALARS
    inner = schemas(depth - 1)
    return st.one_of(
        _SCALARS,
        _arrays(inner),
        objects(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda ways: {"anyOf": ways}),
        st.just({"$ref": "#/$defs/shared"}),
        st.just({"$ref": "#/$defs/tree"}),
    )


@st.composite
def tools(draw: st.DrawFn) -> list[JsonObject]:
    """One to three tools, whose parameters are nested up to three deep."""
    made: list[JsonObject] = []
    for name in draw(
        st.lists(st.sampled_from(["search", "get_weather", "ping", "write-file"]), min_size=1, max_size=3, unique=True)
    ):
        schema = draw(objects(schemas(2)))
        schema["$defs"] = {
            "shared": draw(schemas(0)),
            "tree": {
                "type": "object",
                "properties": {
                    "label": {"type": "string", "maxLength": 5},
                    "next": {"$ref": "#/$defs/tree"},
                    "more": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["label"],
            },
        }
        made.append({"name": name, "description": "", "parameters": schema})
    return made


# ---- values ----------------------------------------------------------------------------------------------------------


class Values:
    """Draws values that a schema allows, with members in the order in which the schema names them."""

    def __init__(self, draw: st.DrawFn, root: JsonObject) -> None:
        self._draw = draw
        self._root = root

    def value(self, schema: JsonObject, depth: int = 0) -> Any:
        draw = self._draw
        if "$ref" in schema:
            return self.value(self._root["$defs"][schema["$ref"].rpartition("/")[2]], depth + 1)
        if "anyOf" in schema:
            return self.value(draw(st.sampled_from(schema["anyOf"])), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return draw(st.sampled_from(schema["enum"]))
        kind = schema["type"] if isinstance(schema["type"], str) else draw(st.sampled_from(schema["type"]))
        return getattr(self, f"_{kind}")(schema, depth)

    def _string(self, schema: JsonObject, _: int) -> str:
        if "format" in schema:
            return str(self._draw(st.sampled_from(_FORMS[schema["format"]])))
        least, most = schema.get("minLength", 0), schema.get("maxLength", 12)
        return self._draw(st.text(st.sampled_from(_LETTERS), min_size=least, max_size=max(least, most)))

    def _integer(self, schema: JsonObject, _: int) -> int:
        low = schema.get("minimum", schema.get("exclusiveMinimum", -(10**9) - 1) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", 10**9 + 1) - 1)
        return self._draw(st.integers(low, high))

    def _number(self, schema: JsonObject, _: int) -> float:
        low = Decimal(repr(schema.get("minimum", schema.get("exclusiveMinimum", -(10**6)))))
        high = Decimal(repr(schema.get("maximum", schema.get("exclusiveMaximum", 10**6))))
        inset = Decimal("0.001") if "exclusiveMinimum" in schema or "exclusiveMaximum" in schema else Decimal(0)
        steps = int((high - low - 2 * inset) * 1000)
        number = float(low + inset + Decimal(self._draw(st.integers(0, max(0, steps)))) / 1000)
        return int(number) if number.is_integer() and self._draw(st.booleans()) else number

    def _boolean(self, _: JsonObject, __: int) -> bool:
        return self._draw(st.booleans())

    def _null(self, _: JsonObject, __: int) -> None:
        return None

    def _array(self, schema: JsonObject, depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", 3), 0 if depth > 2 else least + 3)
        prefix = schema.get("prefixItems", [])
        size = self._draw(st.integers(least, max(least, most)))
        return [self.value(prefix[at] if at < len(prefix) else schema["items"], depth) for at in range(size)]

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        required = schema.get("required", ())
        return {
            key: self.value(inner, depth)
            for key, inner in schema["properties"].items()
            if key in required or (depth <= 2 and self._draw(st.booleans()))
        }


@st.composite
def calls(draw: st.DrawFn, offered: list[JsonObject]) -> list[tuple[str, JsonObject]]:
    """One to three calls that fit the tools."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        tool = draw(st.sampled_from(offered))
        made.append((tool["name"], Values(draw, tool["parameters"]).value(tool["parameters"])))
    return made

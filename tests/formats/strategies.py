"""What the laws of the formats are tried on: calls with tools that fit, and texts made of a format's own pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.formats.registry import get, rows
from dragoman.formats.template import Format
from dragoman.toolset import Toolset

Call = tuple[str, dict[str, Any]]

NAMES = [row.name for row in rows()]
"""Every row of the catalogue: a new one is under the laws as soon as it is there."""


def _tool(name: str, **kinds: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    return {"name": name, "description": "", "parameters": {"type": "object", "properties": properties}}


_TOOLS = [
    _tool("get_weather", city="string", days="integer", metric="boolean"),
    _tool("write_file", path="string", content="string", options="object", lines="array", ratio="number", mode="null"),
    _tool("search", query="string"),
    _tool("ping"),
    _tool(
        "odd",
        **{"two words": "string", "with-dash": "string", "ключ": "integer", 'a"quote': "string", "a<b>": "boolean"},
    ),
]
TOOLS = Toolset(_TOOLS)
_KINDS = {tool.name: {key: rule["type"] for key, rule in tool.parameters["properties"].items()} for tool in TOOLS}

PLAIN: dict[str, list[Call]] = {
    "words and numbers": [("get_weather", {"city": "Oslo", "days": 3, "metric": True})],
    "two calls": [("search", {"query": "tall ships"}), ("get_weather", {"city": "São Paulo", "days": -1})],
    "code": [
        (
            "write_file",
            {
                "path": "src/a.py",
                "content": 'def f(x: list[int]) -> dict[str, "int"]:\n    if x[0] < 3 and x[1] > 4:\n'
                "        return {'a': \"b\\n\", 'c': f\"{x!r}\"}  # <b>done</b> & so on\n    return {}",
                "options": {"deep": {"er": [1, 2.5, None, False, "x"]}, "empty": {}},
                "lines": [1, "two", [3], {"four": 5}],
                "ratio": 0.25,
            },
        )
    ],
    "unicode": [("search", {"query": "naïve 日本語 🎉 – „ok“ \u202etürkçe"})],
    "web page": [
        ("write_file", {"path": "i.html", "content": '<!doctype html>\n<p class="x">a &lt; b</p>\n<ul><li>1</ul>'})
    ],
    "no arguments": [("ping", {})],
    "the same call twice": [("search", {"query": "again"}), ("search", {"query": "again"})],
}
"""Ordinary calls, which every format has to carry."""

PROSE = [
    "Let me look. ",
    "Sure!\n",
    "\n\n",
    "1 < 2 > 0 [x] {y} ",
    'It\'s `code` and "quotes".',
    " ",
    "\t\n",
    "- a\n- b\n",
]
JSON_BITS = [
    '{"name": "search", "arguments": {"query": "x"}}',
    '{"name": "',
    '"arguments": {',
    '"query": "a',
    '"parameters": ',
    '{"query": 1}',
    "{}",
    "[]",
    "[",
    "]",
    "{",
    "}",
    '"',
    '\\"',
    "\\",
    "'",
    ",",
    ":",
    "null",
    "1e9",
    "-",
    "search",
    "ping",
    "nobody",
    "query",
    "functions.search:0",
]
CODE_BITS = [
    "```",
    "~~~",
    "```json\n",
    "\n```",
    "<think>",
    "</think>",
    "<",
    ">",
    "</",
    "<|",
    "|>",
    "\r\n",
    "\u2028",
    "\x00",
    "\ufeff",
    "😀",
]
_HOLE = re.compile(r"\{[*?]|[*?]\}|\{[a-z]+\}")
_WORD = re.compile(r"<[^<>\s]*>|\[/?[A-Z_]+\]|[\w:]+|\s+|.", re.DOTALL)


@cache
def literals(name: str) -> tuple[str, ...]:
    """The markers of a format: what its template, its section, its think tags and its readers are made of."""
    row = get(name)
    found: list[str] = [tag for template in (row.template, *row.also) for tag in _HOLE.split(template)]
    found += [*(row.section or ()), *row.drop, *(tag for pair in row.thinking for tag in pair)]
    found += [opener for entry in (*row.entries, *row.named_entries) for opener in entry.openers]
    found += [bit for text in samples(name)[:3] for bit in _WORD.findall(text)] if not _reads_template(row) else []
    return tuple(dict.fromkeys(bit for tag in found for bit in (tag, tag.strip()) if bit))


@cache
def fragments(name: str) -> tuple[str, ...]:
    """Markers, other spellings of them, and halves of them."""
    if name == "auto":
        return tuple(dict.fromkeys(bit for other in NAMES for bit in literals(other)))
    row = get(name)
    whole = [*literals(name), *(other for spellings in row.spellings.values() for other in spellings[:4])]
    halves = [half for tag in whole if len(tag) > 3 for half in (tag[: len(tag) // 2], tag[len(tag) // 2 :])]
    return tuple(dict.fromkeys([*whole, *halves]))


@cache
def samples(name: str) -> tuple[str, ...]:
    """Rendered calls: the plain ones, as far as the format carries them."""
    if name == "auto":
        return tuple(dict.fromkeys(samples(other)[0] for other in NAMES))
    return tuple(text for calls in PLAIN.values() if (text := try_render(calls, name)) is not None)


def try_render(calls: Iterable[Call], name: str) -> str | None:
    """The rendering, or None where the format refuses the values."""
    try:
        return formats.render(calls, name)
    except CannotExpress:
        return None


def has_openers(row: Format) -> bool:
    """Whether calls of the format are announced by a marker, so that prose may stand around them."""
    return _reads_template(row) or any(entry.openers for entry in row.entries)


def _reads_template(row: Format) -> bool:
    return bool(row.template) and row.template_is_read


# ---- values ----------------------------------------------------------------------------------------------------------

_ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_INTEGERS = st.integers(-(2**63), 2**64)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64) | _INTEGERS


def strings(name: str) -> st.SearchStrategy[str]:
    """Text that wants to break the format: its own markers, quotes, escapes, blanks at the ends, nothing at all."""
    bits = st.sampled_from([*fragments(name), *JSON_BITS, *CODE_BITS, *PROSE])
    return st.lists(bits | _ANY_TEXT, max_size=5).map("".join)


def _json(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | _NUMBERS | text
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
    )


@st.composite
def calls(draw: st.DrawFn, name: str) -> list[Call]:
    """One to three calls that fit `TOOLS`."""
    text = strings(name)
    inner = _json(text)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": text,
        "integer": _INTEGERS,
        "number": _NUMBERS,
        "boolean": st.booleans(),
        "null": st.none(),
        "array": st.lists(inner, max_size=3),
        "object": st.dictionaries(text, inner, max_size=3),
    }
    made: list[Call] = []
    for _ in range(draw(st.integers(1, 3))):
        tool = draw(st.sampled_from(sorted(_KINDS)))
        keys = draw(st.lists(st.sampled_from(sorted(_KINDS[tool])), unique=True, max_size=3)) if _KINDS[tool] else []
        made.append((tool, {key: draw(kinds[_KINDS[tool][key]]) for key in keys}))
    return made


# ---- texts -----------------------------------------------------------------------------------------------------------

_NASTY_TEXT = st.text(st.characters(), max_size=4) | st.sampled_from(["\ud800", "\udfff", "\x00", "\\ud83d", "\\u0000"])


@st.composite
def damaged(draw: st.DrawFn, name: str) -> str:
    """A rendered sample in which a stretch was replaced by something else."""
    text = draw(st.sampled_from(samples(name)))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 20)))
    patch = draw(st.sampled_from(["", *fragments(name), *JSON_BITS, *CODE_BITS, *PROSE]))
    return text[:start] + patch + text[end:]


def soup(name: str) -> st.SearchStrategy[str]:
    """Text made of the format's own fragments, of JSON, of whole calls and of anything."""
    bits = st.sampled_from([*fragments(name), *JSON_BITS, *CODE_BITS, *PROSE])
    return st.lists(bits | damaged(name) | st.sampled_from(samples(name)) | _NASTY_TEXT, max_size=7).map("".join)


def texts(name: str) -> st.SearchStrategy[str]:
    """Replies: samples, damaged samples, and soup; all of them also with the line ends of Windows."""
    plain = st.sampled_from(samples(name)) | damaged(name) | soup(name)
    return plain | plain.map(lambda text: text.replace("\n", "\r\n"))


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """The text in random pieces, empty ones among them."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]

"""Rows for the text formats: calls that the renderer wrote, set in prose or damaged by operators with a known meaning.

The expectation of a row never comes from the parser. It is the calls that were rendered, changed as the operator's
meaning demands: damage that leaves every value readable keeps the calls and demands a named repair, a cut inside a
value leaves no call, a call inside thinking is refused, and a mention of the syntax is no call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.formats.registry import rows as catalogue
from dragoman.formats.template import Format

Row = dict[str, Any]
Call = tuple[str, dict[str, Any]]

BERTH: Call = ("book_berth", {"harbour": "Skagen", "nights": 2, "shore_power": True})
DIVE: Call = (
    "log_dive",
    {
        "site": "Blue Hole",
        "depth": -18.5,
        "gas": {"mix": {"o2": 32, "n2": 68}, "tanks": [1, 2], "checked": False, "spare": None},
    },
)
TIDES: Call = ("list_tides", {})

PAYLOADS: dict[str, list[Call]] = {
    "plain": [BERTH],
    "nested": [DIVE],
    "empty": [TIDES],
    "unicode": [("save_recipe", {"title": "Crème brûlée 焼きプリン 🍮 „fein“"})],
    "quotes": [("save_recipe", {"title": 'The "quick" one', "body": 'Say "stir",\n\tthen wait \\ 5\'\n"Done."'})],
    "markup": [("save_recipe", {"body": "<ul><li>5 < 6 & 7 > 2</li></ul>\n[x](y) {z} `code`"})],
    "lists": [("save_recipe", {"title": "Ten, eleven", "steps": ["chop, then fry", {"minutes": 4}, [1, [2]], ""]})],
    "numbers": [("ring_bell", {"times": 9007199254740993}), ("log_dive", {"depth": 0.125})],
    "two": [BERTH, DIVE],
    "three": [("ring_bell", {"times": 3, "muffled": False}), TIDES, ("ring_bell", {"times": 3, "muffled": False})],
}

# A call is the whole message here, so that nothing may stand around it.
WHOLE_MESSAGE = {"json_message"}
# No marker announces a call here: its place in the message does.
UNMARKED = {"glm_lines", "json_message", "pythonic"}
# Nothing but the name of an offered tool tells a call from prose here.
GATED = {"glm_lines", "json_message", "pythonic", "react", "xml_attributes", "xml_elements", "olmo3", "functionary_v32"}
# The input of a call may be any text.
FREE_TEXT = {"react"}
# A call ends where the line, the message or the next call does: there is no closer to be missing.
CANNOT_BE_CUT = {"glm_lines", "react"}


def make_rows() -> list[Row]:
    rows = [row for format in catalogue() for row in _rows_of(format)]
    rows += [row for format in catalogue() for alias in format.aliases for row in _alias_row(alias)]
    return sorted(rows, key=lambda row: row["id"])


def _rows_of(format: Format) -> Iterator[Row]:
    for make in (_rendered, _in_prose, _thought, _cut, _damaged_json, _damaged_wrapper, _look_alikes):
        for row in make(format):
            row["id"] = f"{format.name}/{row['id']}"
            yield {"id": row.pop("id"), "format": format.name, "auto": format.in_auto, **row}


def _alias_row(alias: str) -> Iterator[Row]:
    text = _render([BERTH, TIDES], alias)
    if text is not None:
        yield {"id": f"alias/{alias}", "format": alias, "auto": False, "text": text, **_same([BERTH, TIDES], said="")}


def _render(calls: list[Call], name: str) -> str | None:
    try:
        return formats.render(calls, name)
    except CannotExpress:
        return None


def _same(calls: list[Call], **expected: Any) -> Row:
    return {"calls": [[name, arguments] for name, arguments in calls], "repaired": False, **expected}


# ---- calls as they were written --------------------------------------------------------------------------------------


def _rendered(format: Format) -> Iterator[Row]:
    for name, calls in PAYLOADS.items():
        text = _render(calls, format.name)
        if text is not None:
            yield {"id": f"rendered/{name}", "text": text, **_same(calls, said="")}
    closer = _tail(format)
    if closer:
        calls = [("save_recipe", {"body": f"first {closer} second"}), TIDES]
        text = _render(calls, format.name)
        if text is not None:
            yield {"id": "rendered/closer-in-value", "text": text, **_same(calls, said="")}


def _tail(format: Format) -> str:
    """What stands behind the last argument of a call."""
    text = formats.render([("save_recipe", {"title": "Zabaione"})], format.name)
    return text.rpartition("Zabaione")[2].lstrip("\"'}])").strip()


def _in_prose(format: Format) -> Iterator[Row]:
    if format.name in WHOLE_MESSAGE:
        return
    text = formats.render([BERTH], format.name)
    yield {
        "id": "prose/before",
        "text": f"I will book it now.\n\n{text}",
        **_same([BERTH], said="I will book it now."),
    }
    two = formats.render([BERTH, TIDES], format.name)
    if format.name not in CANNOT_BE_CUT:
        yield {
            "id": "prose/around",
            "text": f"One moment, 3 < 4.\n\n{two}\n\nThat was all.",
            **_same([BERTH, TIDES], said="One moment, 3 < 4. That was all."),
        }
    yield {"id": "fence", "text": f"```\n{text}\n```", **_same([BERTH]), "or_none": format.name in GATED}


# ---- thinking --------------------------------------------------------------------------------------------------------


def _thought(format: Format) -> Iterator[Row]:
    opener, closer = format.thinking[0]
    text = formats.render([BERTH], format.name)
    yield {
        "id": "thinking/before",
        "text": f"{opener}Skagen has room, Ebeltoft has none.{closer}\n{text}",
        **_same([BERTH], said="", thinking="Skagen has room, Ebeltoft has none."),
    }
    # The end of a harmony or inkling message is also the end of its thinking.
    if closer.strip() in text:
        return
    # Where no marker announces a call, a draft of one is plain thinking.
    refused = {} if format.name in UNMARKED else {"refused": ["book_berth"]}
    yield {
        "id": "thinking/call-inside",
        "text": f"{opener}Perhaps so:\n{text}\nNo, better ask.{closer}\nWhich harbour?",
        **_same([], said="Which harbour?", **refused),
    }
    yield {
        "id": "thinking/call-inside-then-call",
        "text": f"{opener}A draft:\n{formats.render([TIDES], format.name)}\n{closer}\n{text}",
        **_same([BERTH], said=""),
    }


# ---- texts that break off --------------------------------------------------------------------------------------------


def _cut(format: Format) -> Iterator[Row]:
    text = formats.render([BERTH], format.name)
    inside = text.index("Skagen") + 3
    yield {"id": "cut/in-value", "text": text[:inside], **_same([])}
    yield {"id": "cut/in-name", "text": text[: text.index("book_berth") + 4], **_same([])}
    two = formats.render([BERTH, DIVE], format.name)
    yield {"id": "cut/in-second", "text": two[: two.index("Blue") + 2], **_same([]), "or_calls": _calls([BERTH])}
    if format.name not in CANNOT_BE_CUT:
        shorter = text[: text.index("Skagen") + len("Skagen")]
        yield {"id": "cut/after-value", "text": shorter, **_same([])}


def _calls(calls: list[Call]) -> list[list[Any]]:
    return [[name, arguments] for name, arguments in calls]


# ---- damaged JSON ----------------------------------------------------------------------------------------------------

_PLAIN_JSON = json.dumps(BERTH[1])
_JSON_DAMAGE: dict[str, tuple[Callable[[str], str], Call]] = {
    "trailing-comma": (lambda written: written[:-1] + ",}", BERTH),
    "single-quotes": (lambda written: written.replace('"', "'"), BERTH),
    "unquoted-keys": (lambda written: re.sub(r'"(\w+)":', r"\1:", written), BERTH),
    "python-constant": (lambda written: written.replace("true", "True"), BERTH),
    "missing-comma": (lambda written: written.replace('", "', '" "'), BERTH),
    "comment": (lambda written: written.replace(', "nights"', ', // two of them\n "nights"'), BERTH),
    "smart-quotes": (lambda written: re.sub('"([^"]*)"', r"“\1”", written), BERTH),
    "doubled-encoding": (lambda written: json.dumps(written), BERTH),
    "raw-newline": (
        lambda written: written.replace("Skagen", "Ska\ngen"),
        (BERTH[0], BERTH[1] | {"harbour": "Ska\ngen"}),
    ),
    "missing-brace": (lambda written: written[:-1], BERTH),
}


def _damaged_json(format: Format) -> Iterator[Row]:
    text = formats.render([BERTH], format.name)
    if text.count(_PLAIN_JSON) != 1:
        return
    for name, (damage, call) in _JSON_DAMAGE.items():
        if name == "missing-brace" and not _tail(format):
            continue  # the text is cut off, and nothing says that it was all
        expected = {**_same([call]), "repaired": True}
        yield {"id": f"json/{name}", "text": text.replace(_PLAIN_JSON, damage(_PLAIN_JSON)), **expected}
    unreadable = text.replace(_PLAIN_JSON, '{"harbour": Skagen or Ebeltoft?, "nights": }')
    yield {"id": "json/no-value", "text": unreadable, **_same([])}
    twice = text.replace(_PLAIN_JSON, '{"harbour": "Skagen", "nights": 2, "nights": 7}')
    yield {"id": "json/key-twice", "text": twice, **_same([])}


# ---- damaged wrappers ------------------------------------------------------------------------------------------------


def _damaged_wrapper(format: Format) -> Iterator[Row]:
    text = formats.render([BERTH], format.name)
    ends_in_json = text.count(_PLAIN_JSON) == 1
    if ends_in_json and _tail(format):
        end = text.index(_PLAIN_JSON) + len(_PLAIN_JSON)
        closing = re.match(r"[}\]\s]*", text[end:])
        bare = text[: end + (closing.end() if closing else 0)].rstrip()
        # The JSON is whole, so that no value can be missing.
        yield {"id": "wrapper/no-closer", "text": bare, **_same([BERTH]), "repaired": _demands_closer(format)}
        yield {
            "id": "wrapper/no-closer-in-thinking",
            "text": f"{format.thinking[0][0]}{bare}",
            **_same([]),
        }
    swapped = re.sub(r"<[^<>]*>|\[/?[A-Z_]{4,}\]", lambda tag: tag[0].swapcase(), text)
    if swapped != text and "book_berth" in swapped:
        yield {"id": "wrapper/wrong-case", "text": swapped, **_same([]), "or_calls": _calls([BERTH])}
    if ends_in_json and format.name not in FREE_TEXT:
        start = min(text.index(_PLAIN_JSON), *(text.find(opener) % 9999 for opener in ('{"name"', "[{", '{"tool_')))
        noisy = f"{text[:start]}\nSure, this is the call: {text[start:]}"
        yield {"id": "wrapper/prose-inside", "text": noisy, **_same([BERTH]), "repaired": None, "or_none": True}
    unknown = _render([("paint_fence", {"colour": "teal"})], format.name)
    if unknown is not None:
        expected = {**_same([]), "unknown": ["paint_fence"], "surfaced": format.name not in GATED}
        yield {"id": "wrapper/unknown-tool", "text": unknown, **expected}


def _demands_closer(format: Format) -> bool | None:
    """Whether a call without its closer is a damaged one; None where some models leave it out."""
    return None if "?}" in format.template[-4:] or not format.template else True


# ---- no call at all --------------------------------------------------------------------------------------------------


def _look_alikes(format: Format) -> Iterator[Row]:
    text = formats.render([BERTH], format.name)
    opener = re.split(r'[\[{]"|[\[{]\{|\n', text[: text.index("book_berth")].strip())[0] or "book_berth"
    mention = f"Every call begins with `{opener}` and ends on its own."
    yield {"id": "no-call/mention", "text": mention, **_same([], said=mention)}
    question = f"Should I write {opener} here? I have no tool for that."
    yield {"id": "no-call/question", "text": question, **_same([], said=question)}

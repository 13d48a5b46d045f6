"""Enums where a target takes only strings: the values become text, and are turned back in the arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.types import JsonObject
from dragoman.wire.schemas.nodes import kinds_in
from dragoman.wire.schemas.targets import Target
from dragoman.wire.schemas.undo import Undo
from dragoman.wire.schemas.vocabulary import KIND_OF_KEYWORD, kind_of
from dragoman.wire.schemas.walk import Made, Place
from dragoman.wire.schemas.wording import json_text

if TYPE_CHECKING:
    from dragoman.wire.schemas.shaping import Shaper


def need_text(node: JsonObject, row: Target) -> bool:
    """Whether the choices of a node cannot be sent as they are."""
    if row.text_enums == "all":
        return True
    return row.text_enums == "compound" and any(isinstance(value, dict | list) for value in node["enum"])


def shape_as_text(shaper: Shaper, node: JsonObject, place: Place) -> Made:
    """An enum of strings. Null is no choice but a type; what is no string is written as JSON."""
    texts, meant = _write(shaper, node["enum"], place)
    null = any(value is None for value in node["enum"])
    if not texts:
        return Made({"type": shaper.case("null")}) if null else Made({"type": shaper.case("string")})
    rest = {key: value for key, value in node.items() if key not in ("type", "enum") and key not in KIND_OF_KEYWORD}
    for key in node:
        if key in KIND_OF_KEYWORD:
            shaper.losses.add("dropped", f"dropped {key} beside enum at {place.path}")
    out, notes = shaper.finish(rest, place)
    if meant:
        kinds = " or ".join(dict.fromkeys(kind_of(value) for value in meant.values()))
        notes.append(f"stands for {kinds}")
        shaper.undone = True
        shaper.losses.add("text_enum", f"wrote the enum at {place.path} as strings")
    nullable = null and (not kinds_in(node) or "null" in kinds_in(node))
    words = shaper.type_words(["string", "null"] if nullable and shaper.row.nullable else ["string"], True)
    choices: list[Any] = list(texts)
    schema = {**words, "enum": choices, **out}
    if notes:
        schema["description"] = " ".join(filter(None, [out.get("description", ""), f"({'; '.join(notes)})"]))
    if nullable and not shaper.row.nullable:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return Made(schema, Undo(values=meant))


def _write(shaper: Shaper, values: list[Any], place: Place) -> tuple[list[str], dict[str, Any]]:
    """The choices as text, and what the texts mean that were no text before."""
    texts: dict[str, None] = {}
    for value in values:
        if isinstance(value, str):
            if value:
                texts[value] = None
            else:
                shaper.losses.add("dropped", f"dropped the empty string from enum at {place.path}")
    meant: dict[str, Any] = {}
    for value in values:
        if isinstance(value, str) or value is None:
            continue
        text = json_text(value)
        if text in texts:
            shaper.losses.add("dropped", f"dropped {text} from enum at {place.path}: a string reads the same")
        else:
            texts[text] = None
            meant[text] = value
    return list(texts), meant

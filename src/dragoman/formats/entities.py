"""XML entities: text that a model escaped although the format does not ask for it."""

from __future__ import annotations

import re

_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_ENTITY = r"&(?:(amp|lt|gt|quot|apos)|#([0-9]{1,7})|#[xX]([0-9a-fA-F]{1,6}));"
_entity = re.compile(_ENTITY)
_raw = re.compile(rf"<|&(?!{_ENTITY[1:]})").search
_QUOTES = ("&quot;", "&#34;", "&#x22;", "&apos;", "&#39;")


def _character(found: re.Match[str]) -> str:
    if found[1]:
        return _NAMED[found[1]]
    number = int(found[2]) if found[2] else int(found[3], 16)
    # Surrogates and numbers that are no character stay as they are.
    return chr(number) if 0 < number < 0xD800 or 0xDFFF < number < 0x110000 else found[0]


def decode_entities(text: str) -> str:
    """Decode the five entities of XML and numeric ones, wherever they occur."""
    return _entity.sub(_character, text) if "&" in text else text


def unescape_text(text: str) -> str:
    """Decode a text that was escaped as a whole. A raw `<` or `&` shows that it was not, as in source code or HTML."""
    if "&" not in text or _raw(text) is not None:
        return text
    return decode_entities(text)


def escape_text(text: str) -> str:
    """Escape a text that `unescape_text` would change otherwise."""
    if unescape_text(text) == text:
        return text
    return text.replace("&", "&amp;").replace("<", "&lt;")


def is_escaped_json(text: str) -> bool:
    """Whether all quotes of a JSON text are written as entities."""
    return "&" in text and '"' not in text and any(quote in text for quote in _QUOTES)

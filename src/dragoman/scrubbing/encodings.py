"""The ways in which a known secret may be written: every form in which a tool could print it."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

# A shorter piece of an encoding occurs by chance.
_SHORTEST: Final = 8
_BLANKS = re.compile(r"\s+")
# What different programs leave as it is when they encode for a link.
_SAFE: Final = ("", "/", "!~*'()", ";,/?:@&=+$-_.!~*'()#", "!'()*-._~/:")


def squeeze(text: str) -> str:
    """The text without blanks and breaks."""
    return _BLANKS.sub("", text)


def needles(value: str) -> set[str]:
    """All forms of a secret to look for, without blanks."""
    forms = {squeeze(form) for form in _forms(value)}
    return {form for form in forms if len(form) >= _SHORTEST} | {squeeze(value)}


def _forms(value: str) -> Iterator[str]:
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    yield value[::-1]
    yield raw.hex()
    yield raw.hex().upper()
    yield "".join(f"\\x{byte:02x}" for byte in raw)
    yield from _in_base64(raw)
    yield from _in_base64(value.encode("utf-16-le", "surrogatepass"))
    yield from _in_links(raw)
    yield from _escaped(value)
    if "\n" in value.strip():
        # A file of several lines, such as a private key: each line is a secret of its own.
        yield from (line.strip() for line in value.splitlines() if not line.startswith("-----"))


def _in_base64(raw: bytes) -> Iterator[str]:
    """Base64 of the secret alone, and the part that does not depend on what stands around it."""
    for plain in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
        yield plain
        yield plain.rstrip("=")
    for before in range(3):
        bits = 8 * (before + len(raw))
        first, last = -(-8 * before // 6), bits // 6
        padded = bytes(before) + raw
        yield base64.b64encode(padded).decode()[first:last]
        yield base64.urlsafe_b64encode(padded).decode()[first:last]


def _in_links(raw: bytes) -> Iterator[str]:
    strict = "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in raw)
    forms = [
        strict,
        quote_plus(raw),
        "".join(f"%{byte:02X}" for byte in raw),
        *(quote(raw, safe=safe) for safe in _SAFE),
    ]
    for form in forms:
        yield form
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), form)
        yield form.replace("%", "%25")


def _escaped(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        inner = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield inner
        yield inner.replace("/", "\\/")
        yield inner.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        yield json.dumps(inner, ensure_ascii=ascii_only)[1:-1]
    for form in (html.escape(value, quote=False), html.escape(value)):
        yield form
        yield form.replace("&#x27;", "&#39;")
        yield form.replace("&#x27;", "&apos;").replace("&quot;", "&#34;")
    yield value.replace("'", "'\\''")
    yield value.replace("'", "\\'")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", value, flags=re.ASCII)

"""Redaction of HTTP exchanges: recordings before they are written to disk, and the debug output of the client.

In a recording, three things count as secrets: the value of a header or a query parameter with a secret name, the same
text anywhere else, and text that looks like a key of a known vendor or matches a pattern of the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from dragoman.secrets.fields import is_secret_header
from dragoman.secrets.registered import RegisteredStage, Secrets, worth_hiding
from dragoman.secrets.tokens import token_shapes

REDACTED = "[REDACTED]"
_SHORTEST = 6
_HIDDEN = "***"
_REMEMBERED = 32
_parameter = re.compile(r"(?<=[?&])([^=&\s]+)=[^& \r\n]+")
# Where a key stands behind a word in its header.
_SCHEMES = re.compile(r"(?i)^(?:bearer|basic|token|key)\s+")


class RecordingRedactor:
    """Removes secrets from headers, URLs and bodies. `patterns` are further regular expressions."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._shapes = [token_shapes(), *patterns]
        self._words: set[str] = set()
        self._pattern = self._compile()

    def learn(self, headers: dict[str, str], url: str = "") -> None:
        """Store the secrets of a request, so that they are found in other places too."""
        given = [*headers.items(), *parse_qsl(urlsplit(url).query)]
        found = {_SCHEMES.sub("", value).strip() for name, value in given if is_secret_header(name)}
        fresh = {word for word in found if len(word) >= _SHORTEST} - self._words
        if fresh:
            self._words |= fresh
            self._pattern = self._compile()

    def headers(self, headers: dict[str, str]) -> dict[str, str]:
        return {
            name.lower(): REDACTED if is_secret_header(name) else self.text(value) for name, value in headers.items()
        }

    def url(self, url: str) -> str:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        query = "&".join(
            f"{quote(name)}={REDACTED if is_secret_header(name) else quote(self.text(value))}" for name, value in pairs
        )
        place = parts.netloc.rpartition("@")[2]  # a name and a password before the host
        return self.text(urlunsplit((parts.scheme, place, parts.path, query, "")))

    def text(self, text: str) -> str:
        return self.data(text.encode()).decode()

    def data(self, data: bytes) -> bytes:
        return self._pattern.sub(REDACTED.encode(), data)

    def pieces(self, pieces: list[bytes]) -> list[bytes]:
        """Redact the pieces of a body; a secret that crosses two pieces is found as well."""
        whole = b"".join(pieces)
        kept: list[bytes] = []
        matches = list(self._pattern.finditer(whole))
        start = 0
        for piece in pieces:
            kept.append(_clean(whole, start, start + len(piece), matches))
            start += len(piece)
        return [piece for piece in kept if piece]

    def _compile(self) -> re.Pattern[bytes]:
        # The longest first: a secret may contain another one. JSON may write one with escapes.
        words = {form for word in self._words for form in (word, json.dumps(word)[1:-1], quote(word, safe=""))}
        named = [re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word))]
        return re.compile("|".join([*named, *self._shapes]).encode())


def _clean(whole: bytes, start: int, end: int, matches: list[re.Match[bytes]]) -> bytes:
    """One piece without the secrets: each is replaced in the piece where it begins, and its rest left out."""
    out = bytearray()
    place = start
    for match in matches:
        if match.end() <= start or match.start() >= end:
            continue
        out += whole[place : max(place, match.start())]
        if match.start() >= start:
            out += REDACTED.encode()
        place = min(match.end(), end)
    return bytes(out + whole[place:end])


_login = re.compile(r"(?<=:)//[^/?#]*@")


def strip_login(url: str) -> str:
    """Return a URL without the name and the password of its user."""
    return _login.sub("//", url)


def show_address(url: str) -> str:
    """Return a URL for people: without its user and the secrets of its query."""
    return RequestRedactor().address(url)


class RequestRedactor:
    """Removes the client's own secrets from shown text, in every encoding of a registered secret."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one secret may be the beginning of another.
        self._texts = sorted({text for text in secrets if len(text) >= 4}, key=len, reverse=True)
        self._encodings: Secrets | None = None  # computed for the first text that is shown

    def grow(self, secrets: Iterable[str]) -> RequestRedactor:
        """Return a redactor that also knows these secrets. Tokens change, and the old ones stay secret."""
        fresh = {text for text in secrets if len(text) >= 4}.difference(self._texts)
        return RequestRedactor([*self._texts[-_REMEMBERED:], *fresh]) if fresh else self

    def text(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, _HIDDEN)
        if self._encodings is None:
            self._encodings = Secrets(filter(worth_hiding, self._texts))
        if not self._encodings.may_occur(text):
            return text
        stage = RegisteredStage(self._encodings, lambda *_: _HIDDEN)
        return stage.feed(text) + stage.close()

    def data(self, data: bytes) -> bytes:
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def structure(self, value: Any) -> Any:
        """Return a JSON value with every text in it redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.structure(each) for name, each in value.items()}
        return [self.structure(each) for each in value] if isinstance(value, list) else value

    def address(self, url: str) -> str:
        """Return a URL without secrets, including those of its query and its user."""
        plain = _login.sub(f"//{_HIDDEN}@", url)
        return self.text(
            _parameter.sub(lambda found: f"{found[1]}={_HIDDEN}" if is_secret_header(found[1]) else found[0], plain)
        )

    def header(self, name: str, value: str) -> str:
        return _HIDDEN if is_secret_header(name) else self.text(value)


class RequestRedactors:
    """The redactor of a client, which learns new secrets and keeps the recent ones."""

    def __init__(self) -> None:
        self.latest = RequestRedactor()

    def knowing(self, secrets: Iterable[str]) -> RequestRedactor:
        self.latest = self.latest.grow(secrets)
        return self.latest

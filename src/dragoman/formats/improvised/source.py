"""The text that the reader of improvised calls reads, if a server or a template changed what the model wrote."""

from __future__ import annotations

import re
from bisect import bisect_right

from dragoman.characters import unescape_html

_entity = re.compile(r"&(?:lt|gt|quot|apos|amp|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});?")
escaped_start = re.compile(
    r"&(?:lt|#60|#x3[cC]);|[\[{]\s*&(?:quot|#34|#x22);|<[\w:|\-]{1,40}>\s*\{\s*&(?:quot|#34);"
).match
_may_be_escaped = re.compile(
    r"&[a-z#]{0,4}\Z|[\[{]\s*(?:&[a-z#]{0,5})?\Z|<[\w:|\-]{1,40}(?:>\s*(?:\{\s*(?:&[a-z#]{0,5})?)?)?\Z"
).match
_quote_token = re.compile(r'<\|"\|?>|<escape>|<ctrl\d{1,3}>|「[始末]」')
_WINDOW = 300
_LOOK_AHEAD = 1200
"""How much of a text that is not complete is replaced to find a name."""


class PlainSource:
    """A text in which some stretches are replaced, and the conversion between its offsets and those of the original."""

    __slots__ = ("_base", "_inner", "_outer", "_pattern", "text")

    def __init__(self, text: str, pattern: re.Pattern[str] | None = None, base: int = 0) -> None:
        self._base = base
        self._inner = [0]
        self._outer = [0]
        self._pattern = pattern
        self.text = text
        if pattern is None:
            return
        pieces: list[str] = []
        length, last = 0, 0
        for match in pattern.finditer(text):
            new = '"' if pattern is _quote_token else unescape_html(match[0])
            pieces += (text[last : match.start()], new)
            length += match.start() - last + len(new)
            last = match.end()
            self._inner.append(length)
            self._outer.append(last)
        self.text = "".join((*pieces, text[last:]))

    def mend(self, repairs: list[str]) -> list[str]:
        """Return the repairs of a call that was read here. Keys without quotes belong to the notation with tokens."""
        if self._pattern is _quote_token:
            return [rule for rule in repairs if rule != "bare_key"]
        return repairs if self._pattern is None else [*repairs, "decoded_entities"]

    def inner(self, outer: int) -> int:
        """Convert an offset in the original that is not inside a replacement."""
        outer -= self._base
        place = bisect_right(self._outer, outer) - 1
        return self._inner[place] + outer - self._outer[place]

    def outer(self, inner: int) -> int:
        place = bisect_right(self._inner, inner) - 1
        return self._base + self._outer[place] + inner - self._inner[place]


class Sources:
    """The sources for the calls of one text. In a complete text, everything is replaced once."""

    __slots__ = ("_kept", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._kept: dict[re.Pattern[str], PlainSource] = {}

    def find(self, text: str, at: int, *, final: bool) -> PlainSource | None:
        """Return the source for a call at `at`: without entities if it is escaped; None if more text is needed."""
        if escaped_start(text, at) is not None:
            return self._replace(text, at, _entity, final=final)
        if not final and _may_be_escaped(text, at) is not None:
            return None
        if _quote_token.search(text, at, at + _WINDOW) is not None:
            return self._replace(text, at, _quote_token, final=final)
        return PlainSource(text)

    def _replace(self, text: str, at: int, pattern: re.Pattern[str], *, final: bool) -> PlainSource:
        if not final:
            return PlainSource(text[at : at + _LOOK_AHEAD], pattern, at)
        if text is not self._text:
            self._text, self._kept = text, {}
        source = self._kept.get(pattern)
        if source is None:
            source = self._kept[pattern] = PlainSource(text, pattern)
        return source

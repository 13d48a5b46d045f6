"""The text that the reader of improvised calls reads, if a server or a template changed what the model wrote."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from dragoman.args.decoder import decode
from dragoman.characters import TOKENIZER_BLANKS, unescape_html

_entity = re.compile(r"&(?:lt|gt|quot|apos|amp|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});?")
escaped_start = re.compile(
    r"&(?:lt|#60|#x3[cC]);|[\[{]\s*&(?:quot|#34|#x22);|<[\w:|\-]{1,40}>\s*\{\s*&(?:quot|#34);"
).match
_quoted_json = re.compile(r"(?:<[\w:|\-]{1,40}>\s*)?\"\s*[\[{]\s*\\\"").match
_may_be_quoted = re.compile(r"(?:<(?:[\w:|\-]{1,40}(?:>\s{0,99})?)?)?(?:\"\s{0,99}(?:[\[{]\s{0,99}\\?)?)?\Z").match
_escape = re.compile(r"\\(?:[\"\\/bfnrt])")
_may_be_escaped = re.compile(
    r"&[a-z#]{0,4}\Z|[\[{]\s*(?:&[a-z#]{0,5})?\Z|<[\w:|\-]{1,40}(?:>\s*(?:\{\s*(?:&[a-z#]{0,5})?)?)?\Z"
).match
_ATTRIBUTES = r"(?:[ =][^\[\]\n]{0,200})?"
_square_start = re.compile(rf"\[([A-Za-z_][\w.\-]{{0,99}}){_ATTRIBUTES}\]\s*(?=[^\s{{\[<(\"']|\[[A-Za-z_])").match
_square_may_start = re.compile(rf"\[(?:[A-Za-z_][\w.\-]{{0,99}}{_ATTRIBUTES})?(?:\]\s{{0,99}})?\Z").match
_quote_token = re.compile(r'<\|"\|?>|<escape>|<ctrl\d{1,3}>|「[始末]」')
_marked_down = re.compile(r"<[\w:]{1,40}\\_[\w\\]{1,40}>").match
_markdown = re.compile(r"\\([_*\[\]<>{}#])")
_curly_begins = re.compile(r"<(?:[^<>\n]{0,100}>\s{0,9}<)?[^<>\n]{0,100}=\s?[“”„]").match
_curly_tag = re.compile(r"<[^<>\n]{0,200}[“”„][^<>\n]{0,200}>")
_STRAIGHT = str.maketrans("“”„", '"""')
_tokenized = re.compile(rf"<[\w:|\-]{{1,40}}>[{TOKENIZER_BLANKS}]").match
_piece = re.compile(rf"[{TOKENIZER_BLANKS}]")
_REPAIRS: dict[re.Pattern[str] | None, str] = {
    _entity: "decoded_entities",
    _escape: "double_encoded",
    _curly_tag: "smart_quotes",
    _markdown: "bad_escape",
    _piece: "unusual_blanks",
}
"""The repair of a call in a text in which such a pattern was replaced, also in the arguments."""
_WINDOW = 300
_MOST_SQUARE = 8
Words = tuple[str, ...]
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
            new = _replace(match[0], pattern)
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
        named = _REPAIRS.get(self._pattern)
        return repairs if named is None else [*repairs, named]

    def inner(self, outer: int) -> int:
        """Convert an offset in the original that is not inside a replacement."""
        outer -= self._base
        place = bisect_right(self._outer, outer) - 1
        return self._inner[place] + outer - self._outer[place]

    def outer(self, inner: int) -> int:
        place = bisect_right(self._inner, inner) - 1
        return self._base + self._outer[place] + inner - self._inner[place]


def _replace(found: str, pattern: re.Pattern[str]) -> str:
    """Return what replaces a match of one of the patterns."""
    if found[0] == "[":
        return f"<{found[1:-1]}>"
    if pattern is _curly_tag:
        return found.translate(_STRAIGHT)
    if pattern is _markdown or pattern is _piece:
        return found[1:] or ("\n" if found == "Ċ" else " ")
    if pattern is _escape:
        unescaped: str = decode(f'"{found}"')
        return unescaped
    return '"' if pattern is _quote_token else unescape_html(found)


@lru_cache(64)
def _square_tags(words: Words) -> re.Pattern[str]:
    """Return the pattern of the tags with these words, or of an argument, that are written in square brackets."""
    listed = "|".join(map(re.escape, (*words, "parameter", "param", "argument", "arg")))
    return re.compile(rf"\[/?(?:{listed}){_ATTRIBUTES}\]")


_IN_TAGS = ((_curly_begins, _curly_tag), (_marked_down, _markdown), (_tokenized, _piece))
"""What a tag looks like that a client or a tokenizer changed, and what has to be replaced in the text."""


class Sources:
    """The sources for the calls of one text. In a complete text, everything is replaced once."""

    __slots__ = ("_closed", "_kept", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._closed: dict[str, int] = {}
        self._kept: dict[re.Pattern[str], PlainSource] = {}

    def find(self, text: str, at: int, tags_of: Callable[[str], Words], *, final: bool) -> PlainSource | None:
        """Return the source for a call at `at`: without entities if it is escaped; None if more text is needed.

        `tags_of`: the words of all tags of a call, if a word in square brackets may be the first of them.
        """
        if escaped_start(text, at) is not None:
            return self._replace(text, at, _entity, final=final)
        if _quoted_json(text, at) is not None:
            return self._replace(text, at, _escape, final=final)
        if text.startswith("<", at):
            for begins, pattern in _IN_TAGS:
                if begins(text, at) is not None:
                    return self._replace(text, at, pattern, final=final)
        if not final and any(grows(text, at) for grows in (_may_be_escaped, _may_be_quoted, _square_may_start)):
            return None
        words = self._square_words(text, at, tags_of, final=final) if text.startswith("[", at) else ()
        if words:
            return self._replace(text, at, _square_tags(words), final=final)
        if _quote_token.search(text, at, at + _WINDOW) is not None:
            return self._replace(text, at, _quote_token, final=final)
        return PlainSource(text)

    def _square_words(self, text: str, at: int, tags_of: Callable[[str], Words], *, final: bool) -> Words:
        """Return the words of the tags of a call in square brackets, which is closed: [NAME]...[/NAME]."""
        opened = _square_start(text, at)
        words = tags_of(opened[1]) if opened is not None else ()
        if opened is None or not words or not final:
            return words
        if text is not self._text:
            self._text, self._kept, self._closed = text, {}, {}
        if opened[1] not in self._closed:
            self._closed[opened[1]] = text.rfind(f"[/{opened[1]}]") if len(self._closed) < _MOST_SQUARE else -1
        return words if self._closed[opened[1]] > at else ()

    def _replace(self, text: str, at: int, pattern: re.Pattern[str], *, final: bool) -> PlainSource:
        if not final:
            return PlainSource(text[at : at + _LOOK_AHEAD], pattern, at)
        if text is not self._text:
            self._text, self._kept, self._closed = text, {}, {}
        source = self._kept.get(pattern)
        if source is None:
            source = self._kept[pattern] = PlainSource(text, pattern)
        return source

"""Normalized views of a text: compatibility forms, escapes and invisible characters removed."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from urllib.parse import unquote

from msgspec import Struct

# --------------------------------------------------------------------------------------------------------------------
# A text as a tokenizer or a hurried reader sees it: compatibility forms made plain, invisible characters left out.

# The blocks of 256 characters in which some are another spelling of ASCII: fullwidth and small forms, letters in
# circles, mathematical alphabets. To ask for every character that there is would take a quarter of a second.
_BLOCKS = (
    *(0x00, 0x01, 0x02, 0x03, 0x1D, 0x1F, 0x20, 0x21, 0x24, 0x2A, 0x2C, 0x30, 0x32, 0x33, 0xA7, 0xFB, 0xFE, 0xFF),
    *(0x107, 0x1D4, 0x1D5, 0x1D6, 0x1D7, 0x1F1, 0x1FB),
)
_INVISIBLE = (
    *(range(0x00AD, 0x00AE), range(0x034F, 0x0350), range(0x061C, 0x061D), range(0x180B, 0x180F)),
    *(range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070), range(0x115F, 0x1161)),
    *(range(0xFE00, 0xFE10), range(0xFEFF, 0xFF00), range(0xFFF9, 0xFFFC), range(0x1BCA0, 0x1BCA4)),
    *(range(0x1D173, 0x1D17B), range(0xE0000, 0xE0200)),
)


class View(Struct, frozen=True):
    """The plain text, and where each of its characters came from."""

    text: str
    _shown: list[int] = []
    _given: list[int] = []

    def origin(self, position: int) -> int:
        """The place in the text as given of the character that stands here in the view."""
        if not self._shown:
            return position
        place = bisect_right(self._shown, position) - 1
        # Of several characters that stand for one, all come from that one.
        last = self._given[place + 1] - 1 if place + 1 < len(self._given) else None
        at = self._given[place] + position - self._shown[place]
        return at if last is None else min(at, last)


def look_at(text: str) -> View:
    """The view of a text. Most texts are their own."""
    if text.isascii():
        return View(text)
    find, table = _odd_characters()
    pieces: list[str] = []
    shown: list[int] = [0]
    given: list[int] = [0]
    length = end = 0
    for match in find(text):
        start = match.start()
        plain = text[end:start]
        replaced = table.get(match.group(), "")
        end = match.end()
        pieces += (plain, replaced)
        length += len(plain)
        if replaced:
            shown.append(length)
            given.append(start)
        length += len(replaced)
        shown.append(length)
        given.append(end)
    if not pieces:
        return View(text)
    pieces.append(text[end:])
    return View("".join(pieces), shown, given)


@cache
def _odd_characters() -> tuple[Callable[[str], Iterator[re.Match[str]]], dict[str, str]]:
    """How to find the characters that look like others or like nothing, and what they stand for."""
    table = {chr(code): "" for codes in _INVISIBLE for code in codes}
    for block in _BLOCKS:
        for code in range(max(block << 8, 0x80), (block + 1) << 8):
            character = chr(code)
            plain = unicodedata.normalize("NFKC", character)
            if plain.isascii() and character not in table:
                table[character] = plain
    return re.compile(f"[{''.join(table)}]").finditer, table


# --------------------------------------------------------------------------------------------------------------------
# One plain view of any text, in which a call reads the same however it was quoted, escaped, folded or disguised.
#
# Letters and digits are kept, in lower case. What stands between them becomes one character: an opening bracket, a
# closing one, an empty pair, or a blank. Quotation marks, backslashes, angle prefixes, dashes, underscores and line
# breaks all end as blanks, so that a quotation, a string inside a string or another spelling makes no difference. The
# call that is judged and the content that it is looked for in go through the same view; that is all that counts.

OPEN, CLOSE, EMPTY, BLANK = "{", "}", "@", " "
MARKS = BLANK + OPEN + CLOSE + EMPTY

_ROUNDS = 3
"""How deep escapes may be nested: a string in a string in a page."""
_FEW = 24

_terminal_code = re.compile(r"\x1b\[[0-9;?]*[a-z]")
_percent_code = re.compile(r"%(?:20|22|27|28|3c|3d|5b|7b)")
_tag = re.compile(r"<[/a-z!][^<>]{0,300}>", re.IGNORECASE)
_closing_tag = re.compile(r"</(?:a|b|code|div|em|font|i|kbd|li|mark|p|pre|s|small|span|strong|td|tt|u)>", re.IGNORECASE)
_entity = re.compile(r"&(?:#|[a-z]+;)")
# From the first backslash of a run only: a run without an end must not be tried from each of its places.
_control_escape = re.compile(r"(?<!\\)\\++[nrbfv]")
_tab_escape = re.compile(r"(?<!\\)\\++t")
_code = re.compile(r"(?<!\\)(\\++)(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,5})\}|x([0-9a-f]{2}))")
_continuation = re.compile(r"\\\r?\n[ \t]*")
"""A backslash at the end of a line: the line goes on, as YAML folds long texts."""
_surrogates = re.compile("[\ud800-\udfff]")
_ignorable = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0001\U000e007f\U000e0100-\U000e01ef]"
)
# The label of a code fence names a language. A tool may have the same name, and ```bash is no call of it.
_label = r"[ \t]*(?!tool|json|function)[\w+#.\-]+[ \t]*(?=\n|\Z)"
_line_number = re.compile(r"^[ \t]*(\d{1,6})(?:\t|[|:] ?| )", re.MULTILINE)
_fence_labels = {fence: re.compile(fence + _label) for fence in ("```", "~~~")}


def _make_table() -> bytes:
    table = bytearray(range(256))
    for code in range(128):
        character = chr(code)
        if not character.isalnum():
            table[code] = ord(OPEN if character in "{([<" else CLOSE if character in "})]" else BLANK)
    return bytes(table)


_TABLE = _make_table()
_NO_LETTERS = bytes(code for code in range(128) if not chr(code).isalnum())


def unescape(text: str) -> str:
    """The text in lower case, without entities and escapes, disguises and invisible characters."""
    text = text.lower()
    if "\\\n" in text or "\\\r" in text:
        text = _continuation.sub("", text)
    for _ in range(_ROUNDS):
        if not text.isascii():
            text = _simplify(text)
        before = text
        if "\x1b" in text:
            text = _terminal_code.sub("", text)
        if "&" in text and _entity.search(text):
            text = html.unescape(text).lower()
        if "\\u" in text or "\\x" in text:
            text = _read_codes(text)
        if "%" in text and _percent_code.search(text):
            text = unquote(text, errors="replace").lower()
        if text == before:
            break
    # Last, because it uncovers no further escape: it takes all backslashes that stand before a letter.
    return _read_controls(text) if "\\" in text else text


def without_tags(text: str) -> str | None:
    """What a reader sees of a page: a call that is coloured word by word is whole again. None if it is no page."""
    if "</" not in text or _closing_tag.search(text) is None:
        return None
    return _tag.sub("", text)


def alphanumerics(unescaped: str) -> str:
    """Only the letters and digits: the cheapest way to see that a name occurs nowhere."""
    return unescaped.encode("utf-8", "replace").translate(None, _NO_LETTERS).decode("utf-8", "replace")


def view(unescaped: str) -> str:
    """The plain view of an unescaped text."""
    for fence, label in _fence_labels.items():
        if fence in unescaped:
            unescaped = label.sub(BLANK, unescaped)
    unescaped = _drop_line_numbers(unescaped)
    if "/>" in unescaped:
        unescaped = unescaped.replace("/>", CLOSE)
    # Every byte of a letter beyond ASCII maps to itself; what else lies there is gone already.
    marked = unescaped.encode("utf-8", "replace").translate(_TABLE).decode("utf-8", "replace")
    return _collapse(" ".join(marked.split()))


def _drop_line_numbers(text: str) -> str:
    """Tools that read files number the lines. Only numbers that count on are such."""
    found = list(_line_number.finditer(text))
    numbers = [int(each[1]) for each in found]
    pieces: list[str] = []
    position = 0
    for place, each in enumerate(found):
        if numbers[place] + 1 in numbers[place + 1 : place + 2] or numbers[place] - 1 in numbers[place - 1 : place]:
            pieces.append(text[position : each.start()])
            position = each.end()
    return "".join((*pieces, text[position:])) if pieces else text


def compact(viewed: str) -> str:
    """A view without its blanks: what is left when words may be broken anywhere."""
    return viewed.replace(BLANK, "")


def piece(text: str) -> str:
    """The view of a part of a call, without the marks around it: they merge with those of the wrapper."""
    return view(unescape(text)).strip(MARKS)


def _read_codes(text: str) -> str:
    text = _code.sub(_character, text)
    if not text.isascii() and _surrogates.search(text):
        # Two escapes made one character; alone they are none.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.lower()


def _read_controls(text: str) -> str:
    if "\\\\" in text:
        return _control_escape.sub("\n", _tab_escape.sub("\t", text))
    text = text.replace("\\t", "\t")
    for letter in "nrbfv":
        text = text.replace("\\" + letter, "\n")
    return text


def _character(match: re.Match[str]) -> str:
    # Three backslashes are one of their own, and one that begins the code.
    return "\\" * ((len(match[1]) - 1) // 2) + chr(int(match[2] or match[3] or match[4], 16))


def _simplify(text: str) -> str:
    """Without characters that nobody sees, with one form for letters that only look different, and plain marks."""
    strange = [character for character in set(text) if character > "\x7f"]
    if any(map(unicodedata.combining, strange)):
        text = unicodedata.normalize("NFKC", text)
        strange = [character for character in set(text) if character > "\x7f"]
    changed = {character: plain for character in strange if (plain := _plain_form(character)) != character}
    if len(changed) > _FEW:
        return text.translate({ord(character): plain for character, plain in changed.items()})
    for character, plain in changed.items():
        text = text.replace(character, plain)
    return text


@lru_cache(maxsize=4096)
def _plain_form(character: str) -> str:
    if "\U000e0020" <= character <= "\U000e007e":
        # Invisible twins of ASCII, which models read all the same.
        return chr(ord(character) - 0xE0000).lower()
    if _ignorable.match(character):
        return ""
    if character in "‹〈⟨❮﹤":
        return "<"
    plain = unicodedata.normalize("NFKC", character).lower()
    return "".join(each if each < "\x80" or each.isalnum() else BLANK for each in plain)


def _collapse(text: str) -> str:
    """One mark in the place of several."""
    if OPEN in text:
        text = text.replace("{ }", EMPTY).replace("{}", EMPTY)
    for mark in (OPEN, CLOSE, EMPTY):
        if mark in text:
            text = text.replace(BLANK + mark, mark).replace(mark + BLANK, mark)
    for mark in (CLOSE, OPEN):
        # Every round halves the longest run.
        while mark + mark in text:
            text = text.replace(mark + mark, mark)
    text = text.replace(CLOSE + OPEN, OPEN)
    while OPEN + OPEN in text:
        text = text.replace(OPEN + OPEN, OPEN)
    return _collapse_empty(text) if EMPTY in text else text


def _collapse_empty(text: str) -> str:
    """What stands beside an empty pair says less than the pair."""
    while True:
        before = len(text)
        for beside in (EMPTY + EMPTY, EMPTY + OPEN, EMPTY + CLOSE, OPEN + EMPTY, CLOSE + EMPTY):
            text = text.replace(beside, EMPTY)
        if len(text) == before:
            return text

"""Normalised views of a text, without compatibility forms, escapes and invisible characters."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from urllib.parse import unquote

from msgspec import Struct

from dragoman.characters import is_invisible

# --------------------------------------------------------------------------------------------------------------------
# A text as a tokenizer reads it: compatibility forms replaced, invisible characters removed.

# The blocks of 256 characters that contain other spellings of ASCII: fullwidth and small forms, circled letters,
# mathematical alphabets. A check of every Unicode character would take a quarter of a second.
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
    """The plain text, and the origin of each of its characters."""

    text: str
    _shown: list[int] = []
    _given: list[int] = []

    def origin(self, position: int) -> int:
        """Return the position in the original text of the character at this position of the view."""
        if not self._shown:
            return position
        place = bisect_right(self._shown, position) - 1
        # If several characters replace one, all of them come from it.
        last = self._given[place + 1] - 1 if place + 1 < len(self._given) else None
        at = self._given[place] + position - self._shown[place]
        return at if last is None else min(at, last)


def look_at(text: str) -> View:
    """Return the view of a text. Most texts are equal to their view."""
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
    """Return a search for characters that look like others or are invisible, and their replacements."""
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
# Letters and digits are kept, in lower case. Everything between them becomes one character: an opening bracket, a
# closing one, an empty pair, or a blank. Quotation marks, backslashes, angle prefixes, dashes, underscores and line
# breaks all become blanks, so that a quotation, a string inside a string or another spelling makes no difference. The
# judged call and the content pass through the same view, so the view need not be readable.

OPEN, CLOSE, EMPTY, BLANK = "{", "}", "@", " "
MARKS = BLANK + OPEN + CLOSE + EMPTY

_ROUNDS = 3
"""The maximum depth of nested escapes: a string in a string in a page."""
_FEW = 24

_terminal_code = re.compile(r"\x1b\[[0-9;?]*[a-z]")
_percent_code = re.compile(r"%(?:20|22|27|28|3c|3d|5b|7b)")
_tag = re.compile(r"<[/a-z!][^<>]{0,300}>", re.IGNORECASE)
_closing_tag = re.compile(r"</(?:a|b|code|div|em|font|i|kbd|li|mark|p|pre|s|small|span|strong|td|tt|u)>", re.IGNORECASE)
_entity = re.compile(r"&(?:#|[a-z]+;)")
# Match only from the first backslash of a run. Otherwise a long run would be tried from each position.
_control_escape = re.compile(r"(?<!\\)\\++[nrbfv]")
_tab_escape = re.compile(r"(?<!\\)\\++t")
_code = re.compile(r"(?<!\\)(\\++)(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,5})\}|x([0-9a-f]{2}))")
_continuation = re.compile(r"\\\r?\n[ \t]*")
"""A backslash at the end of a line joins the next line, as YAML folds long texts."""
_surrogates = re.compile("[\ud800-\udfff]")
# The label of a code block names a language. A tool may have the same name, but ```bash is not a call of it.
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
    """Return the text in lower case, without entities, escapes, disguises and invisible characters."""
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
    # Last, because it reveals no further escape: it removes all backslashes before a letter.
    return _read_controls(text) if "\\" in text else text


def without_tags(text: str) -> str | None:
    """Return the visible text of a page: a call with a tag around each word is whole again. None if it is no page."""
    if "</" not in text or _closing_tag.search(text) is None:
        return None
    return _tag.sub("", text)


def alphanumerics(unescaped: str) -> str:
    """Return only the letters and digits: the cheapest test that a name does not occur."""
    return unescaped.encode("utf-8", "replace").translate(None, _NO_LETTERS).decode("utf-8", "replace")


def view(unescaped: str) -> str:
    """Return the plain view of an unescaped text."""
    for fence, label in _fence_labels.items():
        if fence in unescaped:
            unescaped = label.sub(BLANK, unescaped)
    unescaped = _drop_line_numbers(unescaped)
    if "/>" in unescaped:
        unescaped = unescaped.replace("/>", CLOSE)
    # Every byte of a letter beyond ASCII maps to itself. Other characters beyond ASCII are already removed.
    marked = unescaped.encode("utf-8", "replace").translate(_TABLE).decode("utf-8", "replace")
    return _collapse(" ".join(marked.split()))


def _drop_line_numbers(text: str) -> str:
    """Remove the line numbers that file tools add. Only consecutive numbers are line numbers."""
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
    """Return a view without its blanks, for texts whose words may be split anywhere."""
    return viewed.replace(BLANK, "")


def piece(text: str) -> str:
    """Return the view of a part of a call, without the marks around it, which merge with those of the wrapper."""
    return view(unescape(text)).strip(MARKS)


def _read_codes(text: str) -> str:
    text = _code.sub(_character, text)
    if not text.isascii() and _surrogates.search(text):
        # Two surrogate escapes make one character. A single one is not a character.
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
    # Of three backslashes, two are one literal backslash, and the third begins the code.
    return "\\" * ((len(match[1]) - 1) // 2) + chr(int(match[2] or match[3] or match[4], 16))


def _simplify(text: str) -> str:
    """Remove invisible characters, and replace compatibility forms and special brackets by plain ones."""
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
        # Invisible copies of ASCII (tag characters), which models still read.
        return chr(ord(character) - 0xE0000).lower()
    if is_invisible(character) and not character.isspace():
        return ""
    if character in "‹〈⟨❮﹤":
        return "<"
    plain = unicodedata.normalize("NFKC", character).lower()
    return "".join(each if each < "\x80" or each.isalnum() else BLANK for each in plain)


def _collapse(text: str) -> str:
    """Replace each sequence of marks by one mark."""
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
    """Replace an empty pair and the marks next to it by the pair, which says more."""
    while True:
        before = len(text)
        for beside in (EMPTY + EMPTY, EMPTY + OPEN, EMPTY + CLOSE, OPEN + EMPTY, CLOSE + EMPTY):
            text = text.replace(beside, EMPTY)
        if len(text) == before:
            return text

"""Normalised views of a text, without compatibility forms, escapes and invisible characters."""

from __future__ import annotations

import re
import sys
import unicodedata
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from urllib.parse import unquote

from msgspec import Struct

from dragoman.characters import is_invisible, normalize, unescape_html

# --------------------------------------------------------------------------------------------------------------------
# A text as a tokenizer reads it: compatibility forms replaced, invisible characters removed.

_unusual = re.compile(r"[^\t\n\x20-\x7e]").search


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
    if _unusual(text) is None:
        return View(text)
    odd = {character: seen for character in set(text) if (seen := _seen(character)) != character}
    if not odd:
        return View(text)
    pieces: list[str] = []
    shown: list[int] = [0]
    given: list[int] = [0]
    length = end = 0
    for match in re.finditer(f"[{re.escape(''.join(sorted(odd)))}]", text):
        start = match.start()
        plain = text[end:start]
        replaced = odd[match.group()]
        end = match.end()
        pieces += (plain, replaced)
        length += len(plain)
        if replaced:
            shown.append(length)
            given.append(start)
        length += len(replaced)
        shown.append(length)
        given.append(end)
    pieces.append(text[end:])
    return View("".join(pieces), shown, given)


@lru_cache(maxsize=4096)
def _seen(character: str) -> str:
    """Return what a tokenizer that normalises its text makes of a character: nothing of one that nobody sees."""
    if is_invisible(character):
        return character if character in "\t\n" else ""
    plain = unicodedata.normalize("NFKC", character)
    return plain if plain.isascii() else character


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
_LETTERS_IN_SIGNS = (0x249C, 0x1F150, 0x1F170, 0x1F1E6)
"""The first of 26 letters in brackets, white on black, or of flags."""
_BASES = {"0x": 16, "0b": 2, "0o": 8}
_LARGEST_NUMBER = 1e22
"""Above it, not every digit of a float is known."""

# Colours and movements, titles and links, character sets.
_terminal_code = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;:?<=>!]*+[ -/]*+[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[()*+\-./][0-9A-Za-z]"
)
_entity = re.compile(r"&[#a-zA-Z]")
_escape_entity = re.compile(r"&#(?:0{0,5}27|[xX]0{0,5}1[bB])(?![0-9a-fA-F]);?")
"""HTML has no such character, and a terminal has."""
_percent_code = re.compile(r"%(?:[0-9a-fA-F]{2}|[uU][0-9a-fA-F]{4})")
_long_percent_code = re.compile(r"%[uU]([0-9a-fA-F]{4})")
# Match only from the first backslash of a run. Otherwise a long run would be tried from each position. The backslash
# comes before the condition on the character before it: so the search skips everything else quickly.
_control_escape = re.compile(r"\\(?<!\\\\)\\*+[nrbfvNRBFV]")
_tab_escape = re.compile(r"\\(?<!\\\\)\\*+[tT]")
# A code of eight digits has a capital U. With a small one it begins with a control character, which nobody writes.
_code = re.compile(
    r"\\(?<!\\\\)(\\*+)(?:u((?:000[0-9a-f]|0010)?[0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|x([0-9a-f]{2})|(0?[0-3]?[0-7]{2})(?!\d))",
    re.IGNORECASE,
)
_continuation = re.compile(r"\\\r?\n[ \t]*")
"""A backslash at the end of a line joins the next line, as YAML folds long texts."""
# Only the numbers that may have another form: with an exponent, or with zeros or many digits in the fraction.
# The first character comes before the condition on the one before it: so the search skips everything else quickly.
_exponent = r"e[-+]?[0-9]{1,3}+"
_number_form = re.compile(
    rf"[.0-9](?<![\w.].)(?:(?<=0)(?:x[0-9a-f]{{1,16}}|b[01]{{1,64}}|o[0-7]{{1,21}})"
    rf"|(?<=\.)[0-9]{{1,30}}+(?:{_exponent})?+"
    rf"|(?<=[0-9])[0-9]{{0,20}}+(?:{_exponent}"
    rf"|\.(?:(?:0000[0-9]{{1,26}}+|[0-9]{{15,30}}+)(?:{_exponent})?+|[0-9]{{1,14}}+(?:{_exponent}|(?<=0)))))(?!\w|\.[0-9])"
)
_surrogates = re.compile("[\ud800-\udfff]")
# The label of a code block names a language. A tool may have the same name, but ```bash is not a call of it.
_label = r"[ \t]*(?!tool|json|function)[\w+#.\-]+[ \t]*(?=\n|\Z)"
# As editors and lists write it: 7| and 7) and [7] and L7. The line break is a part of the match: so the search skips
# everything else quickly.
_line_number = re.compile(r"\n[ \t>]*[\[(L]?(\d{1,7})(?:\t|[\])|:→] ?| |\.(?!\d) ?)")
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
    """Return the text in lower case, without escapes and disguises, and with numbers in one form."""
    return lower(decode(text))


def decode(text: str) -> str:
    """Return the text without entities, escapes, disguises, invisible characters and line numbers, in its own case.

    Each step depends only on the characters that it replaces, and not on the rest of the text. Otherwise a call in the
    middle of a page would read differently than the same call alone.
    """
    if "\\\n" in text or "\\\r" in text:
        text = _continuation.sub("", text)
    for _ in range(_ROUNDS):
        if "\x1b" in text or "\x9b" in text:
            text = _terminal_code.sub("", text)
        if not text.isascii():
            text = _simplify(text)
        before = text
        if "&" in text and _entity.search(text):
            text = unescape_html(_escape_entity.sub("\x1b", text))
        if "\\" in text:
            text = _read_codes(text)
        if "%" in text and _percent_code.search(text):
            text = unquote(_long_percent_code.sub(lambda code: chr(int(code[1], 16)), text), errors="replace")
        if text == before:
            break
    # Last, because it reveals no further escape: it removes all backslashes before a letter.
    if "\\" in text:
        text = _control_escape.sub("\n", _tab_escape.sub("\t", text))
    return _drop_line_numbers(text)


def lower(decoded: str) -> str:
    """Return a decoded text in lower case, with numbers in one form."""
    text = decoded.lower()
    if not text.isascii():
        # The dot over a capital I is a character of its own, and a sigma at the end of a word has another form.
        text = text.replace("i\u0307", "i ").replace("ς", "σ")
    return _number_form.sub(_plain_number, text)


def alphanumerics(unescaped: str) -> str:
    """Return only the letters and digits: the cheapest test that a name does not occur."""
    return unescaped.encode("utf-8", "replace").translate(None, _NO_LETTERS).decode("utf-8", "replace")


def view(unescaped: str) -> str:
    """Return the plain view of an unescaped text."""
    for fence, label in _fence_labels.items():
        if fence in unescaped:
            unescaped = label.sub(BLANK, unescaped)
    if "/>" in unescaped:
        unescaped = unescaped.replace("/>", CLOSE)
    # Every byte of a letter beyond ASCII maps to itself. Other characters beyond ASCII are already removed.
    marked = unescaped.encode("utf-8", "replace").translate(_TABLE).decode("utf-8", "replace")
    return _collapse(" ".join(marked.split()))


def _drop_line_numbers(text: str, pattern: re.Pattern[str] = _line_number) -> str:
    """Remove the line numbers that file tools add. Only consecutive numbers are line numbers."""
    found = list(pattern.finditer("\n" + text)) if "\n" in text else []
    numbers = [int(each[1]) for each in found]
    steps = [0, *(abs(one - other) for one, other in pairwise(numbers)), 0]
    pieces: list[str] = []
    position = 0
    for place, each in enumerate(found):
        if 1 in steps[place : place + 2]:
            # In the text itself, the line break is one place further to the left, and it stays.
            pieces.append(text[position : each.start()])
            position = each.end() - 1
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
    return text


def _character(match: re.Match[str]) -> str:
    # Of three backslashes, two are one literal backslash, and the third begins the code.
    kept = "\\" * (len(match[1]) // 2)
    if match[5]:
        return kept + chr(int(match[5], 8))
    code = int(match[2] or match[3] or match[4], 16)
    return kept + chr(code) if code <= sys.maxunicode else match[0]


def _plain_number(match: re.Match[str]) -> str:
    """Return a number as it is usually written: 1e3, 0x3e8 and 1000.0 are 1000, and 0.50 and .5 are 0.5."""
    written = match[0]
    if written[:2] in _BASES:
        return str(int(written[2:], _BASES[written[:2]]))
    return spell_number(float(written))


def spell_number(value: float) -> str:
    """Return a number in its shortest form, without a fraction of zeros."""
    return str(int(value)) if abs(value) < _LARGEST_NUMBER and value.is_integer() else str(value)


def _simplify(text: str) -> str:
    """Remove invisible characters, and replace compatibility forms and special brackets by plain ones."""
    # A mark and the letter before it make one character, as soon as nothing invisible is between them.
    text = normalize("NFKC", _replace(text, _plain_form))
    return text if text.isascii() else _replace(text, _plain_mark)


def _replace(text: str, plain_form: Callable[[str], str]) -> str:
    strange = [character for character in set(text) if character > "\x7f"]
    changed = {character: plain for character in strange if (plain := plain_form(character)) != character}
    if len(changed) > _FEW:
        return text.translate({ord(character): plain for character, plain in changed.items()})
    for character, plain in changed.items():
        text = text.replace(character, plain)
    return text


def _plain_mark(character: str) -> str:
    return character if character.isalnum() else BLANK


@lru_cache(maxsize=4096)
def _plain_form(character: str) -> str:
    if "\U000e0020" <= character <= "\U000e007e":
        # Invisible copies of ASCII (tag characters), which models still read.
        return chr(ord(character) - 0xE0000)
    if is_invisible(character) and not character.isspace():
        return ""
    if character in "‹〈⟨❮﹤":
        return "<"
    if unicodedata.combining(character):
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    for first in _LETTERS_IN_SIGNS:
        if first <= ord(character) < first + 26:
            return chr(ord(character) - first + ord("a"))
    plain = unicodedata.normalize("NFKC", character)
    return "".join(each if each < "\x80" or each.isalnum() or unicodedata.combining(each) else BLANK for each in plain)


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


# --------------------------------------------------------------------------------------------------------------------
# The readings of a content: other texts that a model may see in it. Unlike `unescape`, these steps may hide a call that
# is written plainly (`<function=add>` contains a code of quoted-printable), so each reading is a text of its own.

# A prefix of grep: a.txt:7: and a.txt-7-.
_match_number = re.compile(r"\n(?:[^\n:\-]{0,100}+[:\-]){1,8}?(\d{1,7})[:\-]")
_overwritten = re.compile(r"[^\n\x08]\x08")
_quoted_printable = re.compile(r"=(?:[2-7][0-9a-fA-F]|[ \t]*\r?\n)")
_soft_break = re.compile(r"=[ \t]{0,80}\r?\n")
_octets = re.compile(r"(?:=[0-9a-fA-F]{2})+")
# A value may contain a bracket. Each search ends at the next opening bracket, so that it is linear.
_attributes = r"(?:(?:[^<>\"']++|\"[^\"<]*+\"|'[^'<]*+')*+|[^<>]*+)"
_tag = re.compile(rf"<[/a-z!?]{_attributes}>", re.IGNORECASE)
_inline_tag = re.compile(
    r"</?(?:abbr|a|bdi|bdo|big|blockquote|br|b|center|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|img|ins|i|kbd|li"
    r"|mark|ol|pre|p|q|samp|section|small|span|strike|strong|sub|summary|sup|s|table|tbody|td|th|thead|tr|tt|ul|u|var"
    rf"|wbr)(?:[\s/]{_attributes})?>",
    re.IGNORECASE,
)
_empty_element = re.compile(
    r"<([a-z][\w:.\-]{0,40})(?:\s[^<>]{0,300})?>\s{0,20}</\1>|<[a-z][\w:.\-]{0,40}(?:\s[^<>]{0,300})?/>", re.IGNORECASE
)
_comments = (("<!--", "-->"), ("/*", "*/"), ("<?", "?>"))
_LEAST_BASE64 = 24
_ALPHABET = bytes.maketrans(b"-_", b"+/")
_NO_BASE64 = bytes(
    code for code in range(256) if not chr(code).isascii() or not (chr(code).isalnum() or chr(code) in "+/-_")
)
# What joins the lines of encoded text and has a character of the alphabet.
_JOINTS = (b"\n-- ", b"\n- ", b"\n// ", b"\nb'", b'\nb"', b'" +', b"' +", b'+ "', b"+ '")
_KINDS = bytes(
    ord(
        "a"
        if code in (8, 9, 10, 13, 27) or 32 <= code < 127
        else "c"
        if 0x80 <= code < 0xC0
        else "2"
        if 0xC2 <= code < 0xE0
        else "3"
        if 0xE0 <= code < 0xF0
        else "4"
        if 0xF0 <= code < 0xF5
        else "-"
    )
    for code in range(256)
)
"""Maps the bytes of ASCII text to `a`, and those of other characters to their length and `c`."""
_PLAIN = (b"a" * 12, b"2c" * 8, b"3cc" * 5, b"4ccc" * 4, b"a2c" * 5, b"a3cc" * 4)
_plain_octets = re.compile(rb"[\x08-\n\r\x1b\x20-\x7e\x80-\xf4]{16,}+").findall


def readings(text: str) -> list[str]:
    """Return the decoded content, and what it contains without its markup or in another encoding.

    Two forms may be combined, such as base64 in quoted-printable, and each of them may be escaped.
    """
    plain = decode(text)
    found = {plain: None}
    latest = [(text, plain)]
    for _ in range(2):
        others = dict.fromkeys(other for given, decoded in latest for other in _convert(given, decoded))
        latest = [(other, decoded) for other in others if (decoded := decode(other)) and decoded not in found]
        found |= dict.fromkeys(decoded for _, decoded in latest)
    return list(found)


def _convert(text: str, decoded: str) -> Iterator[str]:
    if "=" in decoded and _quoted_printable.search(decoded):
        yield _octets.sub(_decode_octets, _soft_break.sub("", decoded))
    yield from _strip_markup(decoded)
    if text.count("<") != decoded.count("<") or text.count("/*") != decoded.count("/*"):
        # A tag that is written in escapes may hide what follows it.
        yield from _strip_markup(text)
    yield _decode_base64(decoded)
    if "\x08" in decoded:
        # A terminal shows only the character after it.
        yield _overwritten.sub("", decoded)
    unnumbered = _drop_line_numbers(decoded, _match_number)
    if unnumbered != decoded:
        yield unnumbered


def _strip_markup(text: str) -> Iterator[str]:
    plain = _without_markup(text)
    if plain != text:
        yield plain
    bare = _tag.sub("", plain) if "<" in plain else plain
    if bare != plain:
        yield bare


def _decode_octets(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("=", "")).decode("utf-8", "replace")


def _without_markup(text: str) -> str:
    """Return a text without comments, tags of HTML and empty elements. A call with a tag in each word is whole again,
    and the tags of its own wrapper remain."""
    for opener, closer in _comments:
        if opener in text and closer in text:
            text = _cut_out(text, opener, closer)
    if "<![CDATA[" in text:
        text = text.replace("<![CDATA[", "").replace("]]>", "")
    if "<" not in text:
        return text
    return _empty_element.sub("", _empty_element.sub("", _inline_tag.sub("", text)))


def _cut_out(text: str, opener: str, closer: str) -> str:
    """Remove each span between two markers. A regular expression would scan the rest of the text for each opener."""
    kept: list[str] = []
    position = 0
    while (start := text.find(opener, position)) >= 0:
        end = text.find(closer, start + len(opener))
        if end < 0:
            break
        kept.append(text[position:start])
        position = end + len(closer)
    return "".join((*kept, text[position:]))


def _decode_base64(text: str) -> str:
    """Return the texts in base64, which may be split anywhere. Other words may precede them, so each of the four
    alignments is decoded. What is not encoded decodes to octets that are no text."""
    octets = text.encode("ascii", "ignore")
    for joint in _JOINTS:
        if joint in octets:
            octets = octets.replace(joint, b" ")
    digits = octets.translate(_ALPHABET, _NO_BASE64)
    if len(digits) < _LEAST_BASE64:
        return ""
    found: list[str] = []
    for first in range(4):
        octets = a2b_base64(digits[first : first + (len(digits) - first) // 4 * 4])
        if b"\0" in octets:
            octets = octets.replace(b"\0", b"")
        if _is_plain(octets):
            found += [each.decode("utf-8", "ignore") for each in _plain_octets(octets) if _is_plain(each)]
    return "\n".join(found)


def _is_plain(octets: bytes) -> bool:
    kinds = octets.translate(_KINDS)
    return any(map(kinds.__contains__, _PLAIN))

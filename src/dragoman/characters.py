"""Characters that a person cannot see, and the spelling in which they are shown.

Text from models, tools, pages and servers may contain characters that have no shape, that move the cursor, or that
change how other characters appear. Every place where a person reads spells them with the functions of this module:
`escape_text` for prose of several lines, `escape_line` for one line, and `quote_value` for a value that must not be
confused with another one.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal

# Letters, marks and symbols that have no shape, or only a blank one. Unicode gives them the categories of visible
# characters: joiners, fillers of Hangul, Khmer, Mongolian and Khitan, blank symbols of Braille and music, selectors.
_BLANK_LETTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
).match
# Symbols that a newer version of Unicode may assign here are shown by terminals.
_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u231a-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
).match
TOKENIZER_BLANKS: Final = "▁ĠĊ"
"""What tokenizers write for a blank and for the end of a line."""
_KEYCAP: Final = "0123456789#*"
_EMOJI_SELECTORS: Final = "\ufe0e\ufe0f"
_JOINERS: Final = "\u200c\u200d"
# Arabic letters that connect to the next letter.
_CONNECTING = re.compile(
    "[\u0620\u0626\u0628\u062a-\u062e\u0633-\u0647\u0649\u064a\u066e\u066f\u0678-\u0687\u069a-\u06bf\u06c1\u06c2\u06cc"
    "\u06ce\u06d0\u06d1\u06fa-\u06ff]"
).match
_VIRAMA: Final = 9
_SHORT_SPELLINGS: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e]").search
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search
# Colours and movements, titles and links, and then what is left alone.
_CONTROL_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Several blanks could look like a gap between two values.
_UNPLAIN_VALUE = re.compile(r'\A\s|\s\Z|  |"|\A\Z').search


@lru_cache(maxsize=4096)
def is_invisible(character: str) -> bool:
    """Whether a character has no shape, breaks the line, or changes how others appear. A blank is visible."""
    if character == " ":
        return False
    if character.isprintable():
        return _BLANK_LETTERS(character) is not None
    return unicodedata.category(character) != "Zs" and _EMOJI(character) is None


def is_blank(text: str) -> bool:
    """Whether there is nothing to see in a text: only white space and invisible characters."""
    return not text or text.isspace() or all(each.isspace() or is_invisible(each) for each in text)


@lru_cache(maxsize=4096)
def _is_strange(character: str) -> bool:
    """Whether a character is invisible, or a blank that only looks like the usual one."""
    return is_invisible(character) or (character != " " and unicodedata.category(character) == "Zs")


def spell(character: str) -> str:
    """A character as an escape: `\\n`, `\\u202e`, `\\U000e0041`."""
    code = ord(character)
    return _SHORT_SPELLINGS.get(character) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def escape_text(text: str) -> str:
    """Prose of several lines for a person: every invisible character but line breaks and tabs as an escape.

    Selectors and joiners stay where they change a visible shape: in emoji, and where RFC 5892 allows them in words.
    """
    return _escape_from(text.replace("\r\n", "\n"), 0)


def _escape_from(text: str, start: int) -> str:
    odd = {character for character in set(text) if character not in "\n\t" and is_invisible(character)}
    if not odd:
        return text[start:]
    if odd.isdisjoint(_EMOJI_SELECTORS + _JOINERS):
        return text[start:].translate({ord(character): spell(character) for character in odd})
    pieces: list[str] = []
    for at in range(start, len(text)):
        character = text[at]
        pieces.append(spell(character) if character in odd and not _shapes(text, at) else character)
    return "".join(pieces)


def _shapes(text: str, at: int) -> bool:
    """Whether a selector or a joiner changes a visible shape at this place."""
    if not at:
        return False
    before, after = text[at - 1], text[at + 1 : at + 2]
    if text[at] in _EMOJI_SELECTORS:
        return _EMOJI(before) is not None or (before in _KEYCAP and after == "\u20e3")
    if text[at] not in _JOINERS or not after:
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return after.isalpha()
    if text[at] == "\u200c":
        return _CONNECTING(before) is not None and "\u0620" <= after <= "\u06ff" and after.isalpha()
    if before in _EMOJI_SELECTORS:
        before = text[at - 2 : at - 1] if at > 1 else ""
    return _EMOJI(before) is not None and _EMOJI(after) is not None


def escape_line(text: str) -> str:
    """A text on one line for a person: line breaks, tabs and unusual blanks are escapes as well."""
    odd = {character for character in set(text) if _is_strange(character)}
    return text.translate({ord(character): spell(character) for character in odd}) if odd else text


def escape_lines(text: str) -> str:
    """A value of several lines: as on one line, with its line breaks and tabs. A backslash is doubled if need be."""
    odd = {character for character in set(text) if character not in "\n\t" and _is_strange(character)}
    if not odd:
        return text
    return text.translate({ord(character): spell(character) for character in odd} | {ord("\\"): "\\\\"})


def escape_message(text: str) -> str:
    """A message that may have several lines. The later ones are indented, so that none looks like another message."""
    return escape_text(text).replace("\n", "\n  ")


def strip_invisible(text: str) -> tuple[str, int]:
    """The text without invisible characters, and how many were removed. Every kind of line break becomes `\\n`."""
    if _UNUSUAL(text) is None:
        return text, 0
    text = _LINE_ENDS.sub("\n", text)
    odd = {character for character in set(text) if character not in "\n\t" and is_invisible(character)}
    if not odd:
        return text, 0
    kept = [text[at] for at in range(len(text)) if text[at] not in odd or _shapes(text, at)]
    return "".join(kept), len(text) - len(kept)


def strip_controls(text: str) -> str:
    """The text without control characters and the sequences that they begin, but with tabs and line breaks.

    Unlike `strip_invisible`, it keeps every character that may be a part of words in some script.
    """
    return text if _CONTROL(text) is None else _CONTROL_SEQUENCES.sub("", text)


def quote_value(text: str) -> str:
    """A value on one line, as it is if a person cannot misread it. Otherwise it is quoted, with escapes as in JSON.

    The quotes tell an escape from a backslash in the value, and show blanks at the ends.
    """
    if not _UNPLAIN_VALUE(text) and not any(map(_is_strange, set(text))):
        return text
    return escape_line(json.dumps(text, ensure_ascii=False))


def escape_json(written: str) -> str:
    """A JSON text in which every invisible character is an escape. It has the same meaning."""
    odd = {character for character in set(written) if not character.isascii() or character == "\x7f"}
    table = {ord(character): json.dumps(character)[1:-1] for character in odd if _is_strange(character)}
    if "\x7f" in odd:
        table[0x7F] = "\\u007f"
    return written.translate(table) if table else written


class TextEscaper:
    """`escape_text` for prose that arrives in pieces. Any way of cutting the text gives the same result."""

    def __init__(self) -> None:
        self._before = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece; return what can be shown by now."""
        text = self._held + piece
        # What these mean depends on the next character.
        size = len(text) - (text[-1:] in ("\r", *_EMOJI_SELECTORS, *_JOINERS))
        self._held = text[size:]
        return self._show(text[:size])

    def close(self) -> str:
        """The text has ended: return the rest of it."""
        text, self._held = self._held, ""
        return self._show(text)

    def _show(self, text: str) -> str:
        whole = self._before + text.replace("\r\n", "\n")
        shown = _escape_from(whole, len(self._before))
        self._before = whole[-2:]
        return shown


# No character has a number this long. Python reads it in a time that grows with the square of its length, or fails.
_leading_zeros = re.compile(r"(&#[xX]?)0{2,}+(?=[0-9a-fA-F])")
_long_number = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{7,}+);?")


def unescape_html(text: str) -> str:
    """Return a text with its entities replaced."""
    if "&#" in text:
        text = _long_number.sub("\ufffd", _leading_zeros.sub(r"\1", text))
    return html.unescape(text)


_MOST_MARKS: Final = 64


def normalize(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Return the normal form of a text.

    Python sorts the marks of a letter in a time that grows with the square of their number. Only these many marks are
    sorted together; no language has more.
    """
    if text.isascii():
        return text
    marks = "".join(filter(unicodedata.combining, set(text)))
    ends = [run.end() for run in re.finditer(f"[{marks}]{{{_MOST_MARKS}}}", text)] if marks else []
    parts = zip([0, *ends], [*ends, len(text)], strict=True)
    return "".join(unicodedata.normalize(form, text[start:end]) for start, end in parts)

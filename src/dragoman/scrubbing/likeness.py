"""What a piece of text looks like: words of a language, a random string, a placeholder, an expression of code."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from dragoman.scrubbing.wording import word_set

# Pairs of letters that follow one another in words: nine of ten pairs in English text and in identifiers, but only two
# of five pairs in random letters. That is enough to tell `maple-quartz` from `kdziSecgid` without a dictionary.
_PAIRS: Final = {
    "a": "bcdgiklmnprstuvwxyz",
    "b": "aeilorsuy",
    "c": "acehiklorstuy",
    "d": "adefilorstuy",
    "e": "abcdefgilmnopqrstvwxy",
    "f": "aefilortuy",
    "g": "aehilnorsu",
    "h": "aeiotuy",
    "i": "abcdefglmnoprstvxz",
    "j": "aeou",
    "k": "aeinsy",
    "l": "adeilopstuvy",
    "m": "abeimopsuy",
    "n": "acdefgiknopstuvy",
    "o": "abcdefgiklmnoprstuvwxy",
    "p": "aehiloprstuy",
    "q": "u",
    "r": "acdegiklmnoprstuvy",
    "s": "acehiklmopstuwy",
    "t": "acehilmorstuwy",
    "u": "abcdefilmnprst",
    "v": "aeio",
    "w": "aehiors",
    "x": "aept",
    "y": "elmnpst",
    "z": "aeou",
}
_PAIR_SET: Final = frozenset(first + second for first, seconds in _PAIRS.items() for second in seconds)

# No more than this much of a value is looked at: a longer one is not more or less random than its beginning.
_LOOK: Final = 256

_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PARTS = re.compile(r"[^a-z0-9]+")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z")
_LETTERS = re.compile(r"[A-Za-z]+\Z")
_SPLIT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# A value made of these is a stand-in for a secret, or the name of a type, or says that there is none.
_STAND_INS: Final = word_set(
    """
    changeme change placeholder replace replaceme insert enter dummy sample example todo tbd redacted hidden masked
    removed omitted none null nil undefined empty unset your yours here notset fixme secretkey mypassword mysecret
    mytoken myapikey apikey password passwd passphrase secret token credential credentials string required optional
    """
)
_OPENERS = re.compile(
    r"""\$[A-Za-z_{(\[] | \$\d?\Z | %[A-Za-z_]\w*%\Z | %[sdrv]\Z | %\( | \{\{ | \{[A-Za-z_]?[\w.\s|]*\}\Z | <[%\w/ ]
      | \#\{ | @\w+@\Z | @[A-Za-z.]+\( | !(?:vault|secret|ref|sub|env|include|encrypted)\b | `
      | (?:vault|op|ref\+\w+|arn|env|ssm|sops|secretref|keyring|file|urn|gcp-sm|aws-sm|azkv|bws|keyvault|s3|gs):
      | ENC\[ | ENC\( | CIPHER\{ | \$ANSIBLE_VAULT | \{cipher\} | \{vault\} | AQICA""",
    re.VERBOSE,
)
_MASKS = re.compile(
    r"\*{3}|•{2}|…|\.\.\.|[xX]{5}|[-_=#?]{4}|%[srv](?![0-9a-zA-Z])|\[redacted|\[REDACTED|<redacted|\{\{|\$\{|\$\(|<your|<my|%\{"
)
_NOT_FILLED_IN = re.compile(r"(?i)(?:your|my|some|the|a|an|insert|enter|replace|add|put|use|paste)[-_ .]")


def split_words(name: str) -> list[str]:
    """The words of an identifier in lower case: `dbPassword2` is db, password, 2."""
    return [word.lower() for word in _SPLIT.findall(name)]


def is_hex(value: str) -> bool:
    return _HEX.match(value) is not None


def is_uuid(value: str) -> bool:
    return len(value) == 36 and _UUID.match(value) is not None


@lru_cache(maxsize=2048)
def is_wordy(value: str) -> bool:
    """Whether the letters of a value form words, as in a sentence, an identifier or a file name."""
    value = value[:_LOOK]
    pairs = common = letters = 0
    chunks = _CHUNK.findall(value)
    for chunk in chunks:
        letters += len(chunk)
        low = chunk.lower()
        for first, second in pairwise(low):
            pairs += 1
            common += first + second in _PAIR_SET
    digits = sum(map(str.isdigit, value))
    if sum(sign in "!@#$%^&*+=~" for sign in value) > 3:
        return False
    if letters < 3 or letters * 2 < len(value.replace(" ", "")) or digits * 4 > len(value):
        return False
    # Random letters of both cases fall apart into pieces of one or two letters.
    short = sum(len(chunk) < 3 for chunk in chunks)
    if not value.islower() and (len(chunks) * 2.6 > letters or (len(chunks) > 4 and short * 3 > len(chunks))):
        return False
    # A random string without any digit is rare, so that less has to speak for words.
    return pairs >= 2 and common >= (0.72 if digits else 0.62) * pairs


def is_irregular(value: str) -> bool:
    """Whether the case of letters changes more often than in a name like `getClientName`."""
    chunks = _CHUNK.findall(value)
    return len(value) >= 10 and len(chunks) * 3.5 > len(value) and not value.islower() and not value.isupper()


@lru_cache(maxsize=2048)
def is_random(value: str) -> bool:
    """Whether a value looks drawn by lot: many different characters that form no words."""
    value = value[:_LOOK]
    size = len(value)
    if size < 8 or len(set(value)) < min(6, size // 2):
        return False
    kinds = _count_kinds(value)
    if is_hex(value):
        return size >= 16 and kinds >= 2
    if is_wordy(value):
        return False
    return size >= 10 if kinds >= 2 else size >= 12 and not value.isdigit()


def _count_kinds(value: str) -> int:
    """How many of lower case, upper case and digits occur."""
    return (
        any("a" <= letter <= "z" for letter in value)
        + any("A" <= letter <= "Z" for letter in value)
        + any("0" <= letter <= "9" for letter in value)
    )


def is_mixed(value: str) -> bool:
    """Whether a value is random and has letters of both cases and digits, as the keys of most vendors have."""
    return is_random(value) and not is_hex(value) and not is_uuid(value) and _count_kinds(value) == 3


def has_digit_and_letter(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_letters(value: str) -> bool:
    return _LETTERS.match(value) is not None


@lru_cache(maxsize=2048)
def is_placeholder(value: str) -> bool:
    """Whether a value only stands where a secret would: `<token>`, `${TOKEN}`, `YOUR_KEY_HERE`, `xxxx`, `****`."""
    value = value[:_LOOK]
    if not value or len(set(value)) <= 2:
        return True
    if _OPENERS.match(value) or _MASKS.search(value):
        return True
    if value.endswith(">") and "<" in value:
        return True
    if _NOT_FILLED_IN.match(value) and is_wordy(value):
        return True
    low = value.lower()
    if low in _STAND_INS or (low.startswith("your") and is_wordy(value)):
        return True
    return any(word in _STAND_INS for word in _PARTS.split(low)) and is_wordy(value)

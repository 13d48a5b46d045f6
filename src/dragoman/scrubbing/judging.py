"""Whether the value of a telling field is a secret: a literal that is no placeholder, no code, no path and no prose."""

from __future__ import annotations

import re
from typing import Final

from dragoman.scrubbing.keys import Weight
from dragoman.scrubbing.likeness import (
    has_digit_and_letter,
    is_hex,
    is_irregular,
    is_letters,
    is_mixed,
    is_placeholder,
    is_random,
    is_uuid,
    is_wordy,
    split_words,
)
from dragoman.scrubbing.wording import word_set

_SHORTEST_PASSWORD: Final = 5
_SHORTEST_SECRET: Final = 8
_SHORTEST_WEAK: Final = 16

_NOTHING: Final = word_set(
    """
    null none nil true false undefined yes no on off str string int bool bytes object any self this new await
    secretstr optional required default disabled enabled prompt password include omit same-origin deny allow basic
    bearer oauth oauth2 sha256 sha512 sha1 md5 base64 bcrypt argon2 argon2id pbkdf2 utf8 utf-8 x509 ed25519
    """
)
_CODE = re.compile(
    r"""[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[;,)]*\Z   # an attribute
      | [\w$.:>-]*[A-Za-z_]\w*[(\[]                                         # a call, an index
      | [(\[{|>]                                                            # a collection, a block of YAML
      | (?:new|await|return|lambda|async|typeof|not|and|or|if|else|for|in|is)\b
      | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z                                     # a constant
      | [*&][A-Za-z_]\w*\Z                                                  # a reference
      | [a-z]+(?:_[a-z]+)+\Z""",
    re.VERBOSE,
)
# No key or token has one of these; expressions and patterns do.
_ODD = re.compile(r"[\s{}\[\]<>|\\`\"']|\(\?|[A-Za-z]{3}\(")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]*)*\Z|[A-Za-z]:\\")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,15}://|[\w.+-]+@[\w-]+(?:\.[\w-]+)+\Z")
_OPERATOR = re.compile(r"[(),;&?!]|=(?!=*\Z)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+\Z")
_FILE = re.compile(
    r"[\w./@-]+\.(?:pem|key|crt|cer|txt|json|ya?ml|toml|ini|cfg|conf|env|p12|pfx|jks|py|js|ts|go|rb|md|html?|php|java|asc|gpg|pub|sh)\Z"
)
_VERSIONED: Final = word_set(
    "sha rsa aes hmac hs rs es ps ecdsa ed dsa md oauth utf base gcm cbc argon pbkdf scrypt bcrypt chacha tls ssl v"
)
_PROSE: Final = word_set(
    """
    the a an is are was be been must should can will not your you our please enter forgot reset change invalid incorrect
    wrong missing required optional of to for with and or if at least in on it this that has have do does did
    field input prompt policy hash file name label type format strength length rule rules hint help error
    password passwords passwd secret secrets token tokens credential credentials key keys new current old confirm
    user username account login certificate cert tls registry pull manager store admin
    """
)


def is_secret(weight: Weight, value: str, *, quoted: bool, literal: bool = False) -> bool:
    """Whether a value in a field of this weight has to be hidden. `literal`: nothing but text can stand there."""
    if weight is Weight.NONE or is_placeholder(value) or value.lower() in _NOTHING:
        return False
    if not quoted and not literal and _is_code(value):
        return False
    if _ADDRESS.match(value) or _VERSION.match(value) or _is_path(value):
        return False
    if weight is not Weight.PASSWORD and not quoted and not literal and _OPERATOR.search(value):
        return False
    if weight is Weight.PASSWORD:
        return _is_password(value, quoted=quoted, literal=literal)
    return _is_opaque(value) if weight is Weight.SECRET else _is_strong(value)


def _is_code(value: str) -> bool:
    """Whether a value without quotes is an expression. A long random one is not, although it may look so."""
    if _CODE.match(value) is None:
        return False
    return len(value) < 20 or not is_mixed(value) or bool(set(split_words(value)) & _PROSE)


def _is_path(value: str) -> bool:
    parts = value.split("/")
    if _FILE.match(value) or (len(parts) > 1 and all(not part or part.isdigit() or is_wordy(part) for part in parts)):
        return True
    return _PATH.match(value) is not None and (is_wordy(value) or not is_random(value))


def _is_password(value: str, *, quoted: bool, literal: bool) -> bool:
    if len(value) < _SHORTEST_PASSWORD:
        return False
    if not is_wordy(value):
        return not value.isspace() and (literal or quoted or not value.isdigit() or len(value) >= 6)
    words = set(split_words(value))
    if has_digit_and_letter(value):
        return not (words & _VERSIONED)
    if is_letters(value):
        # One word of the language is more often a type, a label or a message than a password.
        return is_irregular(value)
    if "_" in value and value.replace("_", "").isalpha():
        return False
    return not (words & _PROSE)


def _is_opaque(value: str) -> bool:
    if len(value) < _SHORTEST_SECRET or _ODD.search(value):
        return False
    spelled = value.islower() and not any(map(str.isdigit, value))
    if spelled and (("_" in value and len(value) < 32) or set(split_words(value)) & _PROSE):
        return False
    if is_random(value) or is_uuid(value):
        return True
    if value.isdigit() or not has_digit_and_letter(value) or len(set(value)) < 6:
        return False
    words = set(split_words(value))
    if words & _VERSIONED or words & _PROSE:
        return False
    return sum(map(str.isdigit, value)) >= 3 and not value.count("-") > 1


def _is_strong(value: str) -> bool:
    if (
        len(value) < _SHORTEST_WEAK
        or " " in value
        or is_uuid(value)
        or is_hex(value)
        or _ODD.search(value)
        or ("/" in value and "." in value)
    ):
        return False
    return is_mixed(value)


def is_session_value(value: str) -> bool:
    """Whether the value of a cookie of any name lets its holder in."""
    if len(value) < 20 or sum(map(str.isalpha, value)) < 6 or _ADDRESS.match(value):
        return False
    return is_random(value) and not is_placeholder(value)


def is_standalone_secret(value: str) -> bool:
    """Whether a value is secret although only the word before it says so, as in `the key XYZ`."""
    return not is_placeholder(value) and _is_strong(value)


def is_credential(value: str) -> bool:
    """Whether what stands in an authorization header is a real credential."""
    if len(value) < 6 or is_placeholder(value) or value.lower() in _NOTHING or _NUMBER.match(value):
        return False
    if _ADDRESS.match(value):
        return False
    return not (is_wordy(value) and (is_letters(value) or _CODE.match(value.lstrip("!"))))

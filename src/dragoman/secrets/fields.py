"""Decide whether a field contains a secret, by its name and by its value."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from dragoman.secrets.vendors import word_set

# --------------------------------------------------------------------------------------------------------------------
# Classification of text: words of a language, a random string, a placeholder, an expression of code.

# Pairs of letters that follow one another in words: nine of ten pairs in English text and in identifiers, but only two
# of five pairs in random letters. That is enough to tell `maple-quartz` from `kdziSecgid` without a dictionary.
# Each word is a letter and the letters that may follow it.
_PAIRS: Final = """
    abcdgiklmnprstuvwxyz baeilorsuy cacehiklorstuy dadefilorstuy eabcdefgilmnopqrstvwxy faefilortuy gaehilnorsu
    haeiotuy iabcdefglmnoprstvxz jaeou kaeinsy ladeilopstuvy mabeimopsuy nacdefgiknopstuvy oabcdefgiklmnoprstuvwxy
    paehiloprstuy qu racdegiklmnoprstuvy sacehiklmopstuwy tacehilmorstuwy uabcdefilmnprst vaeio waehiors xaept
    yelmnpst zaeou
"""
_PAIR_SET: Final = frozenset(row[0] + second for row in _PAIRS.split() for second in row[1:])

# No more than this much of a value is looked at: a longer one is not more or less random than its beginning.
_LOOK: Final = 256

_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PARTS = re.compile(r"[^a-z0-9]+")
is_hex = re.compile(r"(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)\Z").match
is_uuid = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z").match
is_letters = re.compile(r"[A-Za-z]+\Z").match
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
      | pk_(?:live|test)_ | pk\.eyJ | phc_ | sb_publishable_ | Ag[A-Z][A-Za-z0-9+/]{100}
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
    """Whether a value looks random: many different characters that do not form words."""
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


@lru_cache(maxsize=2048)
def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder for a secret: `<token>`, `${TOKEN}`, `YOUR_KEY_HERE`, `xxxx`, `****`."""
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


# --------------------------------------------------------------------------------------------------------------------
# Classification of field names: `dbPassword` contains a secret, `password_reset_timeout` does not.


class Weight(IntEnum):
    """How strongly a name indicates a secret. With a weak name, the value itself has to look like a secret."""

    NONE = 0
    WEAK = 1
    SECRET = 2
    PASSWORD = 3


_PASSWORDS: Final = word_set(
    """
    password passwords passwd passwort passphrase passcode pwd pswd passw pw psw userpwd userpass userpassword
    dbpass dbpwd dbpassword rootpass sshpass smtppass ftppass mypass pgpassword pgpass mysqlpwd rediscliauth
    passe motdepasse contrasena senha wachtwoord kennwort sqlpassword adminpass adminpwd keypass storepass
    psk bindpw presharedkey keypassword storepassword rootpw rootpassword requirepass masterauth masterpass
    """
)
_PASSWORD_ENDS: Final = ("password", "passwd", "passphrase", "passwort")
_SECRETS: Final = word_set(
    """
    secret token apikey accesskey secretkey privatekey signingkey authkey accesstoken authtoken refreshtoken idtoken
    bearertoken clientsecret appsecret apisecret apitoken sessiontoken sharedsecret accountkey sharedaccesskey
    credential credentials creds cred auth authorization bearer jwt sas sastoken session sessionid sessid phpsessid
    jsessionid sid csrftoken xsrftoken csrf xsrf hmac totp otp masterkey encryptionkey licensekey
    secretaccesskey passkey authtok oauthtoken bottoken pat
    """
)
_SECRET_ENDS: Final = (
    "secret",
    "apikey",
    "accesstoken",
    "authtoken",
    "secretkey",
    "privatekey",
    "sessionid",
    "sesskey",
)
# Secret only where it signs a link or lets somebody in by one.
_QUERY_ONLY: Final = frozenset(
    {"sig", "signature", "code", "ticket", "hash", "hmac", "st", "sp", "otp", "key", "k", "t", "s"}
)
_WEAK: Final = frozenset({"key", "keys", "cookie", "salt", "pepper", "seed", "login", "access", "tok", "nonce", "pin"})

# `max_tokens`, `next_page_token`, `primary_key`: the word before says that it is no secret.
_HARMLESS_TOKENS: Final = word_set(
    """
    page next previous prev continuation continue sync cursor resume pad eos bos unk mask sep cls stop start end special
    image fim cancellation cancel lex syntax parser design color invalid unexpected expected unknown max min num
    total input output prompt completion current first last begin eot video audio vision tool think
    """
)
_HARMLESS_KEYS: Final = word_set(
    """
    primary foreign public pub cache sort partition range row object bucket idempotency dedup lookup map dict json
    unique index group routing registry translation hot arrow shortcut keyboard composite surrogate candidate natural
    feature config setting property attribute column field item node message label metric issue project sentence i18n
    locale lang react list state query data storage lock host known s3 dimension event test by order any press modifier
    sse compound answer business join hash link ref tree parent child section menu route screen tab
    gpg pgp result results response request param parameter header headers output input more limit
    publishable site socket
    """
)
# Words that may follow the telling one: `API_KEY_PROD`, `SECRET_KEY_BASE`, `password_confirmation`, `token2`.
_TAILS: Final = word_set(
    """
    prod production dev development staging stage test testing live sandbox default base old new current previous prev
    primary secondary backup value val string str env b64 base64 hex plain plaintext raw text confirm confirmation again
    repeat override main master local remote data admin root clear cleartext decrypted ro rw readonly readwrite
    """
)
_PRECEDERS_OF_ID: Final = frozenset({"session", "sess"})


@lru_cache(maxsize=4096)
def weigh_key(key: str) -> Weight:
    """Return how strongly the name of a field indicates a secret."""
    words = split_words(key[-80:])
    while len(words) > 1 and (words[-1] in _TAILS or (words[-1].isdigit() and len(words[-1]) < 3) or words[-1] == "v"):
        words.pop()
    if not words:
        return Weight.NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _PASSWORDS or last.endswith(_PASSWORD_ENDS):
        return Weight.PASSWORD
    if last == "pass":
        return Weight.PASSWORD if before else Weight.WEAK
    if last == "phrase" and before in {"pass", "seed", "recovery"}:
        return Weight.PASSWORD
    if last == "id" and before in _PRECEDERS_OF_ID:
        return Weight.SECRET
    return _weigh_secret(key, last, before)


def _weigh_secret(key: str, last: str, before: str) -> Weight:
    if last == "token" or last.endswith("token"):
        return Weight.NONE if before in _HARMLESS_TOKENS else Weight.SECRET
    if last == "key":
        return _weigh_key_word(before)
    if last in {"session", "sid", "auth", "cred", "credential", "credentials", "pat", "login", "hmac"} and not before:
        return Weight.WEAK if last in {"pat", "login"} else Weight.SECRET
    if last in _SECRETS or last.endswith(_SECRET_ENDS):
        return Weight.SECRET
    return Weight.WEAK if last in _WEAK else Weight.NONE


def _weigh_key_word(before: str) -> Weight:
    if not before:
        return Weight.WEAK
    return Weight.NONE if before in _HARMLESS_KEYS else Weight.SECRET


# A table with one of these names holds secrets, and these members of it hold them: `credentials: {value: ...}`.
_TABLES: Final = frozenset({"credential", "credentials", "cred", "creds", "secret", "secrets", "auth"})
_MEMBERS: Final = word_set(
    "value val data secret raw plain plaintext text content string payload current old new default"
)
# As a number, these are more often an id, a count or a time than a secret.
_COUNTED: Final = frozenset({"token", "session", "sid", "auth", "hmac", "csrf", "xsrf", "id"})
_SHORTEST_NUMBER: Final = 4
_SHORTEST_COUNTED: Final = 9


@lru_cache(maxsize=4096)
def weigh_table(key: str) -> Weight:
    """Return how strongly the name of a table indicates that its members are secrets."""
    words = split_words(key[-80:])
    return Weight.PASSWORD if words and words[-1] in _TABLES else weigh_key(key)


def weigh_member(key: str, table: str) -> Weight:
    """Return the weight of a field of a table that holds secrets. Other fields have to look like a secret."""
    weight, inherited = weigh_key(key), weigh_table(table) if table else Weight.NONE
    if weight or inherited < Weight.SECRET:
        return weight
    return inherited if key.lower() in _MEMBERS else Weight.WEAK


def is_secret_number(key: str, digits: str, weight: Weight) -> bool:
    """Whether a number in a field of this name and weight has to be hidden."""
    words = split_words(key[-80:])
    last = words[-1] if words else ""
    if weight is Weight.SECRET:
        shortest = _SHORTEST_COUNTED if last in _COUNTED else _SHORTEST_NUMBER
        return digits.isdigit() and len(digits) >= shortest and len(set(digits)) > 2
    return len(digits) >= _SHORTEST_NUMBER and (weight is Weight.PASSWORD or last == "pin")


def is_query_secret(key: str) -> bool:
    """Whether a query parameter with this name grants access."""
    words = split_words(key[-80:])
    return bool(words) and words[-1] in _QUERY_ONLY


def is_harmless_before(word: str) -> bool:
    """Whether a word before `token` says that it is no secret: `next page token`."""
    return word in _HARMLESS_TOKENS


# The kinds that a context rule reports, by the telling word of the name.
_KINDS: Final = (
    (("password", "passwd", "pwd", "pass", "passwort", "passphrase", "passcode", "pw"), "password"),
    (("token", "jwt", "bearer"), "token"),
    (("cookie", "session", "sessionid", "sid", "sessid", "csrf", "xsrf"), "session"),
    (("key", "apikey"), "key"),
    (("auth", "authorization", "credential", "credentials", "creds", "cred", "login"), "credential"),
    (("sig", "signature"), "signature"),
)


@lru_cache(maxsize=4096)
def kind_of(key: str) -> str:
    """The kind to report for the value of a field with this name."""
    words = split_words(key[-80:])
    for word in reversed(words):
        for endings, kind in _KINDS:
            if word.endswith(endings):
                return kind
    return "secret"


# --------------------------------------------------------------------------------------------------------------------
# Whether the value of a telling field is a secret: a literal that is no placeholder, no code, no path and no prose.

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
      | [\w$.:>-]*+(?<=\w)[(\[]                                            # a call, an index
      | [(\[{|>]                                                            # a collection, a block of YAML
      | [\w$.]*\)[),;}]                                                     # the end of an expression
      | (?:new|await|return|lambda|async|typeof|not|and|or|if|else|for|in|is)\b
      | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z                                     # a constant
      | [*&][A-Za-z_]\w*\Z                                                  # a reference
      | [a-z]+(?:_[a-z]+)+\Z""",
    re.VERBOSE,
)
# No key or token has one of these; expressions and patterns do.
_ODD = re.compile(r"[\s{}\[\]<>|\\`\"']|\(\?|[A-Za-z]{3}\(")
# A generator that draws from all signs gives more different ones than an expression has.
_SIGNS: Final = frozenset("!#$%&()*+,-./:;<=>?@[]^_{|}~")
_DENSE: Final = 10
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]*)*\Z|[A-Za-z]:\\")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,15}://|[\w.+-]+@[\w-]+(?:\.[\w-]+)+\Z")
_OPERATOR = re.compile(r"[(),;&?!]|=(?!=*\Z)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+\Z")
_FILE = re.compile(
    r"[\w./@-]+\.(?:pem|key|crt|cer|txt|json|ya?ml|toml|ini|cfg|conf|env|p12|pfx|jks|py|js|ts|go|rb|md|html?|php|java|asc|gpg|pub|sh)\Z"
)
# Words with a digest behind them, as caches use for their keys.
_DIGESTED = re.compile(r"(?:[A-Za-z0-9]{1,24}[-_]){1,16}[0-9a-f]{32,128}\Z")
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
    if len(value) < _SHORTEST_SECRET:
        return False
    if _ODD.search(value):
        return is_dense(value)
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


def is_dense(value: str) -> bool:
    """Whether a value was drawn from all signs, as the keys that generators of configurations write."""
    return len(set(value) & _SIGNS) >= _DENSE and _count_kinds(value) == 3


def _is_strong(value: str) -> bool:
    if (
        len(value) < _SHORTEST_WEAK
        or _DIGESTED.match(value)
        or " " in value
        or is_uuid(value)
        or is_hex(value)
        or _ODD.search(value)
        or ("/" in value and "." in value)
    ):
        return False
    return is_mixed(value)


def is_session_value(value: str) -> bool:
    """Whether the value of any cookie is a session credential."""
    if len(value) < 20 or sum(map(str.isalpha, value)) < 6 or _ADDRESS.match(value):
        return False
    return is_random(value) and not is_placeholder(value)


def is_standalone_secret(value: str) -> bool:
    """Whether a value is secret although only the word before it says so, as in `the key XYZ`."""
    return not is_placeholder(value) and _is_strong(value)


def is_credential(value: str) -> bool:
    """Whether the value of an authorization header is a real credential."""
    if len(value) < 6 or is_placeholder(value) or value.lower() in _NOTHING or _NUMBER.match(value):
        return False
    if _ADDRESS.match(value):
        return False
    return not (is_wordy(value) and (is_letters(value) or _CODE.match(value.lstrip("!"))))


# --------------------------------------------------------------------------------------------------------------------
# Names of environment variables, headers and query parameters. They are judged more generously than fields: only
# variables with a value that is worth hiding are registered, and a false hit costs a redacted word.

# Not `GIT_AUTHOR_NAME`, `TOX_TESTENV_PASSENV` or `BYPASS_CACHE`.
_NAMES_A_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|(?<!BY)(?<!COM)PASS(?!ENV|IVE|THROUGH)|CREDENTIAL|AUTH(?!ORS?(?:_|\Z))", re.IGNORECASE
).search
_NAMES_NO_SECRET = re.compile(
    r"_FILE\Z|_PATH\Z|_DIR\Z|_SOCK\Z|_URL\Z|_HOST\Z|_ID\Z|PUBLIC|KEYBOARD|KEYMAP", re.IGNORECASE
).search


_HEADERS = re.compile(
    r"authorization|cookie|api[-_]?key|^x-.*-key$|^key$|token|secret|signature|^sig$|password|credential|session",
    re.IGNORECASE,
).search


def is_secret_header(name: str) -> bool:
    """Whether the name of a header or of a query parameter says that its value is a secret."""
    return _HEADERS(name) is not None


def is_secret_variable(name: str) -> bool:
    """Whether the name of an environment variable says that its value is a secret."""
    return _NAMES_A_SECRET(name) is not None and _NAMES_NO_SECRET(name) is None

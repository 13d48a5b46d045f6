"""What the name of a field says about its value: `dbPassword` holds a secret, `password_reset_timeout` does not."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final

from dragoman.scrubbing.likeness import split_words
from dragoman.scrubbing.wording import word_set


class Weight(IntEnum):
    """How much a name promises; the less it does, the more the value itself has to look like a secret."""

    NONE = 0
    WEAK = 1
    SECRET = 2
    PASSWORD = 3


_PASSWORDS: Final = word_set(
    """
    password passwords passwd passwort passphrase passcode pwd pswd passw pw psw userpwd userpass userpassword
    dbpass dbpwd dbpassword rootpass sshpass smtppass ftppass mypass pgpassword pgpass mysqlpwd rediscliauth
    motdepasse contrasena senha wachtwoord kennwort sqlpassword adminpass adminpwd keypass storepass
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
    """How much the name of a field promises that its value is a secret."""
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
        return _weigh_key_word(key, before)
    if last in {"session", "sid", "auth", "cred", "credential", "credentials", "pat", "login", "hmac"} and not before:
        return Weight.WEAK if last in {"pat", "login"} else Weight.SECRET
    if last in _SECRETS or last.endswith(_SECRET_ENDS):
        return Weight.SECRET
    return Weight.WEAK if last in _WEAK else Weight.NONE


def _weigh_key_word(key: str, before: str) -> Weight:
    if not before:
        return Weight.WEAK
    return Weight.NONE if before in _HARMLESS_KEYS else Weight.SECRET


def is_query_secret(key: str) -> bool:
    """Whether a parameter of a link with this name lets its holder in."""
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

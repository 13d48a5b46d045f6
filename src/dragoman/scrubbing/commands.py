"""Secrets on command lines and in files whose columns alone say what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dragoman.scrubbing.judging import is_secret
from dragoman.scrubbing.keys import Weight
from dragoman.scrubbing.likeness import is_placeholder
from dragoman.scrubbing.values import find_value
from dragoman.scrubbing.view import CONTEXT, Span, View

# An option that may be followed by a password or by a user and a password.
OPTION = re.compile(rb"-(?<=[\s\"']-)(?:[puawxk]|-user[ =]|-proxy-user[ =]|-basic-auth[ =]|-creds[ =])")
# The programs that take a password in an option of one letter, and the option.
_PASSWORD_OPTIONS: Final = {
    "sshpass": "p",
    "mysql": "p",
    "mysqldump": "p",
    "mysqladmin": "p",
    "mysqlimport": "p",
    "mariadb": "p",
    "mariadb-dump": "p",
    "mongo": "p",
    "mongosh": "p",
    "mongodump": "p",
    "mongorestore": "p",
    "mongoexport": "p",
    "redis-cli": "a",
    "login": "p",
    "ldapsearch": "w",
    "ldapmodify": "w",
    "ldapadd": "w",
    "ldapdelete": "w",
    "ldapwhoami": "w",
    "ldappasswd": "w",
    "sqlcmd": "P",
    "bcp": "P",
    "unzip": "P",
    "zip": "P",
    "7z": "p",
    "ipmitool": "P",
    "snmpwalk": "AX",
    "snmpget": "AX",
    "psexec": "p",
    "plink": "w",
    "pscp": "w",
    "net": "p",
    "svn": "p",
    "openssl": "k",
}
_NAMES: Final = "|".join(map(re.escape, sorted(_PASSWORD_OPTIONS, key=len, reverse=True)))
_PROGRAM = re.compile(rf"(?:(?<![\w.-])|(?<=\\n))(?:{_NAMES})(?=[ \t])")
# Attached to the option in these, `-psecret`; a blank would begin the next argument.
_ATTACHED: Final = ("mysql", "mariadb", "7z")
_CLIENT = re.compile(
    r"(?:(?<![\w.-])|(?<=\\n))(?:curl|wget|https?|xh|smbclient|rpcclient|ab|svn|mosquitto_\w+|nats|aria2c)(?=[ \t])"
)
_VALUE = re.compile(r"[ \t=]{0,4}")
_USER = re.compile(
    r"(?:-[a-z-]+|-[uUa])[ \t=]{0,4}(?P<quote>\\{0,7}[\"'])?(?P<user>[^\s:%\"'\\/=]{1,128})(?P<between>[:%])"
    r"(?P<inner>\\{0,7}[\"'])?(?P<password>(?:[^\s\"'\\]|\\[^nrt\"'\\/u]){3,512})"
)

_SECURE = re.compile(r"[ \t]+(?:-String[ \t]+)?[\"']([^\"'\\\n]{4,256})[\"']")
_DSN = re.compile(r"(?<![^\s\"'=])[\w.-]{1,48}:([^\s\"'\\@:/]{4,64})\Z")
_ECHO = re.compile(
    r"echo[ \t]+(?:-[ne]+[ \t]+)?(?P<quote>[\"']?)(?P<value>[^\s\"'\\|]{5,256})(?P=quote)[ \t]*\|[ \t]*"
    r"(?:sudo[ \t]+-\w*S|(?:sudo[ \t]+)?(?:chpasswd|passwd|kinit|cryptsetup|openssl|gpg))"
)
_IDENTIFIED = re.compile(
    r"(?:[ \t]+WITH[ \t]+\S+)?[ \t]+(?:BY|AS)[ \t]+(?:PASSWORD[ \t]+|VALUES[ \t]+)?(?=[\"'])", re.IGNORECASE
)
_PGPASS = re.compile(
    r"(?:[\w.-]+\.[\w.-]+|localhost|\*):(?:\d{3,5}|\*):[\w.*$-]{1,64}:[\w.@*$-]{1,64}:(\S{6,256})(?=\s|\Z)"
)
_PHRASE = re.compile(
    r"(?:[ \t]+(?:phrase|words?|mnemonic|backup|key|seed)){0,3}(?:\\{0,7}[\"'])?"
    r"[ \t]{0,8}(?:is|[:=]|->)?[ \t]{0,8}(?:\\{0,7}[\"'])?"
    r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})(?![a-z])"
)


def option_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The password in the short option at `position`, if the program before it takes one there."""
    text = view.text
    before = text[view.line_start(position) : position]
    letter = text[position + 1]
    if letter in "uUa-":
        found = _USER.match(text, position, stop)
        if found and _CLIENT.search(before) and _is_user_password(found, before):
            yield Span(found.start("password"), found.end("password"), "password", CONTEXT)
            return
    programs = _PROGRAM.findall(before)
    if not programs or letter not in _PASSWORD_OPTIONS[programs[-1]]:
        return
    at = position + 2
    if not programs[-1].startswith(_ATTACHED):
        gap = _VALUE.match(text, at, stop)
        at = gap.end() if gap else at
    value = find_value(text, at, stop, literal=True)
    if value and is_secret(Weight.PASSWORD, text[value.start : value.end], quoted=value.quoted, literal=True):
        yield Span(value.start, value.end, "password", CONTEXT)


def _is_user_password(found: re.Match[str], before: str) -> bool:
    password = found["password"]
    if found["between"] == "%" and "smbclient" not in before and "rpcclient" not in before:
        return False
    return not is_placeholder(password) and password.lower() not in {"password", "pass", "secret", "token", "pwd"}


def echo_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The password that `echo` hands to a program that waits for one."""
    found = _ECHO.match(view.text, position, stop)
    if found and is_secret(Weight.PASSWORD, found["value"], quoted=bool(found["quote"]), literal=True):
        yield Span(found.start("value"), found.end("value"), "password", CONTEXT)


def secure_string_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The text that PowerShell turns into a secret: it was none before."""
    found = _SECURE.match(view.text, end, stop)
    if found and not is_placeholder(found[1]):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def dsn_spans(view: View, position: int) -> Iterator[Span]:
    """The password of `user:password@tcp(host)/database`, whose at sign is at `position`."""
    found = _DSN.search(view.text, max(0, position - 128), position)
    if found and is_secret(Weight.PASSWORD, found[1], quoted=False, literal=True):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def identified_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The password of a statement of SQL: `IDENTIFIED BY '...'`."""
    by = _IDENTIFIED.match(view.text, end, stop)
    value = find_value(view.text, by.end(), stop) if by else None
    if (
        value
        and value.quoted
        and is_secret(Weight.PASSWORD, view.text[value.start : value.end], quoted=True, literal=True)
    ):
        yield Span(value.start, value.end, "password", CONTEXT)


def pgpass_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The fifth column of a `.pgpass` file, whose port is at `position`."""
    text = view.text
    start = view.line_start(position)
    found = _PGPASS.match(text, start, stop)
    if found and is_secret(Weight.SECRET, found[1], quoted=False, literal=True):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def phrase_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The twelve to twenty-four words that open a wallet."""
    found = _PHRASE.match(view.text, end, stop)
    if found:
        yield Span(found.start(1), found.end(1), "seed_phrase", CONTEXT)

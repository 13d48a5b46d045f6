"""Secrets that only their surroundings give away: the value of a field whose name promises a secret."""

from __future__ import annotations

import re
from typing import NamedTuple

from dragoman.scrubbing.judging import is_secret, is_standalone_secret
from dragoman.scrubbing.keys import Weight, is_harmless_before, is_query_secret, kind_of, weigh_key
from dragoman.scrubbing.likeness import has_digit_and_letter, is_hex, is_placeholder, is_random
from dragoman.scrubbing.values import Value, find_value
from dragoman.scrubbing.view import CONTEXT, Span, View

# What may close the name: a quote (escaped or not), a bracket; then blanks; then what assigns.
_ASSIGN = re.compile(
    r"""(?P<close>\\{0,7}["'`]\]?|\])?
        (?:[ \t]{0,48}|\\t|(?:%20){0,2})
        (?P<sign>=>|:=|\?=|\|=|==?|:(?!:|//)|%3[aAdD]|\\u003[dD]|(?<=[ \t])\|(?=[ \t]))
        (?:[ \t]{0,48}|(?:%20){0,2})""",
    re.VERBOSE,
)
# `name: type = "value"`, `name string = "value"`.
_TYPED = re.compile(r"(?:[A-Za-z_][\w.\[\]<>|*?, ]{0,48}?)[ \t]+:?=[ \t]*(?=[fFrRbBuU@]{0,2}[\"'`])")
_TYPED_BEFORE = re.compile(r"[ \t]+\*?[A-Za-z_][\w.\[\]]{0,24}[ \t]*:?=[ \t]*(?=[\"'`])")
_BLOCK = re.compile(r"[|>][+-]?\d?[ \t]*\n[ \t]+")
_NUMBER = re.compile(r"-?\d[\d.eE+-]*(?=\s*[,}\]\n]|\s*\Z)")
_ARGUMENT = re.compile(r"(?:\\{0,7}[\"'`])?[ \t]*,[ \t]*(?=\\{0,7}[\"'`])")
_CALL = re.compile(r"\([ \t]*(?=[\"'`])")
_ELEMENT = re.compile(r"(?:[ \t][^<>\n\"]{0,64})?>(?:<!\[CDATA\[)?([^<>\n\"\\]{1,4096}?)(?:\]\]>)?</")
# A list of properties: `<key>NAME</key>`, and the value in the next element.
_LISTED = re.compile(r"</key>\s{0,64}<string>([^<>\n\"\\]{1,4096}?)</")
_FLAG = re.compile(r"(?:[ \t]{1,8}(?!-)(?=\S)|\\{0,7}[\"'],?[ \t]{1,8}(?=\\{0,7}[\"'][^-]))")
_PAIRED = re.compile(
    r"""(?:\\{0,7}["'])?\s{0,64}[,;{]?\s{0,64}
        (?:\\{0,7}["'])?(?:[A-Za-z]{0,16}[Vv]alue|VALUE|content|[Dd]efault)(?:\\{0,7}["'])?[ \t]{0,8}[:=][ \t]{0,8}""",
    re.VERBOSE,
)
_NAMED = re.compile(
    r"""(?:name|key|id|field|variable|attribute|k)(?:\\{0,7}["'])?\s{0,8}[:=]\s{0,8}(?:\\{0,7}["'])?\Z
      | variable[ \t]+"\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_STRING_ELEMENT = re.compile(r"\\{0,7}[\"'][^<>\n]{0,64}>(?:<value>)?([^<>\n\"\\]{1,4096}?)</")
_PROSE = re.compile(r"(?:[ \t]+(?:is|was|are|to|for[ \t]\S{1,32}[ \t]is))?(?:[ \t]*:)?[ \t]+(?=[\w\"'`+/(])")
_GROUPED = re.compile(r"(?:[A-Z2-7]{4}[ -]){3,15}[A-Z2-7]{2,4}(?![A-Za-z0-9])|(?:[a-z]{4} ){3}[a-z]{4}(?![A-Za-z0-9])")
_MORE_WORDS = re.compile(r"[ \t]+(?:[A-Za-z(]{2,}(?![\w.-]*[=:])|\[redacted:)")
_ENV = re.compile(
    r"(?:export|set|setx|env|ENV|ARG|declare -x|-e|--env|--build-arg|--set|--set-string|--from-literal|[+>$#-])[ \t]+\Z"
)
_NETRC = re.compile(r"(?:machine|login|default|account|user)[ \t]+\S+[ \t]+\Z|\A[ \t]*\Z")
_NETRC_VALUE = re.compile(r"[ \t]+(\S{4,256})[ \t]*(?=\n|\Z|[ \t]macdef|[ \t]machine)")


_WORD = re.compile(r"[\w+/.~-]+={0,2}")
_COMPOUND = re.compile(r"\w[_-]\w|[a-z][A-Z]")
_SEVERAL = re.compile(r"[,;&|]")
_OPENS = frozenset("\"'=: ")
_QUOTES = frozenset("\"'`\\")
_DIGITS = frozenset("-0123456789")
_BLOCKS = frozenset("|>")
_GAPS = frozenset(" -")
_ESCAPES = frozenset("\\%[;")


class Name(NamedTuple):
    """The name of a field, where it stands, and how much it promises."""

    start: int
    end: int
    key: str
    weight: Weight


def key_spans(view: View, start: int, end: int, stop: int) -> tuple[Span, ...]:
    """The value of the field whose name stands from `start` to `end`."""
    text = view.text
    if text[start - 1 : start] in _ESCAPES:
        start = min(view.skip_escape(start), end)
    key = text[start:end].rstrip(".-")
    end = start + len(key)
    if text.endswith("[redacted:", 0, start):
        return ()
    weight = weigh_key(key)
    if key == "pass" and text.endswith(("-passin ", "-passout ", "-pass ", "-passwd "), 0, start):
        weight = Weight.PASSWORD
    if weight <= Weight.WEAK and in_query(text, start):
        weight = Weight.SECRET if weight or is_query_secret(key) else weight
    if not weight or (text[start - 1 : start] == " " and _is_harmless(text, start, key)):
        return ()
    span = _try_forms(view, Name(start, end, key, weight), stop)
    return (span,) if span else ()


def _is_harmless(text: str, start: int, key: str) -> bool:
    return key.lower() == "token" and is_harmless_before((text[max(0, start - 24) : start].split() or [""])[-1].lower())


def in_query(text: str, start: int) -> bool:
    """Whether a name is that of a parameter of a link: `?sig=`, `&amp;sig=`."""
    return start > 0 and (text[start - 1] in "?&" or text.endswith(("&amp;", "u0026", "%26", "%3F"), 0, start))


def _try_forms(view: View, name: Name, stop: int) -> Span | None:
    text, end = view.text, name.end
    assigned = _ASSIGN.match(text, end, stop)
    if assigned:
        return _assigned(view, name, assigned, stop) or _paired(text, name, stop)
    found = _paired(text, name, stop)
    if found:
        return found
    typed = _TYPED_BEFORE.match(text, end, stop)
    if typed:
        return _judge(text, find_value(text, typed.end(), stop), name)
    before = text[name.start - 1 : name.start]
    if before == ">":
        return _element(text, _LISTED.match(text, end, stop), name)
    if before == "<" or (before == ":" and ">" in text[end : end + 64]):
        return _element(text, _ELEMENT.match(text, end, stop), name)
    if name.key.startswith("-"):
        flag = _FLAG.match(text, end, stop)
        return _judge(text, find_value(text, flag.end(), stop, literal=True), name, literal=True) if flag else None
    return _argument(text, name, stop) or _spoken(view, name, stop)


def _assigned(view: View, name: Name, assigned: re.Match[str], stop: int) -> Span | None:
    text, at = view.text, assigned.end()
    sign, closed = assigned["sign"], assigned["close"]
    first = text[at : at + 1]
    if sign == ":":
        if closed and first in _DIGITS:
            number = _NUMBER.match(text, at, stop)
            if number:
                is_long = name.weight is Weight.PASSWORD and number.end() - at >= 4
                return Span(at, number.end(), kind_of(name.key), CONTEXT, bare=True) if is_long else None
        typed = _TYPED.match(text, at, stop) if first not in _QUOTES and "=" in text[at : at + 64] else None
        at = typed.end() if typed else at
    if first in _BLOCKS:
        block = _BLOCK.match(text, at, stop)
        if block:
            return _judge(text, find_value(text, block.end(), stop, literal=True), name, literal=True)
    if text[at + 4 : at + 5] in _GAPS and name.weight >= Weight.SECRET:
        grouped = _GROUPED.match(text, at, stop)
        if grouped:
            return Span(at, grouped.end(), kind_of(name.key), CONTEXT)
    literal = (
        sign == "=" and not closed and at - name.end == 1 and (name.key[0] == "-" or _is_literal(view, name.start))
    )
    return _judge(text, find_value(text, at, stop, literal=literal), name, literal=literal, stop=stop)


def _is_literal(view: View, start: int) -> bool:
    """Whether `NAME=value` stands where a shell or an environment file reads it: nothing but text can follow."""
    text = view.text
    before = text[start - 1 : start]
    if before in {"", "\n", "\r"}:
        return True
    if before not in {" ", "\t", "'", '"'}:
        return False
    return bool(before in {"'", '"'} or _ENV.search(text, max(0, start - 24), start)) or _is_upper(
        text[start : start + 80]
    )


def _is_upper(rest: str) -> bool:
    return rest.partition("=")[0].isupper()


def _paired(text: str, name: Name, stop: int) -> Span | None:
    """`name="PASSWORD" value="..."` and its likes: the name of the secret is a value itself."""
    start = name.start
    if text[start - 1 : start] not in _OPENS or not _NAMED.search(text[max(0, start - 32) : start]):
        return None
    paired = _PAIRED.match(text, name.end, stop)
    if paired:
        return _judge(text, find_value(text, paired.end(), stop), name, literal=True)
    return _element(text, _STRING_ELEMENT.match(text, name.end, stop), name)


def _element(text: str, found: re.Match[str] | None, name: Name) -> Span | None:
    return _judge(text, Value(found.start(1), found.end(1), quoted=True), name) if found else None


def _argument(text: str, name: Name, stop: int) -> Span | None:
    """`"name", "value"` and `setName("value")`: a value that shows by itself that it is one."""
    found = _ARGUMENT.match(text, name.end, stop) or _CALL.match(text, name.end, stop)
    value = find_value(text, found.end(), stop) if found else None
    if value is None or not value.quoted:
        return None
    inner = text[value.start : value.end]
    password = (
        name.weight is Weight.PASSWORD and has_digit_and_letter(inner) and is_secret(name.weight, inner, quoted=True)
    )
    if is_standalone_secret(inner) or (is_hex(inner) and len(inner) >= 32) or password:
        return Span(value.start, value.end, kind_of(name.key), CONTEXT)
    return None


def _spoken(view: View, name: Name, stop: int) -> Span | None:
    """`login me password value` and `the key is value`."""
    text = view.text
    if name.weight is Weight.PASSWORD and _NETRC.search(text[view.line_start(name.start) : name.start]):
        column = _NETRC_VALUE.match(text, name.end, stop)
        if column:
            return _judge(text, Value(column.start(1), column.end(1), quoted=False), name, literal=True)
    # `pass` alone is a verb more often than a password.
    found = _PROSE.match(text, name.end, stop) if name.key.lower() != "pass" else None
    value = find_value(text, found.end(), stop) if found else None
    if value is None:
        return None
    inner = text[value.start : value.end].rstrip(".")
    if not value.quoted:
        word = _WORD.match(inner)
        inner = word.group() if word else inner
    known = value.quoted and name.weight is Weight.PASSWORD and is_secret(name.weight, inner, quoted=True)
    compound = name.weight is Weight.SECRET and len(inner) >= 24 and is_random(inner) and _COMPOUND.search(name.key)
    if is_standalone_secret(inner) or known or (compound and not is_placeholder(inner)):
        return Span(value.start, value.start + len(inner), kind_of(name.key), CONTEXT)
    return None


def _judge(text: str, value: Value | None, name: Name, *, literal: bool = False, stop: int = 0) -> Span | None:
    if value is None:
        return None
    weight = name.weight
    inner = text[value.start : value.end]
    if not value.quoted and not literal and stop and _MORE_WORDS.match(text, value.end, stop):
        # A sentence follows: the first word has to be unlike a word.
        weight = min(weight, Weight.SECRET)
    if is_secret(weight, inner, quoted=value.quoted, literal=literal):
        return Span(value.start, value.end, kind_of(name.key), CONTEXT)
    several = None if value.quoted else _SEVERAL.search(inner)
    # `PASSWORD=abc;NEXT=def`: read again as one of several.
    if several and is_secret(weight, inner[: several.start()], quoted=False, literal=literal):
        return Span(value.start, value.start + several.start(), kind_of(name.key), CONTEXT)
    return None

"""Secrets recognized by context: fields, headers, command lines, URLs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from dragoman.secrets.fields import (
    Weight,
    has_digit_and_letter,
    is_credential,
    is_dense,
    is_harmless_before,
    is_hex,
    is_placeholder,
    is_query_secret,
    is_random,
    is_secret,
    is_secret_number,
    is_session_value,
    is_standalone_secret,
    kind_of,
    weigh_key,
    weigh_table,
)
from dragoman.secrets.spans import CONTEXT, TOKEN, VALUE, Span, View
from dragoman.secrets.vendors import word_set

# --------------------------------------------------------------------------------------------------------------------
# Find the value after a separator: quoted with any depth of escaping, or bare.


class Value(NamedTuple):
    """The start and end of a value, without its quotes."""

    start: int
    end: int
    quoted: bool


_QUOTE = re.compile(r"(?:[fFrRbBuU@$LNE]{0,2})(\\{0,7})([\"'`])")
_IN_DOUBLE = re.compile(r"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+")
_IN_SINGLE = re.compile(r"[^'\\\n]*+(?:\\.[^'\\\n]*+)*+")
_IN_BACKTICK = re.compile(r"[^`\n]*+")
_PLAIN = {'"': _IN_DOUBLE, "'": _IN_SINGLE, "`": _IN_BACKTICK}

# The end of a string of JSON or of code: a quote, then what separates it from the next thing.
_CROSSES = re.compile(r"(?<!\\)\"\s*(?:[,:}\])]|\Z)")
_UNESCAPED = re.compile(r"(?<!\\)\"")
# Begins like what stands between two strings: the "quoted" text is not a value at all.
_BETWEEN = re.compile(r"\s*[,:\]})]|\s+[+;.]")

# A bare value ends at a blank, at a quote, at an escape that stands for one, and before the next `, name=`.
_BARE = re.compile(
    r"""[^\s\"'`\\<>,;&|\x1b]*+
        (?:(?:\\(?![nrtbfu\"'\\/])|[,;&|](?![\w.\-\[\]%]{0,64}[=:]|[\s\"'\\]|\Z))[^\s\"'`\\<>,;&|\x1b]*+)*+""",
    re.VERBOSE,
)
# In an environment file and on a command line nothing but a blank ends it.
_BARE_LITERAL = re.compile(r"[^\s\"'`\\\x1b]*+(?:\\(?![nrtbfu\"'\\/])[^\s\"'`\\\x1b]*+)*+")
_TRAILERS = ",;)}]"
# None opens what a comma and a semicolon would close.
_BRACKETS = (("\n", ",;"), ("(", ")"), ("[", "]"), ("{", "}"))
# A longer value is judged by its beginning.
_JUDGED: Final = 256
# How much text a pattern has to see behind its match to match the same as with more text.
_MARGIN: Final = 128


def find_value(view: View, start: int, stop: int, *, literal: bool = False) -> Value | None:
    """The value that begins at `start`, if one does."""
    quote = _QUOTE.match(view.text, start, stop)
    if quote:
        found = _find_quoted(view.text, quote, stop)
        if found is not None:
            return found
        start = quote.end()
    return _find_bare(view, start, stop, literal=literal)


def _find_bare(view: View, start: int, stop: int, *, literal: bool) -> Value | None:
    """A value without quotes, without the commas and brackets that follow it."""
    text = view.text
    end = min(view.reach(_BARE_LITERAL if literal else _BARE, start, stop), start + VALUE)
    if end > start and text[end - 1] in _TRAILERS:
        # A closing bracket belongs to the value if it was opened there.
        closers = "".join(closer for opener, closer in _BRACKETS if text.find(opener, start, end) < 0)
        while end > start and text[end - 1] in closers:
            end -= 1
    return Value(start, end, quoted=False) if end > start else None


def _find_quoted(text: str, quote: re.Match[str], stop: int) -> Value | None:
    start, depth, mark = quote.end(), quote.group(1), quote.group(2)
    if _BETWEEN.match(text, start, stop):
        return None
    if depth:
        end = text.find(depth + mark, start, min(stop, start + VALUE))
        inner = text[start:end] if end >= 0 else ""
        if end < 0 or "\n" in inner or _UNESCAPED.search(inner):
            return None
        trailing = len(inner) - len(inner.rstrip("\\"))
        return Value(start, end - trailing, quoted=True)
    found = _PLAIN[mark].match(text, start, stop)
    if found is None:
        return None
    end = min(found.end(), start + VALUE)
    if end - start < VALUE and not text.startswith(mark, end):
        return None
    if mark != '"' and _CROSSES.search(text, start, end):
        return None
    return Value(start, end, quoted=True)


# --------------------------------------------------------------------------------------------------------------------
# Secrets that only the context reveals: the value of a field whose name indicates a secret.

# What may close the name: a quote (escaped or not), a bracket; then blanks; then what assigns.
_ASSIGN = re.compile(
    r"""(?P<close>\\{0,7}["'`]\]?|\])?
        (?:\x1b\[[0-9;]{0,16}m[ \t]{0,8}|[ \t]{0,48}|\\t|(?:%20){0,2})
        (?P<sign>=>|:=|\?=|\|=|==?|:(?!:|//)|%3[aAdD]|\\u003[dD]|(?<=[ \t])\|(?=[ \t])|\$(?:production|sandbox)\$)
        (?:\x1b\[[0-9;]{0,16}m|[ \t]{0,48}(?:&[\w-]{1,32}[ \t]+|\x1b\[[0-9;]{0,16}m)?|(?:%20){0,2})""",
    re.VERBOSE,
)
# `name: type = "value"`, `name string = "value"`.
_TYPED = re.compile(r"(?:[A-Za-z_][\w.\[\]<>|*?, ]{0,48}?)[ \t]+:?=[ \t]*(?=[fFrRbBuU@]{0,2}[\"'`])")
_TYPED_BEFORE = re.compile(r"[ \t]+\*?[A-Za-z_][\w.\[\]]{0,24}[ \t]*:?=[ \t]*(?=[\"'`])")
_BLOCK = re.compile(r"[|>][+-]?\d?[ \t]*\n[ \t]+")
# A table in braces, in indented lines or in a section, and its member that holds the secret.
_MEMBER = r"(?:value|val|data|secret|raw|plain|plaintext|text|content|string|payload)"
_HELD = re.compile(
    rf"""(?: \{{[^{{}}]{{0,240}}?(?<![\w-]) | \s{{0,8}}\n[ \t]+(?:-[ \t]+)? )
        \\{{0,7}}["']?{_MEMBER}\\{{0,7}}["']?[ \t]{{0,8}}[:=][ \t]{{0,8}}""",
    re.VERBOSE | re.IGNORECASE,
)
_SECTION = re.compile(rf"\]{{1,2}}[ \t]*\n[ \t]*[\"']?{_MEMBER}[\"']?[ \t]{{0,8}}[:=][ \t]{{0,8}}", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d[\d.eE+-]*(?=\s*[,}\]\n]|\s*\Z)")
# A value alone in the next line, further in than a name could be.
_NEXT_LINE = re.compile(r"\r?\n[ \t]{1,32}(?=[^\s\"'`\\<>,;&|:]{8,4096}[ \t]*(?:[\r\n]|\Z))")
_OPENED = re.compile(r"[\"'\\\]]{0,8}[ \t]{0,8}[:=][ \t]{0,8}[\[(]")
# A list in brackets: its next string, and what is between two.
_IN_LIST = re.compile(r"[\[(,]\s{0,64}(?=\\{0,7}[\"'])")
_AFTER_STRING = re.compile(r"\\{0,7}[\"']\s{0,64}")
_UNION = re.compile(r"[ \t]*\|[ \t]*(?:None|bytes|str|[A-Z][a-z]+\w*[A-Z]\w*)(?![\w:=])")
_COLUMN = re.compile(r"\t([^\t\n]{5,4096})(?=[\t\r\n]|\Z)")
# What a password in a sentence has and a word has not.
_SIGNED = re.compile(
    r"(?=\D{0,64}\d)(?=[^A-Za-z]{0,64}[A-Za-z])[\w!#$%^&*~+.,:;?@/-]{1,64}[!#$%^&*~+][\w!#$%^&*~+.,:;?@/-]{1,64}\Z"
)
_ARGUMENT = re.compile(r"(?:\\{0,7}[\"'`])?[ \t]*,[ \t]*(?=\\{0,7}[\"'`])")
_CALL = re.compile(r"\([ \t]*(?=[\"'`])")
_ELEMENT = re.compile(r"(?:[ \t][^<>\n]{0,160})?>(?:<!\[CDATA\[)?([^<>\n\"\\]{1,4096}?)(?:\]\]>)?</")
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
_MORE_WORDS = re.compile(r"[ \t]+(?:[A-Za-z(]{2,32}(?![\w.-]*[=:])|\[redacted:)")
_ENV = re.compile(
    r"(?:export|set|setx|env|ENV|ARG|declare -x|-e|--env|--build-arg|--set|--set-string|--from-literal|[+>$#-])[ \t]+\Z"
)
_NETRC = re.compile(r"(?:machine|login|default|account|user)[ \t]+\S+[ \t]+\Z|\A[ \t]*\Z")
_NETRC_VALUE = re.compile(r"[ \t]+(\S{4,256})[ \t]*(?=\n|\Z|[ \t](?:macdef|machine|protocol|port|account)[ \t])")
# `A temporary password is generated for root@localhost: VALUE`
_ANNOUNCED = re.compile(r"[ \t]+(?:is|was|for|of)[ \t][^\n:]{1,96}:\s{1,8}(\S{8,128})[ \t]*(?=[\r\n]|\Z)")
_SETTERS: Final = ("setenv ", "ENV ", "set -x ", "set -gx ", "set -Ux ", "set -lx ")
_BLANKS = re.compile(r"[ \t]{1,8}")


_WORD = re.compile(r"[\w+/.~-]+={0,2}")
_COMPOUND = re.compile(r"\w[_-]\w|[a-z][A-Z]")
_SEVERAL = re.compile(r"[,;&|]")
_COLUMNS = frozenset("\t\n")
_PATHS = frozenset(":/")
_OPENS = frozenset("\"'=: ")
_IN_TAG = frozenset("<:")
_QUOTES = frozenset("\"'`\\")
_DIGITS = frozenset("-0123456789")
_BLOCKS = frozenset("|>")
_HOLDING = frozenset("{\n\r")
_GAPS = frozenset(" -")
_ESCAPES = frozenset("\\%[;")


class Name(NamedTuple):
    """The name of a field, its position, and how strongly it indicates a secret."""

    start: int
    end: int
    key: str
    weight: Weight


def key_spans(view: View, start: int, end: int, stop: int) -> tuple[Span, ...]:
    """Return the value of the field whose name is at `start` to `end`."""
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
    if not weight:
        return ()
    if text[start - 1 : start] == " " and key.lower() == "token":
        before = text[max(0, start - 24) : start].split()
        if before and is_harmless_before(before[-1].lower()):
            return ()
    name = Name(start, end, key, weight)
    span = _try_forms(view, name, stop)
    if span:
        return (span,)
    opened = _OPENED.match(text, end, stop)
    return tuple(_listed(view, name, opened.end() - 1, stop)) if opened else ()


def _listed(view: View, name: Name, at: int, stop: int) -> Iterator[Span]:
    """`tokens: ["...", "..."]` and `auth=("user", "password")`."""
    text = view.text
    is_pair = text[at] == "("
    if at in view.seen or (is_pair and not name.key.lower().endswith("auth")):
        return
    view.seen.add(at)
    count = 0
    while opened := _IN_LIST.match(text, at, stop):
        value = find_value(view, opened.end(), stop)
        ends = _AFTER_STRING.match(text, value.end, stop) if value and value.quoted else None
        if value is None or ends is None:
            return
        count += 1
        at = ends.end()
        weight = Weight.PASSWORD if is_pair else min(name.weight, Weight.SECRET)
        found = _judge(view, value, name._replace(weight=weight)) if count == 2 or not is_pair else None
        if found:
            yield found


def in_query(text: str, start: int) -> bool:
    """Whether a name is that of a parameter of a link: `?sig=`, `&amp;sig=`."""
    return start > 0 and (text[start - 1] in "?&" or text.endswith(("&amp;", "u0026", "%26", "%3F"), 0, start))


def _try_forms(view: View, name: Name, stop: int) -> Span | None:
    text, end = view.text, name.end
    assigned = _ASSIGN.match(text, end, stop)
    if assigned:
        near = text[name.start - 1 : name.start]
        if (near in _PATHS or assigned["sign"] == "|") and _is_no_field(view, name, assigned["sign"]):
            return None
        return _assigned(view, name, assigned, stop) or _paired(view, name, stop)
    found = _paired(view, name, stop)
    if found:
        return found
    section = _SECTION.match(text, end, stop) if name.weight >= Weight.SECRET else None
    if section:
        return _member(view, section.end(), name, stop)
    before = text[name.start - 1 : name.start]
    typed = _TYPED_BEFORE.match(text, end, stop) if before not in _IN_TAG else None
    if typed:
        return _judge(view, find_value(view, typed.end(), stop), name)
    if before == ">":
        return _element(view, _LISTED.match(text, end, stop), name)
    if before == "<" or (before == ":" and ">" in text[end : end + 192]):
        return _element(view, _ELEMENT.match(text, end, stop), name)
    if name.key.startswith("-"):
        flag = _FLAG.match(text, end, stop)
        return _judge(view, find_value(view, flag.end(), stop, literal=True), name, literal=True) if flag else None
    return _argument(view, name, stop) or _spoken(view, name, stop)


def _is_no_field(view: View, name: Name, sign: str) -> bool:
    """Whether a name and a sign are a part of a link, of the name of a resource of AWS or of a template."""
    text, start = view.text, name.start
    if sign == ":":
        account = text[start - 13 : start - 1] if text[start - 1 : start] == ":" else ""
        return text.endswith("://", 0, start) or (len(account) == 12 and account.isdigit())
    line = view.line_start(start) if sign == "|" else start
    return text.rfind("{{", line, start) > text.rfind("}}", line, start)


def _assigned(view: View, name: Name, assigned: re.Match[str], stop: int) -> Span | None:
    text, at = view.text, assigned.end()
    sign, closed = assigned["sign"], assigned["close"]
    first = text[at : at + 1]
    if sign == ":":
        if closed and first in _DIGITS:
            number = _NUMBER.match(text, at, stop)
            if number:
                hides = is_secret_number(name.key, number.group(), name.weight)
                return Span(at, number.end(), kind_of(name.key), CONTEXT, bare=True) if hides else None
        typed = _TYPED.match(text, at, stop) if first not in _QUOTES and "=" in text[at : at + 64] else None
        at = typed.end() if typed else at
    if first in _HOLDING and name.weight >= Weight.SECRET:
        held = _HELD.match(text, at, stop)
        if held:
            return _member(view, held.end(), name, stop)
        broken = _NEXT_LINE.match(text, at, stop)
        if broken:
            # In most places a table follows, and not a value: it has to be unlike a word.
            return _judge(view, find_value(view, broken.end(), stop), name._replace(weight=Weight.SECRET))
    if first in _BLOCKS:
        block = _BLOCK.match(text, at, stop)
        if block:
            return _judge(view, find_value(view, block.end(), stop, literal=True), name, literal=True)
    if text[at + 4 : at + 5] in _GAPS and name.weight >= Weight.SECRET:
        grouped = _GROUPED.match(text, at, stop)
        if grouped:
            return Span(at, grouped.end(), kind_of(name.key), CONTEXT)
    literal = (
        sign == "=" and not closed and at - name.end == 1 and (name.key[0] == "-" or _is_literal(view, name.start))
    )
    value = find_value(view, at, stop, literal=literal)
    # In a link within a link `%26` ends a value.
    ends = text.find("%26", value.start, value.end) if value and sign[0] == "%" else -1
    if value and ends >= 0:
        value = value._replace(end=ends)
    return _judge(view, value, name, literal=literal, stop=stop)


def _member(view: View, at: int, name: Name, stop: int) -> Span | None:
    """`"credentials": {"value": ...}`: the member that holds the secret of a table."""
    inside = name._replace(weight=weigh_table(name.key))
    number = _NUMBER.match(view.text, at, stop)
    if number:
        hides = is_secret_number(name.key, number.group(), inside.weight)
        return Span(at, number.end(), kind_of(name.key), CONTEXT, bare=True) if hides else None
    return _judge(view, find_value(view, at, stop), inside, stop=stop)


def _is_literal(view: View, start: int) -> bool:
    """Whether `NAME=value` stands where a shell or an environment file reads it: nothing but text can follow."""
    text = view.text
    before = text[start - 1 : start]
    if before in {"", "\n", "\r"}:
        return True
    if before not in {" ", "\t", "'", '"'}:
        return False
    if before in {"'", '"'} or _ENV.search(text, max(0, start - 24), start):
        return True
    return text[start : start + 80].partition("=")[0].isupper()


def _paired(view: View, name: Name, stop: int) -> Span | None:
    """`name="PASSWORD" value="..."` and its likes: the name of the secret is a value itself."""
    text, start = view.text, name.start
    if text[start - 1 : start] not in _OPENS or not _NAMED.search(text[max(0, start - 32) : start]):
        return None
    paired = _PAIRED.match(text, name.end, stop)
    if paired:
        return _judge(view, find_value(view, paired.end(), stop), name, literal=True)
    return _element(view, _STRING_ELEMENT.match(text, name.end, stop), name)


def _element(view: View, found: re.Match[str] | None, name: Name) -> Span | None:
    return _judge(view, Value(found.start(1), found.end(1), quoted=True), name) if found else None


def _argument(view: View, name: Name, stop: int) -> Span | None:
    """`"name", "value"` and `setName("value")`: a value that shows by itself that it is one."""
    text = view.text
    found = _ARGUMENT.match(text, name.end, stop) or _CALL.match(text, name.end, stop)
    value = find_value(view, found.end(), stop) if found else None
    if value is None or not value.quoted:
        return None
    inner = text[value.start : min(value.end, value.start + _JUDGED)]
    password = (
        name.weight is Weight.PASSWORD and has_digit_and_letter(inner) and is_secret(name.weight, inner, quoted=True)
    )
    if is_standalone_secret(inner) or (is_hex(inner) and len(inner) >= 32) or password or is_dense(inner):
        return Span(value.start, value.end, kind_of(name.key), CONTEXT)
    return None


def _spoken(view: View, name: Name, stop: int) -> Span | None:
    """`login me password value` and `the key is value`."""
    text = view.text
    if name.weight is Weight.PASSWORD and _NETRC.search(text[view.line_start(name.start) : name.start]):
        column = _NETRC_VALUE.match(text, name.end, stop)
        if column:
            return _judge(view, Value(column.start(1), column.end(1), quoted=False), name, literal=True)
    if text.endswith(_SETTERS, 0, name.start):
        set_to = _BLANKS.match(text, name.end, stop)
        value = find_value(view, set_to.end(), stop, literal=True) if set_to else None
        return _judge(view, value, name, literal=True)
    if text[name.start - 1 : name.start] in _COLUMNS:
        column = _COLUMN.match(text, name.end, stop)
        if column:
            return _judge(view, Value(column.start(1), column.end(1), quoted=False), name)
    announced = _ANNOUNCED.match(text, name.end, stop) if name.weight is Weight.PASSWORD else None
    if announced and is_random(announced[1]) and is_secret(name.weight, announced[1], quoted=False):
        return Span(announced.start(1), announced.end(1), kind_of(name.key), CONTEXT)
    # `pass` alone is a verb more often than a password.
    found = _PROSE.match(text, name.end, stop) if name.key.lower() != "pass" else None
    value = find_value(view, found.end(), stop) if found else None
    if value is None:
        return None
    inner = text[value.start : value.end].rstrip(".")
    if not value.quoted:
        word = _WORD.match(inner)
        inner = word.group() if word else inner
    size, inner = len(inner), inner[:_JUDGED]
    if name.weight is Weight.PASSWORD and not value.quoted:
        signed = _SIGNED.match(text[value.start : min(value.end, value.start + _JUDGED)].rstrip(".,;:!?"))
        if signed and is_secret(name.weight, signed.group(), quoted=True):
            return Span(value.start, value.start + signed.end(), kind_of(name.key), CONTEXT)
    known = value.quoted and name.weight is Weight.PASSWORD and is_secret(name.weight, inner, quoted=True)
    compound = name.weight is Weight.SECRET and len(inner) >= 24 and is_random(inner) and _COMPOUND.search(name.key)
    if is_standalone_secret(inner) or known or (compound and not is_placeholder(inner)):
        return Span(value.start, value.start + size, kind_of(name.key), CONTEXT)
    return None


def _judge(view: View, value: Value | None, name: Name, *, literal: bool = False, stop: int = 0) -> Span | None:
    if value is None:
        return None
    text = view.text
    weight = name.weight
    inner = text[value.start : min(value.end, value.start + _JUDGED)]
    if not value.quoted and _UNION.match(text, value.end, stop or len(text)):
        return None
    if not value.quoted and not literal and stop and _MORE_WORDS.match(text, value.end, stop):
        # A sentence follows: the first word has to be unlike a word.
        weight = min(weight, Weight.SECRET)
    is_number = inner.isdigit() and is_secret_number(name.key, inner, weight)
    if is_number or is_secret(weight, inner, quoted=value.quoted, literal=literal):
        return Span(value.start, value.end, kind_of(name.key), CONTEXT)
    several = None if value.quoted else _SEVERAL.search(inner)
    # `PASSWORD=abc;NEXT=def`: read again as one of several.
    if several and is_secret(weight, inner[: several.start()], quoted=False, literal=literal):
        return Span(value.start, value.start + several.start(), kind_of(name.key), CONTEXT)
    return None


# --------------------------------------------------------------------------------------------------------------------
# Secrets in headers: the authorization of a request, and session cookies.

_SIGN = re.compile(r"(?:\\{0,7}[\"'`])?(?:[ \t]{0,16}(?:=>|[:=,])[ \t]{0,16}|%3[aA](?:%20|\+)?)(?:\\{0,7}[\"'`])?")
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|Digest|ApiKey|Api-Key|Key|SSWS|GenieKey|Bot|OAuth|JWT|Negotiate|NTLM|Kerberos|SharedKey"
    r"|SharedAccessSignature|PRIVATE-TOKEN|Splunk|Klaviyo-API-Key|Zoho-oauthtoken|Snowflake|AWS|GoogleLogin|MAC"
    r"|(?P<other>[A-Z][A-Za-z-]{2,24}))(?:[ \t]+|%20|\+)(?:auth=|token=\\?\"?)?",
    re.IGNORECASE,
)
_CREDENTIAL = re.compile(r"(?:[A-Za-z0-9_.~+/=%:!@#$^*&]|-(?!----))*+")
_SHORTEST: Final = 6
_HIDDEN = re.compile(r"\[redacted:|.{0,4}\*?\[REDACTED\]")
_SIGNATURES = re.compile(
    r"(?:Signature|response|oauth_signature|oauth_token|cnonce|Credential)=\\?\"?([A-Za-z0-9+/=%_-]{8,512})"
)
_AFTER_SCHEME = re.compile(r"[ \t]+|%20|\+")
_SPOKEN = re.compile(r"(?:[A-Za-z0-9_.~+/]|-(?!----))*+")
_PADDING = re.compile(r"={0,2}(?![A-Za-z0-9_])")
_COOKIE = re.compile(r"([^\s=;,\"'\\]{1,128})=([^\s;,\"'\\]{1,8192})")
_AFTER_PAIR = re.compile(r"[ \t]*;[ \t]*")


def authorization_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The credential of an `Authorization` header, of a header like it, or of a field that holds one."""
    text = view.text
    sign = _SIGN.match(text, end, stop)
    if sign is None:
        return
    at = sign.end()
    listed = "," in sign.group()
    line = text.find("\n", at, stop)
    stop = stop if line < 0 else line
    scheme = _SCHEME.match(text, at, stop)
    if scheme and scheme["other"] and is_random(scheme["other"]):
        scheme = None
    if text[at : at + 4].lower() in {"aws4", "dige", "mac "} or text.startswith(
        "oauth_", scheme.end() if scheme else at
    ):
        yield from _signature_spans(view, at, stop)
        return
    if scheme and _HIDDEN.match(text, scheme.end(), stop):
        return
    start, end = _find_credential(view, scheme.end() if scheme else at, stop)
    if end == start and scheme:
        start, end = _find_credential(view, at, stop)
    credential = text[start : min(end, start + _JUDGED)]
    if not credential or _HIDDEN.match(text, end) or not is_credential(credential):
        return
    # In a list of names of headers the next one is no credential.
    if not listed or is_random(credential):
        yield Span(start, end, "credential", CONTEXT)


def _find_credential(view: View, start: int, stop: int) -> tuple[int, int]:
    """Where the credential at `start` begins and ends; the same place if it is too short for one."""
    end = min(view.reach(_CREDENTIAL, start, stop), start + VALUE)
    return start, end if end - start >= _SHORTEST else start


def _signature_spans(view: View, start: int, stop: int) -> Iterator[Span]:
    """The signatures in the rest of a line, without those that an earlier header of the line has found."""
    for found in _SIGNATURES.finditer(view.text, view.resume(_SIGNATURES, start, stop), stop):
        yield Span(found.start(1), found.end(1), "credential", CONTEXT)


def bearer_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """A credential after `Bearer` without its header."""
    start, end = _find_spoken(view, end, stop)
    credential = view.text[start : min(end, start + _JUDGED)]
    if credential and is_credential(credential) and (is_random(credential) or len(credential) >= 32):
        yield Span(start, end, "credential", CONTEXT)


def basic_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """A credential after `Basic` without its header."""
    # The scheme ends with the blank that separates it from the credential.
    start, end = _find_spoken(view, end - 1, stop)
    # So many characters are whole groups of base64.
    if end > start and _is_basic(view.text[start : min(end, start + _JUDGED)]):
        yield Span(start, end, "credential", CONTEXT)


def _find_spoken(view: View, behind: int, stop: int) -> tuple[int, int]:
    """Where the credential after the name of a scheme begins and ends; the same place if there is none."""
    text = view.text
    gap = _AFTER_SCHEME.match(text, behind, stop)
    if gap is None:
        return behind, behind
    start = gap.end()
    end = min(view.reach(_SPOKEN, start, stop), start + VALUE)
    if end - start == VALUE:
        return start, end
    padding = _PADDING.match(text, end, stop)
    if padding is None or end - start < _SHORTEST + 2:
        return start, start
    return start, padding.end()


def _is_basic(value: str) -> bool:
    """Whether a value is `user:password` in base64."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (ValueError, binascii.Error):
        return False
    return b":" in decoded and decoded.isascii() and decoded.decode("ascii").isprintable()


def cookie_spans(view: View, end: int, stop: int, *, setting: bool) -> Iterator[Span]:
    """The values of the cookies of a header that let their holder in."""
    text = view.text
    sign = _SIGN.match(text, end, stop)
    if sign is None:
        return
    at = sign.end()
    while True:
        pair = _COOKIE.match(text, at, stop)
        if pair is None or at in view.seen:
            return
        if not setting and pair.end() + _MARGIN < stop:
            view.seen.add(at)
        weight = weigh_key(pair[1])
        if is_secret(weight, pair[2], quoted=False, literal=True) or is_session_value(pair[2]):
            yield Span(pair.start(2), pair.end(2), "session", CONTEXT)
        more = _AFTER_PAIR.match(text, pair.end(), stop)
        if more is None or setting:
            return
        at = more.end()


# --------------------------------------------------------------------------------------------------------------------
# Secrets on command lines and in files with fixed columns.

# An option that may be followed by a password or by a user and a password.
OPTION = re.compile(rb"-(?<=[\s\"']-)(?:[puawxk]|-user[ =]|-proxy-user[ =]|-basic-auth[ =]|-creds[ =])")
# The programs that take a password in an option of one letter, and the option.
_BY_OPTION: Final = {
    "p": "sshpass mysql mysqldump mysqladmin mysqlimport mariadb mariadb-dump mongo"
    " mongosh mongodump mongorestore mongoexport login 7z psexec net svn",
    "a": "redis-cli",
    "w": "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd plink pscp",
    "P": "sqlcmd bcp unzip zip ipmitool",
    "AX": "snmpwalk snmpget",
    "k": "openssl",
}
_PASSWORD_OPTIONS: Final = {program: option for option, programs in _BY_OPTION.items() for program in programs.split()}
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

_FOREIGN_VALUE = re.compile(r"[ \t\u3000]{0,8}(?:[:=\uff1a]|は|是|为|:)[ \t\u3000]{0,8}[\"'`]?([!#-&(-_a-~]{6,256})")
_ORACLE = re.compile(r":thin:[\w.$#-]{1,64}/([^\s\"'/@]{4,128})@")
_SECURE = re.compile(r"[ \t]+(?:-String[ \t]+)?[\"']([^\"'\\\n]{4,256})[\"']")
_DSN = re.compile(r"(?<![^\s\"'=])[\w.-]{1,48}:([^\s\"'\\@:/]{4,64})\Z")
_ECHO = re.compile(
    r"echo[ \t]+(?:-[ne]+[ \t]+)?(?P<quote>[\"']?)(?P<value>[^\s\"'\\|]{5,256})(?P=quote)[ \t]*\|[ \t]*"
    r"(?:sudo[ \t]+-\w*S|(?:sudo[ \t]+)?(?:chpasswd|passwd|kinit|cryptsetup|openssl|gpg)"
    r"|[\w.-]{2,16}[ \t][^\n|]{0,160}?--(?:[a-z]{1,16}-)?(?:stdin|with-token)\b)"
)
_IDENTIFIED = re.compile(
    r"(?:[ \t]+WITH[ \t]+\S+)?[ \t]+(?:BY|AS)[ \t]+(?:PASSWORD[ \t]+|VALUES[ \t]+)?(?=[\"'])", re.IGNORECASE
)
_PGPASS = re.compile(
    r"(?:(?=[\w.-]+?\.[\w.-])[\w.-]++|localhost|\*):(?:\d{3,5}|\*):[\w.*$-]{1,64}:[\w.@*$-]{1,64}:(\S{6,256})(?=\s|\Z)"
)
_PHRASE = re.compile(
    r"(?:[ \t]+(?:phrase|words?|mnemonic|backup|key|seed)){0,3}(?:\\{0,7}[\"'])?"
    r"[ \t]{0,8}(?:is)?[ \t]{0,8}(?:[:=]|->)?\s{0,8}(?:\\{0,7}[\"'])?"
    r"((?:(?:\d{1,2}[.):] ?)?[a-z]{3,8}[ ,]{1,2}){11,23}(?:\d{1,2}[.):] ?)?[a-z]{3,8})(?![a-z])"
)


def option_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The password in the short option at `position`, if the program before it takes one there."""
    text = view.text
    letter = text[position + 1]
    if letter in "uUa-":
        found = _USER.match(text, position, stop)
        client = view.last_before(_CLIENT, position) if found else ""
        if found and client and _is_user_password(found, text[view.line_start(position) : position]):
            yield Span(found.start("password"), found.end("password"), "password", CONTEXT)
            return
    program = view.last_before(_PROGRAM, position)
    if not program or letter not in _PASSWORD_OPTIONS[program]:
        return
    at = position + 2
    if not program.startswith(_ATTACHED):
        gap = _VALUE.match(text, at, stop)
        at = gap.end() if gap else at
    value = find_value(view, at, stop, literal=True)
    if value and is_secret(
        Weight.PASSWORD, text[value.start : min(value.end, value.start + _JUDGED)], quoted=value.quoted, literal=True
    ):
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
    """Return the plain text that PowerShell converts into a secure string."""
    found = _SECURE.match(view.text, end, stop)
    if found and not is_placeholder(found[1]):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def dsn_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The password of `user:password@tcp(host)/database`, whose at sign is at `position`."""
    found = _DSN.search(view.text, max(0, position - 128), position)
    if found and is_secret(Weight.PASSWORD, found[1], quoted=False, literal=True):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def foreign_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The password behind its name in another language."""
    found = _FOREIGN_VALUE.match(view.text, end, stop)
    if found and has_digit_and_letter(found[1]) and is_secret(Weight.PASSWORD, found[1], quoted=False, literal=True):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def identified_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The password of a statement of SQL: `IDENTIFIED BY '...'`."""
    by = _IDENTIFIED.match(view.text, end, stop)
    value = find_value(view, by.end(), stop) if by else None
    if (
        value
        and value.quoted
        and is_secret(Weight.PASSWORD, view.text[value.start : value.end], quoted=True, literal=True)
    ):
        yield Span(value.start, value.end, "password", CONTEXT)


def column_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The fifth column of a `.pgpass` file with its port at `position`, or `:thin:user/password@` of Oracle."""
    text = view.text
    oracle = _ORACLE.match(text, position, stop)
    found = oracle or _PGPASS.match(text, view.line_start(position), stop)
    weight = Weight.PASSWORD if oracle else Weight.SECRET
    if found and is_secret(weight, found[1], quoted=False, literal=True):
        yield Span(found.start(1), found.end(1), "password", CONTEXT)


def phrase_spans(view: View, end: int, stop: int) -> Iterator[Span]:
    """The twelve to twenty-four words that open a wallet."""
    found = _PHRASE.match(view.text, end, stop)
    if found:
        yield Span(found.start(1), found.end(1), "seed_phrase", CONTEXT)


# --------------------------------------------------------------------------------------------------------------------
# Secrets in URLs: the password before the host, and links that grant access to anyone who has them.

_USERINFO = re.compile(r"([^\s/?#\"'`<>@:\\,\[]{0,256}):([^\s\"'`<>/\\]{1,1024})@(?=[\w\[.$%{-])")
_USER_ONLY = re.compile(r"([^\s/?#\"'`<>@:\\,\[]{16,512})@(?=[\w\[.-])")
_DEFAULTS: Final = word_set(
    """
    password pass passwd pwd secret pw user username guest postgres root admin mysql test token mypassword changeme
    redacted hidden xxx hunter example x-oauth-basic x-access-token oauth2 git
    """
)
_PORT = re.compile(r"\d{1,5}[/?#,]")
# Where the secret of a link begins, and what it looks like.
_LINKS: Final = (
    ("webhook", re.compile(r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([\w/+-]{20,256})")),
    ("webhook", re.compile(r"(?:[\w-]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d{5,24}/[\w-]{30,128})")),
    (
        "webhook",
        re.compile(
            r"[\w-]+\.webhook\.office\.com/(webhookb2/[\w@-]{30,128}/IncomingWebhook/[\w-]{20,64}/[\w-]{20,64}(?:/[\w-]+)?)"
        ),
    ),
    (
        "webhook",
        re.compile(r"chat\.googleapis\.com/v1/spaces/[\w-]+/messages\?(key=[\w-]{20,64}&token=[\w%-]{20,128})"),
    ),
    ("webhook", re.compile(r"hooks\.zapier\.com/hooks/catch/(\d+/[\w-]{5,64})")),
    ("webhook", re.compile(r"(?:maker\.ifttt\.com/trigger/[\w-]+/(?:json/)?with/key)/([\w-]{15,128})")),
    ("webhook", re.compile(r"open\.(?:feishu|larksuite)\.cn/open-apis/bot/v2/hook/([\w-]{20,64})")),
    ("telegram_token", re.compile(r"api\.telegram\.org/(?:file/)?bot(\d{5,16}:[\w-]{10,64})")),
    ("webhook", re.compile(r"[\w.-]+\.logic\.azure\.com[^\s\"'\\]{0,200}?sig=([\w%-]{20,128})")),
    (
        "api_key",
        re.compile(r"[\w-]+\.(?:infura\.io|alchemy\.com|g\.alchemy\.com|quiknode\.pro)/(?:v\d/)?([\w-]{28,64})"),
    ),
    ("sentry_dsn", re.compile(r"([0-9a-f]{32})@[\w.-]*(?:sentry|ingest)")),
)


def address_spans(view: View, position: int, stop: int) -> Iterator[Span]:
    """The secrets of the address whose `://` is at `position`."""
    text, start = view.text, position + 3
    found = _USERINFO.match(text, start, stop)
    if found and _is_password(found[1], found[2]):
        yield Span(found.start(2), found.end(2), "password", CONTEXT)
    elif found is None:
        user = _USER_ONLY.match(text, start, stop)
        if user and is_standalone_secret(user[1]):
            yield Span(user.start(1), user.end(1), "token", CONTEXT)
    for kind, link in _LINKS:
        secret = link.match(text, start, stop)
        if secret and not is_placeholder(secret[1]) and not secret[1].startswith(("T00000000", "000000000")):
            # The link alone grants access, so all of it is hidden.
            whole = view.run_start(position) if kind == "webhook" else secret.start(1)
            yield Span(whole, secret.end(1), kind, TOKEN)
            return


def _is_password(user: str, password: str) -> bool:
    if _PORT.match(password) or (password.isdigit() and len(password) < 4):
        return False
    if is_placeholder(password) or password.lower() in _DEFAULTS or password.startswith(("%3C", "%24", "[")):
        return False
    return password != user and (len(password) >= 4 or is_random(password))

"""Patterns for paths and URLs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from dragoman.characters import normalize

# --------------------------------------------------------------------------------------------------------------------
# Patterns for paths: `*` within a name, `?` for one character, `**` for any number of folders.
#
# In an allow rule everything else is literal. In a deny or ask rule, a pattern matches in every way in which it may
# have been meant: without regard to case, with `[...]` as a set of characters, and with everything below the named
# path.

ANY_FOLDERS = "**"
_FROM_BRACKET = re.compile(r"\[.*", re.DOTALL)
_LONGEST_NAME = 255
_ROOT = "/"


def matches_text(pattern: str, text: str) -> bool:
    """Whether a text matches; `*` is any text, `?` is one character. The cost is at most the product of the lengths."""
    position = index = 0
    star = resume = -1
    while position < len(text):
        # The wildcard first: the text may contain a literal star, which matches itself only if the wildcard does not.
        if index < len(pattern) and pattern[index] == "*":
            star, resume = index, position
            index += 1
        elif index < len(pattern) and pattern[index] in ("?", text[position]):
            position, index = position + 1, index + 1
        elif star >= 0:
            resume += 1
            position, index = resume, star + 1
        else:
            return False
    return all(character == "*" for character in pattern[index:])


def matches_name(pattern: str, name: str) -> bool:
    """Whether a pattern matches the name of a tool, without regard to case."""
    return _matches_loosely(pattern.casefold(), name.casefold())


def allows_path(pattern: str, path: str) -> bool:
    """Whether a path certainly matches the pattern, with exact case."""
    found, wanted = split_path(path), split_path(pattern)
    if ".." in found or not path or "\0" in path:
        return False
    *_, reached = _follow(wanted, found, matches_text)
    return len(wanted) in reached


def mentions_path(pattern: str, path: str) -> bool:
    """Whether a path may match the pattern, or may be below a path that matches."""
    wanted = _read_generously(pattern)
    return any(
        len(wanted) in reached for found in _spellings(path) for reached in _follow(wanted, found, _matches_loosely)
    )


def may_hold(pattern: str, folder: str) -> bool:
    """Whether a folder may contain something that matches the pattern, at any depth."""
    wanted = _read_generously(pattern)
    return any(list(_follow(wanted, found, _matches_loosely))[-1] for found in _spellings(folder))


def may_expand_to(pattern: str, glob: str) -> bool:
    """Whether bash may expand a file name pattern to a path that matches, or is below one that matches."""
    wanted = _read_generously(pattern)
    return any(len(wanted) in reached for found in _spellings(glob) for reached in _follow(wanted, found, _overlaps))


def _overlaps(pattern: str, glob: str) -> bool:
    """Whether some name matches both; brackets stand for anything. A star of bash does not stand for a first dot."""
    one, other = (_FROM_BRACKET.sub("*", each) for each in (pattern, glob))
    if one.startswith(".") and other[:1] in ("*", "?"):
        return False
    if len(other) > _LONGEST_NAME:
        return True
    reached = {0}
    for place in range(len(one) + 1):
        # The positions in the second pattern that can be reached with this much of the first one.
        for index in range(len(other)):
            if index in reached and (other[index] == "*" or one[place : place + 1] == "*"):
                reached.add(index + 1)
        if place == len(one):
            break
        character = one[place]
        after = set(reached) if character == "*" else set()
        for index in reached if character != "*" else ():
            if other[index : index + 1] == "*":
                after.add(index)
            elif index < len(other) and (character == "?" or other[index] in ("?", character)):
                after.add(index + 1)
        reached = after
    return len(other) in reached


def split_path(path: str) -> tuple[str, ...]:
    """Return the names of a path. An absolute path starts with the root, so that no relative pattern matches it."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    return (_ROOT, *names) if path.startswith("/") else tuple(names)


def _read_generously(pattern: str) -> tuple[str, ...]:
    # The user is unknown here, so every folder may be the home folder.
    if pattern == "~" or pattern.startswith("~/"):
        pattern = ANY_FOLDERS + pattern[1:]
    return split_path(_plain(pattern))


def _spellings(path: str) -> Iterator[tuple[str, ...]]:
    plain = _plain(path)
    yield split_path(plain)
    for other in (posixpath.normpath(plain), plain.replace("\\", "/")):
        if other != plain:
            yield split_path(other)


def _plain(text: str) -> str:
    return normalize("NFC", normalize("NFC", text).casefold())


def _follow(wanted: Sequence[str], found: Sequence[str], fits: Callable[[str, str], bool]) -> Iterator[set[int]]:
    """Return the positions in a pattern that are reachable before the first name of a path, and after each name."""
    reached = _reach(wanted, {0})
    yield reached
    for name in found:
        after = set()
        for index in reached - {len(wanted)}:
            if wanted[index] == ANY_FOLDERS:
                after.add(index)
            elif fits(wanted[index], name):
                after.add(index + 1)
        reached = _reach(wanted, after)
        yield reached


def _reach(wanted: Sequence[str], states: set[int]) -> set[int]:
    """Return the positions that are reachable without another name: `**` may match no folder."""
    reached = set(states)
    for index, name in enumerate(wanted):
        if index in reached and name == ANY_FOLDERS:
            reached.add(index + 1)
    return reached


def _matches_loosely(pattern: str, text: str) -> bool:
    if matches_text(pattern, text):
        return True
    if "[" not in pattern:
        return False
    try:
        return fnmatchcase(text, pattern)
    except re.error:
        return True


# --------------------------------------------------------------------------------------------------------------------
# Patterns for URLs: `domain:*.example.org` for hosts, `https://example.org/docs/**` for parts of a host.
#
# Hosts are compared label by label in their normal form. No pattern allows a URL that two programs could read
# differently.

DOMAIN = "domain:"
_PORTS = {"http": 80, "https": 443}
_odd = re.compile(r"[\s\\\x00-\x20\x7f-\x9f]").search
_OVERLONG = re.compile(r"%c[01]", re.IGNORECASE)
_PARAMETERS = re.compile(r"\s*(?:;[^/]*)?(?=/|\Z)")
_MOST_DECODED = 4


class Address(NamedTuple):
    """The parts of a URL that rules match."""

    scheme: str
    host: str
    port: int | None
    path: str
    has_query: bool
    has_login: bool


def read_address(text: str) -> Address | None:
    """Return the parts of a URL; None if it is not one."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not parts.hostname:
        return None
    return Address(
        parts.scheme.lower(),
        normal_host(parts.hostname),
        port if port is not None else _PORTS.get(parts.scheme.lower()),
        parts.path or "/",
        bool(parts.query) or "?" in text.partition("#")[0],
        "@" in parts.netloc,
    )


def spellings_of(text: str, real: str) -> list[str]:
    """Return a URL as given, and as resolved: `real` is the whole URL again, or only its host."""
    if not real or "://" in real:
        return [each for each in (text, real) if each]
    address = read_address(text)
    if address is None:
        return [text]
    host = f"[{real}]" if ":" in real and not real.startswith("[") else real
    port = "" if address.port in (None, _PORTS.get(address.scheme)) else f":{address.port}"
    return [text, f"{address.scheme}://{host}{port}{address.path}{'?' if address.has_query else ''}"]


def normal_host(host: str) -> str:
    """Return the normal form of a host: lower case, without a final dot, other alphabets in ASCII (IDNA)."""
    plain = host.lower().removesuffix(".")
    if plain.isascii():
        return plain
    try:
        return plain.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        return plain


def allows_address(pattern: str, text: str) -> bool:
    """Whether a URL certainly matches the pattern."""
    address = None if _odd(text) else read_address(text)
    if address is None or address.has_login or address.scheme not in _PORTS:
        return False
    if pattern.startswith(DOMAIN):
        return _is_host(pattern.removeprefix(DOMAIN), address.host)
    wanted = read_address(pattern)
    if wanted is None or (address.scheme, address.port) != (wanted.scheme, wanted.port):
        return False
    if not _is_host(wanted.host, address.host) or (address.has_query and not wanted.path.endswith("**")):
        return False
    return not _is_ambiguous(address.path) and allows_path(wanted.path, address.path)


def _readings_of(path: str) -> list[str]:
    """The paths that servers may read: decoded repeatedly, without parameters (`..;x`) and blanks, in plain letters."""
    found = [path]
    while len(found) < _MOST_DECODED and (decoded := unquote(found[-1])) != found[-1]:
        found.append(decoded)
    plain = [normalize("NFKC", each).replace("\\", "/") for each in found]
    return list(dict.fromkeys([*found, *plain, *(_PARAMETERS.sub("", each) for each in plain)]))


def _is_ambiguous(path: str) -> bool:
    """Whether servers may read another path: with an encoded slash, an empty name, or a step that only some see."""
    slashes = path.count("/")
    return _OVERLONG.search(path) is not None or any(
        each.count("/") != slashes or "//" in each or "\x00" in each or {".", ".."} & {*each.split("/")}
        for each in _readings_of(path)
    )


def mentions_address(pattern: str, text: str) -> bool:
    """Whether a URL may match the pattern, or may be below one that matches. An unreadable URL may be any."""
    # Browsers read a backslash as a slash, and ignore line breaks.
    spellings = dict.fromkeys((text, re.sub(r"[\t\r\n]", "", text).strip().replace("\\", "/")))
    addresses = [read_address(each) for each in spellings]
    return any(each is None or _mentions(pattern, each) for each in addresses)


def _mentions(pattern: str, address: Address) -> bool:
    if pattern.startswith(DOMAIN):
        host = pattern.removeprefix(DOMAIN)
        return _is_host(host, address.host) or _is_host(f"*.{host}", address.host)
    wanted = read_address(pattern)
    if wanted is None:
        return matches_text(pattern.casefold(), f"{address.scheme}://{address.host}{address.path}".casefold())
    if not _is_host(wanted.host, address.host):
        return False
    return any(mentions_path(wanted.path, path) for path in _readings_of(address.path))


def _is_host(pattern: str, host: str) -> bool:
    wanted, found = normal_host(pattern).split("."), host.split(".")
    if wanted == ["*"]:
        return True
    if wanted[0] == "*":
        # The star matches one label or more.
        wanted = wanted[1:]
        if len(found) <= len(wanted):
            return False
        found = found[-len(wanted) :]
    return len(wanted) == len(found) and all(map(matches_text, wanted, found))

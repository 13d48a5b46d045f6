"""The keys of the clients of a gateway: a file with their digests, and the ring in which a running gateway finds them.

The file contains SHA-256 digests and no keys. A key has 192 random bits, so a slow hash would protect it no better, and
every request would pay for it.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dragoman.errors import ConfigError, nearest
from dragoman.state_files import LARGEST_FILE, change_file

log = logging.getLogger("dragoman.server")

KEYS_FILE = "gateway-keys.json"
OWN_KEY_HEADER = "x-dragoman-key"
"""For clients whose other headers have a login of the endpoint."""
LOGIN_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")
"""The headers in which the clients of each vendor send their key."""
KEY_HEADERS = (OWN_KEY_HEADER, *LOGIN_HEADERS)
PREFIX = "sk-dragoman-"
"""Some programs accept only keys that begin with `sk-`, and the scrubber hides these."""
_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}").fullmatch
_OTHERS = 0o077
"""The permissions of the group and of all others."""
_Count = Annotated[int, Meta(ge=1)]
_Dollars = Annotated[float, Meta(gt=0)]


class KeyLimits(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the client with a key may use. None means no limit. A day begins at midnight UTC."""

    requests_per_minute: _Count | None = None
    tokens_per_minute: _Count | None = None
    max_concurrent: _Count | None = None
    tokens_per_day: _Count | None = None
    dollars_per_day: _Dollars | None = None


class ClientKey(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A key as it is stored."""

    name: str
    digest: str
    created: datetime
    expires: datetime | None = None
    limits: KeyLimits = KeyLimits()

    def has_expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


class _Content(Struct):
    keys: list[ClientKey] = msgspec.field(default_factory=list)


def read_key_header(headers: Mapping[str, str], name: str) -> str:
    """Return the key in one of these headers; empty if there is none. `Authorization` may have another scheme."""
    value = headers.get(name, "")
    scheme, _, rest = value.partition(" ")
    if name == "authorization" and rest:
        return rest.strip() if scheme.lower() == "bearer" else ""
    return value


def find_login(headers: Mapping[str, str]) -> str | None:
    """Return the key that a client sent for its vendor, in the header of any wire."""
    return next((key for name in LOGIN_HEADERS if (key := read_key_header(headers, name))), None)


def digest_of(key: str) -> str:
    """Return what is stored of a key."""
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def make_key() -> str:
    """Return a new random key."""
    return PREFIX + secrets.token_hex(24)


def add_key(
    path: Path,
    name: str,
    limits: KeyLimits | None = None,
    expires: datetime | None = None,
    now: datetime | None = None,
) -> str:
    """Store the digest of a new key, and return the key. It can never be shown again."""
    if not _is_name(name):
        raise ConfigError(f"{name!r} is not a name for a key", hint="use letters, digits, and . _ @ - in between")
    now = now or datetime.now(UTC)
    if expires is not None and expires <= now:
        raise ConfigError("the key would have expired already", hint="choose a time in the future")
    key = make_key()
    with _changed(path) as content:
        if any(each.name == name for each in content.keys):
            raise ConfigError(f"there is a key {name!r} already", hint=f"choose another name, or revoke {name!r} first")
        content.keys.append(ClientKey(name, digest_of(key), now, expires, limits or KeyLimits()))
    return key


def revoke_key(path: Path, name: str) -> None:
    """Remove a key. A running gateway refuses it from the next request on."""
    with _changed(path) as content:
        left = [each for each in content.keys if each.name != name]
        if len(left) == len(content.keys):
            guess = nearest(name, [each.name for each in content.keys])
            hint = f"did you mean {guess!r}?" if guess else "`dragoman serve keys list` shows the names"
            raise ConfigError(f"there is no key {name!r}", hint=hint)
        content.keys[:] = left


@contextmanager
def _changed(path: Path) -> Iterator[_Content]:
    try:
        with change_file(path, _read_content, _write_content) as content:
            yield content
    except OSError as error:
        why = (error.strerror or "not possible").lower()
        raise ConfigError(f"cannot change {path}: {why}", hint="check its permissions, or name another file") from None


def read_keys(path: Path) -> list[ClientKey]:
    """Return the stored keys; none if there is no file. Raises a ConfigError if the file cannot be trusted."""
    return _read_content(path).keys


def _read_content(path: Path) -> _Content:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        return _Content()
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(f"cannot read {path}: {why}", hint="check its permissions") from None
    if os.name == "posix" and mode & _OTHERS:
        raise ConfigError(f"other users can read or change {path}", hint=f"chmod 600 {path}")
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path} is larger than {LARGEST_FILE // 1024} kB", hint="revoke keys that nobody uses")
    try:
        return msgspec.json.decode(data, type=_Content)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is damaged: {error}", hint="remove the file, and add the keys again") from None


def _write_content(content: _Content) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


class KeyRing:
    """The keys in memory, by digest. It reads its file again after a change, and asks only for the file's status."""

    def __init__(self, path: Path | None = None, keys: Iterable[ClientKey] = ()) -> None:
        """`keys` are those of a ring without a file. Raises a ConfigError if the file cannot be used."""
        self._path = path
        self._name = str(path)
        self._seen: object = None
        self.keys: dict[str, ClientKey] = {}
        self._put(keys)
        if path is not None:
            self._seen = _status(path)
            self._put(read_keys(path))

    def _put(self, keys: Iterable[ClientKey]) -> None:
        self.keys = {key.digest: key for key in keys}

    def refresh(self) -> bool:
        """Read the file again if it has changed. Return whether the keys are others. A broken file changes nothing."""
        if self._path is None:
            return False
        if self._seen is None and not os.access(self._name, os.F_OK):
            # There was no file, and there is none: the answer without an exception costs less.
            return False
        status = _status(self._path)
        if status == self._seen:
            return False
        self._seen = status
        try:
            self._put(read_keys(self._path))
        except ConfigError as error:
            log.error("the keys were not read again: %s", error)
            return False
        return True

    def find(self, key: str) -> ClientKey | None:
        """Return the entry of a key."""
        digest = digest_of(key)
        found = self.keys.get(digest)
        # The lookup compares digests of what a client sent, so its time tells nothing about a stored key.
        return found if found is not None and hmac.compare_digest(found.digest, digest) else None


def _status(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size

"""A GGUF file fetched from a repository of the Hugging Face hub, or of a mirror that `HF_ENDPOINT` names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from msgspec import Struct

from dragoman.client.http import HttpTransport
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError
from dragoman.local.files import Progress, need_space
from dragoman.wire.values import as_dict, as_text, dicts

HOME = "https://huggingface.co"
_PREFERRED = ("q4_k_m", "q4_0", "q4_1", "q5_k_m", "q8_0")
"""Quantisations, the best compromise first."""
_REDIRECTS = 5
_MOST_OF_A_LIST = 8 << 20
_is_repository = re.compile(r"[\w.\-]+/[\w.\-]+\Z").match
_is_part = re.compile(r"-\d{5}-of-\d{5}\.gguf\Z").search


class Choice(Struct, frozen=True):
    """One file of a repository."""

    repository: str
    path: str
    bytes: int = 0
    sha256: str = ""


def read_name(text: str) -> tuple[str, str] | None:
    """`owner/name[:file]` in its two parts; None for anything else."""
    repository, _, file = text.partition(":")
    return (repository, file) if _is_repository(repository) else None


class Hub:
    """Speaks to the hub. Nothing but the list of files and the file itself is asked for."""

    def __init__(self, environment: Mapping[str, str] | None = None, transport: Transport | None = None) -> None:
        around = os.environ if environment is None else environment
        self._home = around.get("HF_ENDPOINT", "").rstrip("/") or HOME
        self._token = around.get("HF_TOKEN", "")
        self._transport = transport or HttpTransport()

    async def close(self) -> None:
        await self._transport.close()

    async def choose(self, repository: str, file: str = "") -> Choice:
        """The file that is meant: the one named, else the only one, else the usual quantisation."""
        listed = await self._list(repository)
        known = [choice for choice in listed if not _is_part(choice.path)]
        if file:
            for choice in listed:
                if choice.path == file:
                    return choice
            raise ConfigError(f"{repository} has no file {file!r}", hint=f"it has {_names(listed)}")
        for wanted in _PREFERRED:
            for choice in known:
                if wanted in choice.path.lower():
                    return choice
        if len(known) != 1:
            what = f"has {_names(listed)}" if listed else "has no GGUF file"
            raise ConfigError(f"{repository} {what}", hint=f"name one of them: dragoman model add {repository}:FILE")
        return known[0]

    async def fetch(self, choice: Choice, target: Path, progress: Progress) -> str:
        """Write the file; gives its sha256, which is the one that the hub promised."""
        need_space(target.parent, choice.bytes)
        path = f"{choice.repository}/resolve/main/{quote(choice.path)}"
        response = await self._get(f"{self._home}/{path}")
        digest = hashlib.sha256()
        done = 0
        try:
            with target.open("wb") as file:
                async for piece in response.pieces():
                    file.write(piece)
                    digest.update(piece)
                    done += len(piece)
                    progress(f"fetching {choice.path}", done, choice.bytes)
        except TransportFault as fault:
            raise self._unreachable(fault) from None
        finally:
            await response.close()
        if (choice.sha256 and digest.hexdigest() != choice.sha256) or (choice.bytes and done != choice.bytes):
            raise ConfigError(f"what came for {choice.path} is not the file that the hub lists", hint="try again")
        return digest.hexdigest()

    async def _list(self, repository: str) -> list[Choice]:
        response = await self._get(f"{self._home}/api/models/{repository}/tree/main?recursive=true")
        data = b""
        try:
            async for piece in response.pieces():
                data += piece
                if len(data) > _MOST_OF_A_LIST:
                    raise ConfigError(f"the list of files of {repository} is too long", hint="name the file by path")
            found: Any = msgspec.json.decode(data)
        except TransportFault as fault:
            raise self._unreachable(fault) from None
        except msgspec.DecodeError:
            raise ConfigError(f"{self._home} gave no list of files", hint="check HF_ENDPOINT") from None
        finally:
            await response.close()
        return [_read_file(repository, entry) for entry in dicts(found) if _is_gguf(entry)]

    async def _get(self, url: str) -> HttpResponse:
        for _ in range(_REDIRECTS):
            # The token is for the hub alone; the file itself often lies with somebody else.
            same = urlsplit(url).netloc == urlsplit(self._home).netloc
            headers = {"User-Agent": "dragoman", "Accept-Encoding": "identity"}
            headers |= {"Authorization": f"Bearer {self._token}"} if self._token and same else {}
            try:
                response = await self._transport.send(HttpRequest("GET", url, headers), Timeouts())
            except TransportFault as fault:
                raise self._unreachable(fault) from None
            if response.status == 200:
                return response
            await response.close()
            if response.status not in (301, 302, 303, 307, 308) or not response.headers.get("location"):
                raise self._refused(url, response.status)
            url = urljoin(url, response.headers["location"])
            if urlsplit(url).scheme not in ("http", "https"):
                raise ConfigError(f"{self._home} redirects to {url[:80]!r}", hint="check HF_ENDPOINT")
        raise ConfigError(f"{self._home} redirects without an end", hint="check HF_ENDPOINT")

    def _unreachable(self, fault: TransportFault) -> ConfigError:
        return ConfigError(
            f"the hub cannot be reached: {fault.message}",
            hint="check the network, or name a mirror with HF_ENDPOINT; a file of your own needs neither: "
            "dragoman model add FILE.gguf",
        )

    def _refused(self, url: str, status: int) -> ConfigError:
        path = urlsplit(url).path
        if status in (401, 403):
            return ConfigError(f"the hub does not give {path} away", hint="it may need a token: set HF_TOKEN")
        if status == 404:
            return ConfigError(f"the hub has no {path}", hint="check the name: owner/name or owner/name:file.gguf")
        return ConfigError(f"the hub answered {status} for {path}", hint="try again later")


def _is_gguf(entry: dict[str, Any]) -> bool:
    return as_text(entry.get("path")).lower().endswith(".gguf")


def _read_file(repository: str, entry: dict[str, Any]) -> Choice:
    size = entry.get("size")
    digest = as_text(as_dict(entry.get("lfs")).get("oid"))
    return Choice(repository, as_text(entry.get("path")), size if isinstance(size, int) else 0, digest)


def _names(files: list[Choice]) -> str:
    shown = ", ".join(choice.path for choice in files[:8])
    return f"{shown} and {len(files) - 8} more" if len(files) > 8 else shown or "none"

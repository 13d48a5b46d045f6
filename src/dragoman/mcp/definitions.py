"""What a server says of its tools: read, judged, and given a digest by which any later change is seen."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.mcp.limits import Limits
from dragoman.mcp.parameters import header_parameters
from dragoman.mcp.schemas import BadSchema, accept_schema, words_in
from dragoman.mcp.servers import Server
from dragoman.mcp.texts import clean_line, clean_text
from dragoman.types import JsonObject

_is_name = re.compile(r"[A-Za-z0-9_./-]{1,128}").fullmatch
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Definition(Struct, frozen=True):
    """One tool of a server, fit to be offered."""

    server: str
    name: str
    description: str
    parameters: JsonObject
    hints: JsonObject
    """What the server claims about its tool; nobody checked it."""
    digest: str
    """Over all that the server said of the tool, as it said it, and over what the server is."""
    said: JsonObject
    """That, as it was said, for whoever compares two definitions."""
    headers: dict[str, tuple[str, ...]] = {}
    """Headers that repeat an argument, each with the way to it."""

    @property
    def key(self) -> str:
        return f"{self.server}/{self.name}"

    def texts(self) -> list[str]:
        """Every text of it that a model may come to read, as it was said and as it is shown."""
        return list(dict.fromkeys(filter(None, [self.description, *words_in(self.parameters), *words_in(self.said)])))


def read_definitions(server: Server, listed: list[Any], limits: Limits) -> tuple[list[Definition], list[str]]:
    """The tools of a list, and what was wrong with those that are left out."""
    found: list[Definition] = []
    problems: list[str] = []
    names = Counter(each.get("name") for each in listed if isinstance(each, dict) and isinstance(each.get("name"), str))
    for each in listed[: limits.tools]:
        try:
            definition = _read(server, each, limits)
            if names[definition.name] > 1:
                raise BadSchema("it is listed twice, and no call could say which is meant")
            found.append(definition)
        except BadSchema as problem:
            name = each.get("name") if isinstance(each, dict) else None
            problems.append(f"{server.name}: the tool {clean_line(name, 80)!r} is left out: {problem}")
    if len(listed) > limits.tools:
        problems.append(f"{server.name}: {len(listed)} tools, of which the first {limits.tools} are used")
    return found, list(dict.fromkeys(problems))


def _read(server: Server, said: Any, limits: Limits) -> Definition:
    if not isinstance(said, dict):
        raise BadSchema("it is no object")
    name, description = said.get("name"), said.get("description", "")
    if not isinstance(name, str) or _is_name(name) is None:
        # Rules are written with names. One with `*` in it would allow more than the tool that it names.
        raise BadSchema("its name is not made of 1 to 128 letters, digits and the signs _ - . / of ASCII")
    annotations = said.get("annotations")
    claims = annotations if isinstance(annotations, dict) else {}
    hints = {key: claims[key] for key in _HINTS if isinstance(claims.get(key), bool)}
    schema = said.get("inputSchema")
    parameters = accept_schema(schema, limits)
    whole = {
        "name": name,
        "description": description if isinstance(description, str) else "",
        "inputSchema": schema,
        "annotations": claims,
    }
    return Definition(
        server.name,
        name,
        clean_text(description, limits.description_characters),
        parameters,
        hints,
        digest_of(whole, server.identity()),
        whole,
        header_parameters(parameters),
    )


def digest_of(said: JsonObject, identity: list[str]) -> str:
    """The digest of a definition; the same words from another program or address are another definition."""
    whole = msgspec.json.encode({"definition": said, "server": identity}, order="sorted")
    return hashlib.sha256(whole).hexdigest()

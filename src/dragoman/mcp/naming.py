"""Names of tools as a model calls them: `mcp__SERVER__TOOL`, and never the same for two.

A server cannot take the name of a built-in tool or of another server's tool. Names that would be cut, changed or
mistaken for each other end in a piece of a hash, which depends on nothing but the server and the tool.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

from dragoman.toolset import fold

LONGEST = 64
_not_allowed = re.compile(r"[^A-Za-z0-9_-]").sub
_HASH = 8


def wire_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The name on the wire of each pair of a server and a tool."""
    pairs = list(dict.fromkeys(tools))
    plain = {pair: _plain_name(*pair) for pair in pairs}
    # Names are found by models and parsers without regard to case, dashes and underscores, so that counts as the same.
    sharing = Counter(fold(name) for name in plain.values())
    return {
        pair: name if sharing[fold(name)] == 1 and name == _wanted(*pair) else _hashed_name(name, *pair)
        for pair, name in plain.items()
    }


def rule_name(server: str, tool: str) -> str:
    """The name by which rules of the policy speak of a tool."""
    return f"mcp:{server}/{tool}"


def _wanted(server: str, tool: str) -> str:
    return f"mcp__{server}__{tool}"


def _plain_name(server: str, tool: str) -> str:
    return _not_allowed("_", _wanted(server, tool))[:LONGEST]


def _hashed_name(name: str, server: str, tool: str) -> str:
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{digest}"

"""Which tools a request describes: all of them, short definitions, or some of them and a search for the others.

Definitions of hundreds of tools fill a context window, and models choose worse among them. `choose_offer` decides by
size which tools a request describes. The others are deferred: the model finds them with a tool of our own, and what it
found is described from then on. `found_tools` reads that from the conversation. Nothing here depends on an agent.

What was described stays, in the same order, and what was found follows it. So the beginning of a prompt does not
change. A deferred tool is still offered: a call of it is read, validated and decided on like any other.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.extraction.tool_mode import count_tokens, is_narrow
from dragoman.formats.prompt import SENTENCE_LIMIT, describe_in_a_line, first_sentence
from dragoman.tools import tool_from_schema
from dragoman.toolset import Toolset, is_foreign
from dragoman.types import JsonObject, Message, Tool, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# Short definitions.

_DEEPEST = 40
_DROPPED = frozenset({"title", "examples", "example", "$comment", "markdownDescription"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCHEMAS = frozenset(
    {"items", "prefixItems", "contains", "additionalProperties", "unevaluatedProperties", "propertyNames"}
    | {"anyOf", "oneOf", "allOf", "not", "if", "then", "else"}
)


def compact_tool(tool: Tool) -> Tool:
    """Return the tool with a short definition: the first sentence of each description, and no examples.

    The same arguments are valid. Its name, its traits and its function stay.
    """
    return replace(tool, description=_shorten(tool.description), parameters=_compact(tool.parameters))


def _shorten(words: str) -> str:
    return first_sentence(words, 2 * SENTENCE_LIMIT)


def _compact(schema: Any, depth: int = 0) -> Any:
    if isinstance(schema, list):
        return [_compact(each, depth + 1) for each in schema] if depth < _DEEPEST else schema
    if not isinstance(schema, dict) or depth >= _DEEPEST:
        return schema
    short: JsonObject = {}
    for key, value in schema.items():
        if key in _DROPPED and not isinstance(value, dict):
            continue
        if key == "description" and isinstance(value, str):
            short[key] = _shorten(value)
        elif key in _MAPS and isinstance(value, dict):
            short[key] = {name: _compact(inner, depth + 1) for name, inner in value.items()}
        else:
            short[key] = _compact(value, depth + 1) if key in _SCHEMAS else value
    return short


# --------------------------------------------------------------------------------------------------------------------
# The choice: what a request describes.

SEARCH = "tool_search"
_LISTED = 3_000
"""How many characters of names the definition of the search may list."""


class Offer(Struct, frozen=True):
    """The tools that a request describes, and those that it does not."""

    shown: Toolset
    deferred: Toolset
    is_compact: bool = False
    """The definitions in `shown` are short, because the window is small."""
    why: str = ""
    """What was changed and why, in words; empty if every tool is described in full."""


def choose_offer(
    tools: Toolset | Iterable[object],
    limit: int | None,
    *,
    window: int | None = None,
    compact: bool | None = None,
    keep: Collection[str] = (),
) -> Offer:
    """Choose what a request describes: short definitions if the window is small, and as many tools as the limit holds.

    Your own tools come before those of servers, and `keep` names tools that are always described. If some are deferred,
    the caller adds `search_tool(tools, offer.deferred)` to the request. `compact` forces or forbids short definitions.
    """
    given = Toolset.of(tools) or Toolset(())
    size = count_tokens(given)
    is_compact = compact is True or (compact is None and window is not None and is_narrow(size, window))
    offered = [compact_tool(tool) for tool in given] if is_compact else list(given)
    words = [f"the definitions of {len(given)} tools have about {size:,} tokens"]
    if is_compact and compact is None:
        words.append(f"they are shortened to {count_tokens(offered):,} for a window of {window:,}")
    chosen = {tool.name for tool in offered} if limit is None else _fill(offered, limit, keep)
    deferred = [tool for tool in given if tool.name not in chosen]
    if deferred:
        words.append(f"{len(deferred)} tools are deferred, because the limit is {limit:,}; {SEARCH} finds them")
    shown = Toolset([tool for tool in offered if tool.name in chosen])
    return Offer(shown, Toolset(deferred), is_compact, "; ".join(words) if len(words) > 1 else "")


def _fill(tools: list[Tool], limit: int, keep: Collection[str]) -> set[str]:
    """Return the names of the tools that fit. If not all do, room is left for the search and for what it finds."""
    if count_tokens(tools) <= limit:
        return {tool.name for tool in tools}
    room = limit // 2
    chosen: set[str] = set()
    for rank in range(3):
        for tool in tools:
            if _rank(tool, keep) == rank and (rank == 0 or count_tokens([tool]) <= room):
                room -= count_tokens([tool])
                chosen.add(tool.name)
    return chosen


def _rank(tool: Tool, keep: Collection[str]) -> int:
    """0: always described. 1: the user's own tool. 2: a tool of a server."""
    if tool.name in keep or tool.metadata.get("deferred") is False:
        return 0
    return 2 if is_foreign(tool) or tool.metadata.get("deferred") is True else 1


# --------------------------------------------------------------------------------------------------------------------
# The search: a tool of our own.

MOST_FOUND = 10
_FEW = 5
_LONGEST_QUERY = 500
_words = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+").findall
_IN_NAME = 3.0


def search_name(tools: Toolset) -> str:
    """Return a name for the search that no tool has."""
    # Name matching ignores case, dashes and underscores, so only another letter makes another name.
    names = (SEARCH, *(f"{SEARCH}_{number}" for number in range(2, len(tools) + 3)))
    return next(name for name in names if tools.find(name) is None)


def search_tool(tools: Toolset, deferred: Toolset | None = None) -> Tool:
    """Return the tool that searches `tools`. Its description lists the deferred ones; without them, all."""

    def search(query: str, limit: int = _FEW) -> str:
        return describe_found(find_tools(tools, query, limit))

    listed = tools if deferred is None else deferred
    parameters: JsonObject = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words for what the tool should do, or names of tools."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": _FEW},
        },
        "required": ["query"],
    }
    description = (
        f"Find more tools. {len(listed)} are not described here: {_list_names(listed)}. Search before you say that you "
        "cannot do something. You can call what is found at once."
    )
    return tool_from_schema(
        search_name(tools),
        parameters,
        search,
        description=description,
        read_only=True,
        parallel_safe=True,
        repeatable=True,
    )


def _list_names(deferred: Toolset) -> str:
    listed: list[str] = []
    room = _LISTED
    for name in deferred.names:
        room -= len(name) + 2
        if room < 0:
            return f"{', '.join(listed)} and {len(deferred) - len(listed)} others"
        listed.append(name)
    return ", ".join(listed)


def find_tools(tools: Toolset, query: str, limit: int = _FEW) -> list[Tool]:
    """Return the tools that fit a query, the best first: those that it names, then by the words that they share."""
    query = query[:_LONGEST_QUERY]
    named = [tool for part in re.split(r"[\s,;]+", query) if part and (tool := tools.find(part)) is not None]
    asked = set(map(str.lower, _words(query)))
    indexed = [(tool, _index(tool)) for tool in tools]
    spread = Counter(word for _, words in indexed for word in words)
    scores: dict[str, float] = {}
    for tool, words in indexed:
        shared = [word for word in words if _is_asked(word, asked)]
        scores[tool.name] = sum(words[word] * math.log(1 + len(indexed) / spread[word]) for word in shared)
    ranked = sorted((tool for tool in tools if scores[tool.name]), key=lambda tool: -scores[tool.name])
    found = {tool.name: tool for tool in (*named, *ranked)}
    return list(found.values())[: max(1, min(limit, MOST_FOUND))]


def _index(tool: Tool) -> dict[str, float]:
    """Return the words of a tool with their weights: a word of the name counts more than one of the description."""
    properties = tool.parameters.get("properties")
    keys = " ".join(properties) if isinstance(properties, Mapping) else ""
    weights = dict.fromkeys(map(str.lower, _words(f"{tool.description[:2000]} {keys[:500]}")), 1.0)
    return weights | dict.fromkeys(map(str.lower, _words(tool.name)), _IN_NAME)


def _is_asked(word: str, asked: set[str]) -> bool:
    """Whether a query has the word, in the singular or the plural."""
    return word in asked or f"{word}s" in asked or (word.endswith("s") and word[:-1] in asked)


def describe_found(found: Iterable[Tool]) -> str:
    """Return the result of a search: one line for each tool, as compact instructions have it."""
    lines = [describe_in_a_line(tool) for tool in found]
    if not lines:
        return "No tool fits. Try other words, or go on without one."
    return "\n".join(["You can call these tools now (? is optional):", *lines])


def found_tools(messages: Iterable[Message], tools: Toolset) -> list[Tool]:
    """Return the tools that the searches of a conversation found, and those that it calls, in that order.

    `tools` are those that the search searches. It is a pure function of them and of its arguments, so nothing else has
    to be stored. A search without a result found nothing.
    """
    search = search_name(tools)
    found: dict[str, Tool] = {}
    asked: dict[str, ToolCall] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCall) and part.name == search:
                asked[part.id] = part
            elif isinstance(part, ToolCall) and (tool := tools.find(part.name)) is not None:
                found.setdefault(tool.name, tool)
            elif isinstance(part, ToolResult) and not part.is_error and part.call_id in asked:
                for tool in _repeat(asked[part.call_id].arguments, tools):
                    found.setdefault(tool.name, tool)
    return list(found.values())


def _repeat(arguments: JsonObject, tools: Toolset) -> list[Tool]:
    query, limit = arguments.get("query"), arguments.get("limit", _FEW)
    return find_tools(tools, query, limit) if isinstance(query, str) and isinstance(limit, int) else []

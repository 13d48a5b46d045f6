"""Normalise tools from the notations that users write, and look them up by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from dragoman.errors import InvalidTool
from dragoman.types import JsonObject, Tool

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "schema", "parametersJsonSchema")
_MORE = frozenset(("metadata", "read_only", "parallel_safe"))
"""Keys of a tool that only this project has."""
NAMESPACES = ("functions.", "function.", "tools.", "tool.", "default_api.", "mcp.")
_FOLD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "-_.\\ ")
# The same for UTF-8. A whole text is folded five times as fast as bytes.
_FOLD_BYTES = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")
_FOLDED_AWAY = b"-_.\\ "


def fold(name: str) -> str:
    """Return a name without case, dashes, underscores and dots. Only ASCII case is folded: homoglyphs stay distinct."""
    return _fold_name(name) if len(name) <= _LONGEST_KEPT else name.translate(_FOLD)


_LONGEST_KEPT = 64


@lru_cache(maxsize=4096)
def _fold_name(name: str) -> str:
    # The names of tools and parameters return with every reply.
    return name.translate(_FOLD)


_separator = re.compile(r"__|[.:/]")
_split = _separator.split
has_namespace = _separator.search
"""Finds what separates a namespace from a name."""
_MOST_PARTS = 8


def _tails(name: str) -> list[str]:
    """Return `readtext` and `docsreadtext` for `mcp__docs__read_text`: the folded name without its namespaces."""
    if not has_namespace(name):
        return []
    parts = _split(name)[-_MOST_PARTS:]
    found = [fold("".join(parts[start:])) for start in range(1, len(parts))]
    return [tail for tail in found if tail and any(character.isalpha() for character in tail)]


def without_namespace(name: str) -> str:
    """Return `search` for `functions.search`: without the prefix by which models and servers group tools."""
    for prefix in NAMESPACES:
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return name


def is_foreign(tool: Tool) -> bool:
    """Whether the definition of a tool comes from a server, so that its text is content of others."""
    return str(tool.metadata.get("origin", "")).startswith("mcp:")


def as_tool(value: object) -> Tool:
    """Return a Tool from a Tool, an OpenAI, Anthropic, MCP or plain dict, or an object with a name."""
    if isinstance(value, Tool):
        return value
    if _is_mapping(value):
        return _from_mapping(value)
    made = getattr(value, "__dragoman_tool__", None)
    if isinstance(made, Tool):
        return made
    return _from_object(value)


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    # It is nearly always a dict or nothing, and the general check takes ten times as long.
    return type(value) is dict or (value is not None and isinstance(value, Mapping))


def _from_mapping(value: Mapping[str, Any]) -> Tool:
    inner = value.get("function")
    body: Mapping[str, Any] = inner if _is_mapping(inner) else value
    get = body.get
    name = get("name")
    if not isinstance(name, str) or not name:
        raise InvalidTool(f"a tool without a name: {_shorten(value)}")
    description = get("description")
    description = description if isinstance(description, str) else ""
    schema: JsonObject = {}
    for key in _SCHEMA_KEYS:
        found = get(key)
        if _is_mapping(found):
            schema = found if isinstance(found, dict) else dict(found)
            break
    if _MORE.isdisjoint(body):
        return Tool(name, description, schema)
    metadata, read_only = get("metadata"), get("read_only")
    return Tool(
        name,
        description,
        schema,
        parallel_safe=get("parallel_safe", read_only) is True,
        read_only=read_only is True,
        metadata=dict(metadata) if _is_mapping(metadata) else {},
    )


def _from_object(value: object) -> Tool:
    name = getattr(value, "name", None)
    name = name() if callable(name) else name
    if not isinstance(name, str) or not name:
        hint = "put @dragoman.tool above the function" if callable(value) else None
        raise InvalidTool(f"not a tool: {_shorten(value)}", hint=hint)
    description = getattr(value, "description", "")
    description = description() if callable(description) else description
    for key in _SCHEMA_KEYS:
        schema = getattr(value, key, None)
        schema = schema() if callable(schema) else schema
        if isinstance(schema, Mapping):
            return Tool(name, str(description or ""), dict(schema), run=getattr(value, "execute", None))
    return Tool(name, str(description or ""))


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_GROUPS = frozenset(("functionDeclarations", "function_declarations"))


def _read_tools(value: object) -> Iterable[Tool]:
    """Return the tool of a value, or those of grouped declarations: the tools of a Gemini request, unchanged."""
    if _is_mapping(value):
        if not _GROUPS.isdisjoint(value):
            for key in _GROUPS:
                grouped = value.get(key)
                if isinstance(grouped, list):
                    return map(as_tool, grouped)
        return (_from_mapping(value),)
    return (as_tool(value),)


class _Spellings:
    """The names of some tools in other spellings. They are derived when a name is not written exactly as offered."""

    __slots__ = ("_folded", "_tails", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._folded: dict[str, str | None] | None = None
        self._tails: dict[str, str | None] | None = None

    @property
    def folded(self) -> dict[str, str | None]:
        """The names by their folded form."""
        if self._folded is None:
            self._folded = _index((fold(name), name) for name in self.names)
        return self._folded

    @property
    def tails(self) -> dict[str, str | None]:
        """The names by their ends, without namespaces."""
        if self._tails is None:
            self._tails = _index((tail, name) for name in self.names for tail in _tails(name))
        return self._tails


def _spellings_of(name: str) -> str:
    return _kept_spellings(name) if len(name) <= _LONGEST_KEPT else _list_spellings(name)


def _list_spellings(name: str) -> str:
    return "\n" + "\n".join((fold(name), *_tails(name)))


_kept_spellings = lru_cache(maxsize=4096)(_list_spellings)


def _index(spellings: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Return the names by their spelling; None if several share it."""
    found: dict[str, str | None] = {}
    for spelling, name in spellings:
        found[spelling] = None if spelling in found else name
    return found


_MOST_KEPT = 16 * 1024
_spell_again = lru_cache(maxsize=64)(_Spellings)


def _spell(names: tuple[str, ...]) -> _Spellings:
    """Return the spellings. Those of the last tools are kept: the requests of a conversation have the same tools."""
    return _spell_again(names) if sum(map(len, names)) <= _MOST_KEPT else _Spellings(names)


class SharedTools(list[Tool]):
    """Tools that nobody changes: requests with equal tools have the same list, and share what is derived from it."""

    __slots__ = ("derived",)

    def __init__(self, tools: Iterable[Tool]) -> None:
        super().__init__(tools)
        self.derived: dict[Any, Any] = {}


class Toolset:
    """The offered tools, normalised once. Pass it to a parser instead of a list to avoid a second normalisation."""

    __slots__ = ("_by_name", "_listed", "_spellings", "tools")

    def __init__(self, tools: Iterable[object]) -> None:
        given: tuple[Any, ...] = tuple(tools)
        if set(map(type, given)) != {Tool}:
            given = tuple([tool for each in given for tool in _read_tools(each)])
        self.tools: tuple[Tool, ...] = given
        self._by_name = {tool.name: tool for tool in self.tools}
        self._spellings: _Spellings | None = None
        self._listed: str | None = None

    @classmethod
    def of(cls, tools: Toolset | Iterable[object] | None) -> Toolset | None:
        """Return a Toolset from any value that `tools=` accepts; None (any name is allowed) stays None."""
        if tools is None or isinstance(tools, Toolset):
            return tools
        if type(tools) is list:
            return cls(tools)
        if isinstance(tools, Mapping):
            # One tool instead of a list.
            return cls([tools])
        if not isinstance(tools, Iterable):
            raise InvalidTool(
                f"tools is a list, not {type(tools).__name__}", hint="write tools=[...], also for one tool"
            )
        return cls(tools)

    def find(self, name: str, *, dotted: bool = False) -> Tool | None:
        """Return the tool of that name: exact, or unique without case, dashes, underscores, dots and namespace.

        A namespace (`github.`, `mcp__github__`) may be missing in the name or in that of the tool. If both have one,
        they must agree. A name with an unknown namespace before a dot may be a method in source code, so it is found
        only with `dotted`.
        """
        tool = self._by_name.get(name)
        if tool is not None:
            return tool
        spellings = self._spell()
        folded = spellings.folded
        plain = fold(name)
        found = folded.get(plain)
        if found is None:
            if not has_namespace(name):
                # Most words of a text are no names, and have nothing in front to remove.
                found = spellings.tails.get(plain)
                return self._by_name[found] if found is not None else None
            bare = without_namespace(name)
            if bare != name:
                found = bare if bare in self._by_name else folded.get(fold(bare))
            found = found or self._find_namespaced(bare, dotted)
        return self._by_name[found] if found is not None else None

    def _find_namespaced(self, name: str, dotted: bool) -> str | None:
        """Return the only name that differs by a namespace in front, on either side."""
        spellings = self._spell()
        found = spellings.tails.get(fold("".join(_split(name))))
        if found is not None:
            return found
        if "." in name and not dotted:
            return None
        stripped = {match for tail in _tails(name) if (match := spellings.folded.get(tail)) is not None}
        return stripped.pop() if len(stripped) == 1 else None

    def _spell(self) -> _Spellings:
        if self._spellings is None:
            self._spellings = _spell(tuple(self._by_name))
        return self._spellings

    def may_begin(self, word: str) -> bool:
        """Whether an offered name, in any spelling, may begin with this word, also after a usual namespace."""
        listed = self._listed or self._list()
        if "\n" + fold(word) in listed:
            return True
        return word.startswith(NAMESPACES) and "\n" + fold(without_namespace(word)) in listed

    def may_be(self, word: str) -> bool:
        """Whether a word without a namespace may be an offered name, in any spelling."""
        return f"\n{fold(word)}\n" in (self._listed or self._list())

    def _list(self) -> str:
        """Return all spellings of all names, each between newlines."""
        if self._listed is None:
            spellings = "".join([_spellings_of(name) for name in self._by_name])
            self._listed = spellings + "\n" if spellings else ""
        return self._listed

    def is_mentioned(self, text: str) -> bool:
        """Whether a text contains an offered name, in any spelling."""
        if any([name in text for name in self._by_name]):
            return True
        folded = text.encode("utf-8", "surrogatepass").translate(_FOLD_BYTES, _FOLDED_AWAY)
        spellings = self._list().encode("utf-8", "surrogatepass").split(b"\n")
        return any([spelling in folded for spelling in spellings[1:-1]])

    def find_last(self, text: str) -> int:
        """Return where the last offered name of a text begins, or its end if the last one is spelled differently."""
        last = max([text.rfind(name) for name in self._by_name], default=-1)
        return len(text) if last < 0 or self.is_mentioned(text[last + 1 :]) else last

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, in order."""
        return tuple(self._by_name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

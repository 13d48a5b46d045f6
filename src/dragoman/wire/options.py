"""The neutral options of a request, and the tables with which a wire writes and reads them.

A field that only one wire has is under the name of that wire, `options["anthropic"] = {"service_tier": "auto"}`, and
is sent to that wire only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.types import JsonObject, NeutralOptions, RequestOptions
from dragoman.wire.failures import Loss
from dragoman.wire.quirks import Quirks

SAMPLING = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")

NEUTRAL = frozenset(NeutralOptions.__annotations__) - {"parallel"}
"""`RequestOptions` in `dragoman.types` describes them; `parallel` is replaced by its long name."""

WIRES = RequestOptions.__annotations__.keys() - NeutralOptions.__annotations__.keys()
"""The wires whose fields `options` can hold."""

_KINDS = {
    "max_tokens": "count",
    **dict.fromkeys(SAMPLING, "number"),
    "stop": "texts",
    **dict.fromkeys(("stream", "parallel_tool_calls"), "flag"),
}
"""The types of the values of options. Other options accept any value except None."""


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _accepts(option: str, value: Any) -> bool:
    kind = _KINDS.get(option)
    if kind == "count":
        return is_count(value)
    if kind == "number":
        return type(value) in (int, float)
    if kind == "flag":
        return type(value) is bool
    if kind == "texts":
        return bool(value) and isinstance(value, str | list | tuple) and all(isinstance(each, str) for each in value)
    return value is not None


def _clean(option: str, value: Any) -> Any:
    """Normalise a value: `stop` may also be a single string."""
    return ([value] if isinstance(value, str) else list(value)) if option == "stop" else value


class OptionTable(Struct, frozen=True):
    """Options that are one field of a body each, in both directions: our names, and the names of the fields."""

    names: dict[str, str]
    limits: dict[str, int] = {}
    """The largest number, or the largest number of strings."""

    def write(self, options: Mapping[str, Any], quirks: Quirks, losses: list[Loss], taken: set[str]) -> JsonObject:
        """The fields, and their options among the `taken` ones; no sampling where the endpoint refuses it."""
        fields: JsonObject = {}
        taken.update(self.names if quirks.sends_sampling else self.names.keys() - SAMPLING)
        for option, value in options.items():
            if option not in self.names or option not in taken or value is None:
                continue
            # A value of another type is sent unchanged: the error of the server describes the fault.
            if option in SAMPLING or _accepts(option, value):
                name = (option == "max_tokens" and quirks.max_tokens_field) or self.names[option]
                fields[name] = self._limit(option, _clean(option, value), losses)
        return fields

    def _limit(self, option: str, value: Any, losses: list[Loss]) -> Any:
        most = self.limits.get(option)
        if most is None:
            return value
        if isinstance(value, list) and len(value) > most:
            words = f"{option}: only the first {most} of {len(value)} texts are sent"
            losses.append(Loss("dropped", "options", words))
            return value[:most]
        if isinstance(value, int | float) and value > most:
            losses.append(Loss("approximated", "options", f"{option} {value} became {most}, the most on this wire"))
            return most
        return value

    def read(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Read the options in these fields. A field with an invalid value is ignored."""
        found: dict[str, Any] = {}
        for option, name in self.names.items():
            value = body.get(name)
            if value is not None and _accepts(option, value):
                found[option] = _clean(option, value)
        return found

    def take(self, body: JsonObject) -> dict[str, Any]:
        """Read the options, and remove their fields from the body."""
        found = self.read(body)
        for option in found:
            del body[self.names[option]]
        return found


class Choice(Struct, frozen=True):
    """Whether the model may, must or must not call, and which tools it may choose from (empty: all of them)."""

    mode: str = "auto"
    names: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`auto`, `none`, `required` or `named` (one tool and no other)."""
        return "named" if self.mode == "required" and len(self.names) == 1 else self.mode


def read_choice(options: Mapping[str, Any]) -> Choice | None:
    """Return the tool choice of a request; None if it has none."""
    given = options.get("tool_choice")
    if isinstance(given, str):
        return Choice(given if given in ("auto", "none", "required") else "auto")
    if isinstance(given, Mapping):
        name = given.get("name")
        if isinstance(name, str):
            return Choice("required", (name,))
        names = given.get("names")
        mode = given.get("mode")
        if isinstance(names, Iterable) and not isinstance(names, str):
            return Choice(mode if mode in ("auto", "required") else "auto", tuple(map(str, names)))
    return None


class Chosen(Struct, frozen=True):
    """The tool choice of a request, as far as the endpoint honours it."""

    mode: str = ""
    """`auto`, `none`, `required`, `named` (one of `names`), `listed` (all of `names`), or empty: nothing is said."""
    names: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    """The names on the wire of the only tools to offer; None means all of them."""
    required: bool = False
    """Whether one of the `names` must be called."""


def settle_choice(
    choice: Choice | None,
    name_of: Callable[[str], str | None],
    quirks: Quirks,
    losses: list[Loss],
    *,
    names_tools: bool = True,
    lists_tools: bool = False,
    omits_tools: bool = False,
) -> Chosen:
    """Return the tool choice for the endpoint. A choice that it does not honour is approximated and reported.

    `name_of` returns the name on the wire of an offered tool. `names_tools` and `lists_tools`: whether the wire can
    require one tool, and one of several. `omits_tools`: whether a request may leave out all tools if `none` is not
    honoured.
    """
    if choice is None:
        return Chosen()

    def approximate(words: str) -> None:
        losses.append(Loss("approximated", "options", words))

    kinds, mode = quirks.tool_choice, choice.mode
    if not choice.names and mode in kinds:
        return Chosen(mode)
    names = tuple(name for ours in choice.names if (name := name_of(ours)) is not None)
    only: tuple[str, ...] | None = None
    if choice.names and not names:
        approximate("tool_choice names no tool that is offered; it became auto")
        mode = "auto"
    elif names:
        if names_tools and "named" in kinds and (choice.kind == "named" or (lists_tools and mode in kinds)):
            return Chosen("named" if choice.kind == "named" else "listed", names, required=mode == "required")
        approximate("tool_choice: only the tools that it allows are offered")
        only = names
    if mode in kinds:
        return Chosen(mode, names, only)
    if mode == "none" and omits_tools:
        approximate("tool_choice 'none' is not honoured here; no tools are offered")
        return Chosen("", names, ())
    if mode != "auto":
        approximate(f"tool_choice {mode!r} is not honoured here; it is left out")
    return Chosen("", names, only)


def report_choice(options: Mapping[str, Any], losses: list[Loss]) -> None:
    """Report a demand for a call in a request that offers no tools. Any other choice says nothing there."""
    choice = read_choice(options)
    if choice is not None and choice.mode == "required":
        losses.append(Loss("dropped", "options", "tool_choice: no tool is offered"))


def write_choice(choice: Choice) -> Any:
    """The neutral option for a tool choice, as `read_choice` reads it."""
    if choice.kind == "named":
        return {"name": choice.names[0]}
    if choice.names:
        return {"mode": choice.mode, "names": list(choice.names)}
    return choice.mode


def write_parallel(options: Mapping[str, Any], quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The switch `parallel_tool_calls`, for wires that have it under our name."""
    parallel = options.get("parallel_tool_calls")
    if not isinstance(parallel, bool):
        return {}
    if quirks.parallel_flag:
        return {"parallel_tool_calls": parallel}
    if not parallel:
        losses.append(Loss("dropped", "options", "this endpoint has no switch against parallel calls"))
    return {}


def unsupported_options(options: Mapping[str, Any], taken: Iterable[str], wire: str) -> list[Loss]:
    """Return a loss for every option that this wire does not support; `taken` are the ones that it wrote."""
    known = {*taken, wire}
    losses: list[Loss] = []
    for name, value in options.items():
        if name in known or value is None or value == {} or value is False:
            continue
        if name in WIRES and isinstance(value, Mapping):
            # A field that is an option of its own is reported as that, if it is lost.
            said = {field: given for field, given in value.items() if given is not None and field not in options}
            fields = [_name_tools(given) if field == "tools" else field for field, given in said.items()]
            losses += [Loss("dropped", "options", f"{field}, which only {name} knows") for field in fields]
        else:
            why = f"{name} has no place on {wire}" if name in NEUTRAL else f"{name} is not for {wire}"
            losses.append(Loss("dropped", "options", why))
    return losses


def report_format(wanted: Mapping[str, Any], unsaid: Iterable[str], losses: list[Loss], wire: str) -> None:
    """Report the fields of a response format that a wire has no place for."""
    names = [name for name in unsaid if wanted.get(name) is not None]
    if wanted.get("type") == "json_schema" and names:
        losses.append(Loss("dropped", "options", f"response_format: {', '.join(names)} has no place on {wire}"))


# ---- tools of the provider -------------------------------------------------------------------------------------------
#
# `options[wire]["tools"]` holds tools that only this wire has, as it writes them. They follow the functions of the
# request, except where the list names functions: then these stand in their place, as in `[{"type": "web_search"},
# "find"]`.


def keep_places(entries: list[Any]) -> list[Any]:
    """The list for `options[wire]["tools"]` from all tools of a body, in which functions are their names."""
    first = next((place for place, entry in enumerate(entries) if not isinstance(entry, str)), len(entries))
    return entries[first:]


def place_tools(functions: Mapping[str, JsonObject], own: Iterable[Any]) -> list[Any]:
    """All tools of a body: `functions` by our names, and the wire's `own` ones, each in its place."""
    given = list(own)
    named = {entry for entry in given if isinstance(entry, str)}
    tools: list[Any] = [definition for name, definition in functions.items() if name not in named]
    for entry in given:
        if isinstance(entry, dict):
            tools.append(entry)
        elif entry in named and entry in functions:
            named.remove(entry)
            tools.append(functions[entry])
    return tools


def _name_tools(tools: Any) -> str:
    kinds = [str(tool.get("type") or next(iter(tool), "")) for tool in tools or () if isinstance(tool, Mapping)]
    return f"tools ({', '.join(kinds)})" if kinds else "tools"


def add_own(options: dict[str, Any], own: JsonObject, others: list[Any], wire: str) -> dict[str, Any]:
    """Return the options with the data of this wire only: fields without a neutral name, and tools of other kinds."""
    placed = keep_places(others)
    if placed:
        own["tools"] = placed
    return {**options, wire: own} if own else options


def keep_unknown(body: Mapping[str, Any], known: frozenset[str]) -> JsonObject:
    """Return the fields of a request body without a neutral name; they are stored under the name of their wire."""
    return {name: value for name, value in body.items() if name not in known}

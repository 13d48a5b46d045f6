"""The neutral names of `Request.options`, and how a codec takes them.

| option | meaning |
|---|---|
| `max_tokens` | the most tokens of the reply, an integer |
| `temperature`, `top_p`, `top_k`, `seed`, `presence_penalty`, `frequency_penalty` | sampling, numbers |
| `stop` | texts that end the reply, a list |
| `tool_choice` | `"auto"`, `"none"`, `"required"`, `{"name": "search"}`, or `{"mode": "required", "names": [...]}` |
| `parallel_tool_calls` | False asks for at most one call in a reply; `parallel` is its short name |
| `reasoning` | `{"effort": "high"}`, `{"budget": 2048}`, `{"enabled": False}`, also `"summary"` |
| `response_format` | `{"type": "json"}`, or `{"type": "json_schema", "schema": {...}, "name": "...", "strict": True}` |
| `stream` | True for a streamed reply |
| `cache` | True marks what a prompt cache shall keep, where the wire has markers; `"1h"` for the long one |
| `user`, `metadata` | who asks, and labels for the provider's log |

A field that only one wire has stands under the name of that wire, `options["anthropic"] = {"service_tier": "auto"}`,
and is sent to that wire alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.types import JsonObject
from dragoman.wire.report import Loss

NEUTRAL = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning",
        "response_format",
        "stream",
        "cache",
        "user",
        "metadata",
    }
)

SAMPLING = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")


class Choice(Struct, frozen=True):
    """Whether the model may, must or must not call, and which tools it may choose from (empty: all of them)."""

    mode: str = "auto"
    names: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`auto`, `none`, `required` or `named` (one tool and no other)."""
        return "named" if self.mode == "required" and len(self.names) == 1 else self.mode


def read_choice(options: Mapping[str, Any]) -> Choice | None:
    """The tool choice of a request; None where nothing was said."""
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


def write_choice(choice: Choice) -> Any:
    """The neutral option for a tool choice, as `read_choice` reads it."""
    if choice.kind == "named":
        return {"name": choice.names[0]}
    if choice.names:
        return {"mode": choice.mode, "names": list(choice.names)}
    return choice.mode


def find_unsaid(options: Mapping[str, Any], taken: Iterable[str], wire: str) -> list[Loss]:
    """A loss for every option that this wire has no place for; `taken` are the ones that it wrote."""
    known = {*taken, wire}
    return [
        Loss("dropped", "options", f"{name} has no place on {wire}" if name in NEUTRAL else f"{name} is not for {wire}")
        for name, value in options.items()
        if name not in known and value is not None and value != {} and value is not False
    ]


def keep_unknown(body: Mapping[str, Any], known: frozenset[str]) -> JsonObject:
    """The fields of a request body for which there is no neutral name; they go under the name of their wire."""
    return {name: value for name, value in body.items() if name not in known}

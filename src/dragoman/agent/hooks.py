"""Hooks: code of the developer's around every request and every call. It may look, change, deny or stop.

A hook is any object with some of these methods, sync or async; what they give back decides:

| method | None | may also give |
|---|---|---|
| `before_model(request)` | send it | a changed `Request`, `Stop(reason)` |
| `after_model(reply)` | take it | a changed `Reply`, `Stop(reason)` |
| `before_tool(call, tool)` | let it run | other arguments (a dict), `Deny(reason)`, `Stop(reason)` |
| `after_tool(call, result)` | take it | a changed `ToolResult`, or any value for the model, `Stop(reason)` |

A hook that fails is never passed over: before a call, the call is denied; after it, the result is withheld; around a
request, the run ends. Either way it is reported.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.types import Reply, Request, ToolCall

_Subject = TypeVar("_Subject")
NAMES = ("before_model", "after_model", "before_tool", "after_tool")


class Deny(Struct, frozen=True):
    """This call does not run; the model is told the reason."""

    reason: str = ""


class Stop(Struct, frozen=True):
    """The run ends here."""

    reason: str = ""


class HookFailed(Exception):
    """A hook raised, or gave something that has no meaning in its place."""

    def __init__(self, hook: object, method: str, problem: BaseException | str) -> None:
        name = type(hook).__name__ if not inspect.isroutine(hook) else getattr(hook, "__name__", "hook")
        words = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
        super().__init__(f"{name}.{method} failed: {words}")


class Hooks:
    """The hooks of a run, in the order in which they were given."""

    def __init__(self, hooks: Iterable[object] = ()) -> None:
        given = list(hooks)
        self._methods: dict[str, list[tuple[object, Any]]] = {name: [] for name in NAMES}
        for hook in given:
            found = [name for name in NAMES if callable(getattr(hook, name, None))]
            if not found:
                raise ConfigError(f"{hook!r} is no hook"[:200], hint=f"a hook has one of {', '.join(NAMES)}")
            for name in found:
                self._methods[name].append((hook, getattr(hook, name)))

    def under(self, parent: Hooks | None) -> Hooks:
        """These hooks in a run below another: what guards the calls of the upper run guards those below it as well.

        The upper ones are asked last, so that they see a call as it will run.
        """
        if parent is None or not parent.has("before_tool"):
            return self
        joined = Hooks()
        joined._methods = {
            **self._methods,
            "before_tool": self._methods["before_tool"] + parent._methods["before_tool"],
        }
        return joined

    def has(self, name: str) -> bool:
        """Whether anybody wants to be asked there."""
        return bool(self._methods[name])

    async def ask(self, name: str, subject: Any, *others: Any, change: Any, seconds: float | None = None) -> Any:
        """Show the subject to every hook in turn; gives it as it is after them, or the Deny or Stop of one of them.

        `change(subject, given)` makes the next subject of what a hook gave; it raises TypeError where that is nothing.
        A hook that takes longer than so many seconds has failed.
        """
        for hook, method in self._methods[name]:
            try:
                given = method(*others, subject) if name == "after_tool" else method(subject, *others)
                if inspect.isawaitable(given):
                    async with asyncio.timeout(seconds):
                        given = await given
                if given is None:
                    continue
                if isinstance(given, Stop) or (isinstance(given, Deny) and name == "before_tool"):
                    return given
                subject = change(subject, given)
            except Exception as problem:
                raise HookFailed(hook, name, problem) from problem
        return subject


# ---- what may stand in the place of what ----------------------------------------------------------------------------


def _takes_only(kind: type[_Subject], method: str) -> Callable[[_Subject, Any], _Subject]:
    def change(before: _Subject, given: Any) -> _Subject:
        if not isinstance(given, kind):
            raise TypeError(f"{method} has to give a {kind.__name__}, Stop or None, not {type(given).__name__}")
        return given

    return change


change_request = _takes_only(Request, "before_model")
change_reply = _takes_only(Reply, "after_model")


def change_call(call: ToolCall, given: Any) -> ToolCall:
    arguments = given.arguments if isinstance(given, ToolCall) else given
    if not isinstance(arguments, dict):
        raise TypeError(f"before_tool has to give arguments, Deny, Stop or None, not {type(given).__name__}")
    return replace(call, arguments=arguments)

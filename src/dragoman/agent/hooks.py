"""Hooks: functions of the developer around every request and every call. They may observe, change, deny or stop.

A hook is any object with some of these methods, sync or async. The return value decides:

| method | None | other return values |
|---|---|---|
| `before_model(request)` | send it | a changed `Request`, `Stop(reason)` |
| `after_model(reply)` | take it | a changed `Reply`, `Stop(reason)` |
| `before_tool(call, tool)` | let it run | other arguments (a dict), `Deny(reason)`, `Stop(reason)` |
| `after_tool(call, result)` | take it | a changed `ToolResult`, or any value for the model, `Stop(reason)` |
| `after_answer(answer)` | accept it | `Retry(reason)`, returned or raised: the model answers again; `Stop(reason)` |

dragoman never skips a failed hook: before a call, the call is denied; after it, the result is withheld; around a
request, the run ends. It reports the failure in each case.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from dragoman.agent.records import check_readable, is_kept
from dragoman.errors import ConfigError
from dragoman.tools import Retry
from dragoman.types import Message, Reply, Request, Tool, ToolCall

NAMES = ("before_model", "after_model", "before_tool", "after_tool", "after_answer")
_SIMILAR = 0.75
"""`before_tool_call` resembles `before_tool`; `before_run` does not."""


class Deny(Struct, frozen=True):
    """Do not run this call. The model receives the reason."""

    reason: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "reason", _as_text(self.reason))


class Stop(Struct, frozen=True):
    """End the run now."""

    reason: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "reason", _as_text(self.reason))


def _as_text(reason: object) -> str:
    """Return a reason as text: hooks often have an exception, or nothing."""
    return "" if reason is None else str(reason)


class Validator:
    """The function `validate` of a run as a hook."""

    def __init__(self, validate: Callable[[Any], object]) -> None:
        self.after_answer = validate


class HookFailed(Exception):
    """A hook raised an exception or returned a value that has no meaning for its method."""

    def __init__(self, hook: object, method: str, problem: BaseException | str) -> None:
        name = type(hook).__name__ if not inspect.isroutine(hook) else getattr(hook, "__name__", "hook")
        words = problem if isinstance(problem, str) else f"{type(problem).__name__}: {problem}"
        super().__init__(f"{name}.{method} failed: {words}")


_VERDICTS: dict[str, Any] = {"before_tool": Stop | Deny, "after_answer": Stop | Retry}


def _refuse_misspelled(hook: object, found: list[str]) -> None:
    """Raise ConfigError for a method like `before_tool_call`: nobody would call it, and it may be what denies calls."""
    for name in dir(hook):
        meant = difflib.get_close_matches(name, NAMES, n=1, cutoff=_SIMILAR) if not name.startswith("_") else []
        if meant and meant[0] not in found:
            raise ConfigError(
                f"{type(hook).__name__}.{name} is not a method of a hook; did you mean {meant[0]!r}?",
                hint=f"the methods of a hook are {', '.join(NAMES)}",
            )


class Hooks:
    """The hooks of a run, in the order of their definition."""

    def __init__(self, hooks: Iterable[object] = ()) -> None:
        self._methods: dict[str, list[tuple[object, Any]]] = {name: [] for name in NAMES}
        self._add(hooks)

    def _add(self, hooks: Iterable[object]) -> None:
        for hook in hooks:
            found = [name for name in NAMES if callable(getattr(hook, name, None))]
            if not found:
                raise ConfigError(
                    f"{hook!r} is not a hook"[:200], hint=f"a hook has at least one of the methods {', '.join(NAMES)}"
                )
            _refuse_misspelled(hook, found)
            for name in found:
                self._methods[name].append((hook, getattr(hook, name)))

    def plus(self, validate: Callable[[Any], object] | None) -> Hooks:
        """Return these hooks and the validator of a run."""
        if validate is None:
            return self
        joined = Hooks()
        joined._methods = {name: list(methods) for name, methods in self._methods.items()}
        joined._add([Validator(validate)])
        return joined

    def under(self, parent: Hooks | None) -> Hooks:
        """Return these hooks for a child run: the hooks of the parent run also apply to the calls of the child.

        The hooks of the parent run last, so that they see a call as it will run.
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
        """Whether any hook has this method."""
        return bool(self._methods[name])

    async def ask(self, name: str, subject: Any, *others: Any, change: Any, seconds: float | None = None) -> Any:
        """Pass the subject to every hook in turn. Return it as changed by them, or the Deny or Stop of one of them.

        `change(subject, given)` returns the next subject from the return value of a hook. It raises TypeError for a
        value without meaning. A hook that takes longer than `seconds` has failed.
        """
        for hook, method in self._methods[name]:
            try:
                given = method(*others, subject) if name == "after_tool" else method(subject, *others)
                if inspect.isawaitable(given):
                    async with asyncio.timeout(seconds):
                        given = await given
                if given is None:
                    continue
                if isinstance(given, _VERDICTS.get(name, Stop)):
                    return given
                subject = change(subject, given)
            except Retry as asked:
                if name != "after_answer":
                    raise HookFailed(hook, name, asked) from asked
                return asked
            except Exception as problem:
                raise HookFailed(hook, name, problem) from problem
        return subject


# ---- the return values of hooks -------------------------------------------------------------------------------------


def change_request(before: Request, given: Any) -> Request:
    if not isinstance(given, Request):
        raise TypeError(f"before_model must return a Request, Stop or None, not {type(given).__name__}")
    lists: tuple[tuple[str, Any, type], ...] = (("messages", given.messages, Message), ("tools", given.tools, Tool))
    for name, values, kind in lists:
        if not (isinstance(values, list | tuple) and all(isinstance(each, kind) for each in values)):
            raise TypeError(f"before_model returned a request whose {name} are not {kind.__name__} values")
    options: object = given.options
    if not isinstance(options, Mapping):
        raise TypeError("before_model returned a request whose options are not a mapping")
    known = set(map(id, before.messages))
    for message in given.messages:
        if id(message) not in known:
            check_readable(message, "before_model returned a message that is none")
    return given


def change_reply(before: Reply, given: Any) -> Reply:
    if not isinstance(given, Reply):
        raise TypeError(f"after_model must return a Reply, Stop or None, not {type(given).__name__}")
    check_readable(given, "after_model returned a reply that is none")
    return given


def change_call(call: ToolCall, given: Any) -> ToolCall:
    arguments = given.arguments if isinstance(given, ToolCall) else given
    if not isinstance(arguments, dict):
        raise TypeError(f"before_tool must return arguments, Deny, Stop or None, not {type(given).__name__}")
    if not is_kept(arguments):
        raise TypeError("before_tool returned arguments that are not JSON")
    return replace(call, arguments=arguments)


def change_answer(answer: Any, given: Any) -> Any:
    """A validator accepts with None, True or the answer itself. False rejects. It cannot replace the answer."""
    if given is False:
        raise Retry("it was not accepted")
    if given is not True and given is not answer:
        raise TypeError(f"a validator must return None, True, False, Retry or Stop, not {type(given).__name__}")
    return answer

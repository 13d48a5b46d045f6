"""`@tool`: the function can still be called as before, and is also a tool."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import dragoman
from dragoman.errors import InvalidTool
from dragoman.tools import Context, ToolContext, bind, gather, run_sync, tool, tools_in
from dragoman.types import Tool

if TYPE_CHECKING:
    from dragoman.nowhere import Surroundings  # type: ignore[import-not-found]


def made(thing: Any) -> Tool:
    found = thing.__dragoman_tool__
    assert isinstance(found, Tool)
    return found


def test_bare_and_with_options_the_function_stays_itself() -> None:
    def weather(city: str) -> str:
        """Current weather in a city."""
        return f"sunny in {city}"

    assert tool(weather) is weather
    assert weather("Paris") == "sunny in Paris"
    assert made(weather) == dragoman.Toolset([weather]).find("weather")
    assert (made(weather).name, made(weather).description) == ("weather", "Current weather in a city.")
    assert not made(weather).parallel_safe

    assert tool(name="sky", parallel_safe=True)(weather) is weather
    assert (made(weather).name, made(weather).parallel_safe) == ("sky", True)


def test_every_option_reaches_the_tool() -> None:
    @tool(
        name="rm",
        description="Remove it.",
        read_only=False,
        repeatable=True,
        timeout=2.5,
        max_output=100,
        requires_approval=True,
        exec=True,
        metadata={"team": "files"},
        schema={"type": "object"},
    )
    def remove(**rest: Any) -> Any:
        return rest

    assert made(remove) == Tool(
        "rm",
        "Remove it.",
        {"type": "object"},
        run=made(remove).run,
        metadata={"team": "files", "class": "exec"},
        repeatable=True,
        timeout=2.5,
        max_output=100,
        requires_approval=True,
    )
    assert made(remove).is_exec
    assert bind(remove, {"when": "2024-01-01"})() == {"when": "2024-01-01"}


def test_what_only_reads_may_be_repeated() -> None:
    assert made(tool(read_only=True)(lambda_free)).repeatable
    assert not made(tool(read_only=True, repeatable=False)(lambda_free)).repeatable
    assert not made(tool()(lambda_free)).repeatable


def lambda_free() -> None: ...


def test_async_functions_stay_async() -> None:
    @tool
    async def fetch(url: str) -> str:
        return url

    assert inspect.iscoroutinefunction(fetch)
    assert bind(fetch, {"url": "x"}).is_async


class Store:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool(read_only=True)
    def look(self, key: int) -> str:
        """Look something up."""
        return f"{self.name}:{key}"

    @tool
    async def fetch(self, key: int) -> str:
        return f"{self.name}:{key}"

    @tool
    @classmethod
    def kind(cls, suffix: str) -> str:
        return cls.__name__ + suffix

    @tool
    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b

    @staticmethod
    @tool
    def twice(a: int) -> int:
        return 2 * a


class SmallStore(Store):
    @tool
    def look(self, key: int) -> str:
        return "small " + super().look(key)


def test_a_method_is_a_tool_of_its_object() -> None:
    first, second = Store("first"), Store("second")
    assert first.look(1) == "first:1"
    assert Store.look(first, key=2) == "first:2"
    assert list(made(first.look).parameters["properties"]) == ["key"]
    assert made(first.look).description == "Look something up."
    assert run_sync(bind(first.look, {"key": 3})) == "first:3"
    assert run_sync(bind(second.look, {"key": 3})) == "second:3"
    assert run_sync(bind(SmallStore("third").look, {"key": 3})) == "small third:3"
    assert bind(first.fetch, {"key": 1}).is_async
    assert inspect.iscoroutinefunction(first.fetch)
    assert (first.look.__name__, first.look.__self__) == ("look", first)


def test_methods_of_classes_and_static_methods_are_tools_too() -> None:
    assert Store.kind("!") == "Store!"
    assert run_sync(bind(SmallStore.kind, {"suffix": "?"})) == "SmallStore?"
    assert run_sync(bind(Store.add, {"a": 1, "b": 2})) == Store("x").add(1, 2) == 3
    assert run_sync(bind(Store.twice, {"a": 4})) == 8


def test_a_method_without_its_object_cannot_be_run() -> None:
    with pytest.raises(InvalidTool, match="was passed without its object"):
        bind(Store.look, {"key": 1})

    class Shelf:
        def find(self, key: int) -> str:
            return "a book"

    for unbound in (Store.look, Shelf.find):
        with pytest.raises(InvalidTool, match="was passed without its object"):
            gather([unbound])


def test_callable_objects_partials_and_bound_methods_are_tools() -> None:
    class WordCounter:
        """Counts words."""

        def __call__(self, text: str) -> int:
            return len(text.split())

        def count(self, text: str, least: int) -> int:
            return max(least, len(text.split()))

    counter = tool(WordCounter())
    assert (made(counter).name, counter("a b")) == ("word_counter", 2)
    assert run_sync(bind(counter, {"text": "a b c"})) == 3

    bound = tool(WordCounter().count)
    assert (made(bound).name, bound("a", 2)) == ("count", 2)
    assert run_sync(bind(bound, {"text": "", "least": 1})) == 1

    fixed = tool(functools.partial(WordCounter().count, least=5))
    assert list(made(fixed).parameters["properties"]) == ["text"]
    assert run_sync(bind(fixed, {"text": "a"})) == 5


def test_the_context_is_hidden_from_the_model_and_filled_by_the_caller() -> None:
    @tool
    def whoami(greeting: str, around: Context | None, /) -> str:
        assert around is not None
        return f"{greeting} {around.data}"

    @tool(context="around")
    def where(around: Surroundings) -> Any:
        return around

    assert list(made(whoami).parameters["properties"]) == ["greeting"]
    assert made(whoami).context_parameter == "around"
    assert bind(whoami, {"greeting": "hi"}, ToolContext(data="Ada"))() == "hi Ada"
    assert bind(whoami, {"greeting": "hi"})() == "hi None"
    assert made(where).parameters["properties"] == {}
    assert bind(where, {}, "here")() == "here"
    assert not ToolContext().cancelled()
    ToolContext().progress("half done", 0.5)


def test_an_argument_cannot_reach_the_hidden_parameter() -> None:
    @tool
    def whoami(around: Context) -> Any:
        return around.data

    with pytest.raises(dragoman.errors.InvalidArguments):
        bind(whoami, {"around": {"data": "root"}}, ToolContext(data="user"))


def test_mistakes_raise_where_the_tool_is_defined() -> None:
    def two(first: Context, second: Context) -> None: ...

    for options, function, words in [
        ({}, lambda: None, "has no valid name"),
        ({"context": "missing"}, lambda_free, "has no parameter 'missing'"),
        ({}, two, "is already the context parameter"),
        ({"timeout": 0}, lambda_free, "timeout=0"),
        ({"max_output": -1}, lambda_free, "max_output=-1"),
        ({}, 3, "not a callable"),
    ]:
        with pytest.raises(InvalidTool, match=words):
            tool(**options)(function)  # type: ignore[call-overload]


def test_the_tools_of_a_file_are_found_by_their_mark() -> None:
    @tool
    def one() -> None: ...

    @tool
    def two() -> None: ...

    found = tools_in({"two": two, "again": two, "one": one, "other": lambda_free.__name__, "Tool": Tool})
    assert [each.name for each in found] == ["two", "one"]


def test_an_option_that_a_tool_does_not_have_is_refused() -> None:
    """A misspelled `requires_approval` would let every call run without a question."""
    make: Any = dragoman.tool
    for wrong, meant in (("needs_approval", "requires_approval"), ("readonly", "read_only"), ("time_out", "timeout")):
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            make(name="look", **{wrong: True})(lambda: "")
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            gather([{"name": "look", "run": str, wrong: True}])


class _Deletion:
    name, description = "delete", "Delete a file."
    needs_approval = True

    def execute(self, arguments: Any) -> str:
        return "deleted"


def test_dicts_and_objects_have_the_options_of_a_tool() -> None:
    """A tool that is a dict or a class may require an approval like a function."""
    body = {"name": "delete", "parameters": {"type": "object"}, "requires_approval": True, "timeout": 3}
    run = {"run": lambda given: "deleted"}
    for given in ({**body, **run}, {"type": "function", "function": body, **run}):
        (made,) = gather([given])
        assert made.requires_approval and made.timeout == 3, given
    with pytest.raises(TypeError, match="did you mean 'requires_approval'"):
        gather([_Deletion()])
    foreign = {"strict": True, "cache_control": {}, "_meta": {}, "annotations": {}, "input_examples": [], "title": "x"}
    assert gather([{"name": "delete", **run, **foreign}])[0].requires_approval is False

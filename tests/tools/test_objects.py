"""Tools without the decorator: classes, objects, schemas, MCP definitions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dragoman import args
from dragoman.errors import InvalidArguments, InvalidTool
from dragoman.tools import (
    Context,
    Ok,
    ToolContext,
    bind,
    gather,
    run_sync,
    to_result,
    tool,
    tool_from,
    tool_from_mcp,
    tool_from_object,
    tool_from_schema,
)
from dragoman.types import Tool, ToolCall

CALL = ToolCall("call_1", "it", {})


class DescribePage:
    """A tool as a class with a method for each thing it says."""

    def name(self) -> str:
        return "describe_page"

    def description(self) -> str:
        return "Summarise the content of a web page"

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}

    def execute(self, arguments: dict[str, Any], context: ToolContext) -> Ok:
        return Ok(f"summary of {arguments['url']} for {context.session}")


@pytest.mark.parametrize("given", [DescribePage, DescribePage()], ids=["class", "object"])
def test_a_class_or_object_that_names_describes_and_executes_is_a_tool(given: Any) -> None:
    made = tool_from(given)
    assert (made.name, made.description) == ("describe_page", "Summarise the content of a web page")
    assert not made.parallel_safe
    loaded = args.load('{"url": "https://example.com"}', made)
    value = run_sync(bind(made, loaded.value, ToolContext(session="s")))
    assert to_result(value, CALL).content == "summary of https://example.com for s"


def test_an_object_says_its_traits_as_values_or_methods() -> None:
    class Look:
        name = "look"
        description = "Look."
        parameters = {"type": "object", "properties": {"place": {"type": "string"}}}  # noqa: RUF012
        parallel_safe = True
        timeout = 3.0

        def read_only(self) -> bool:
            return True

        def run(self, place: str) -> str:
            return f"at {place}"

    made = tool_from_object(Look)
    assert (made.parallel_safe, made.read_only, made.repeatable, made.timeout) == (True, True, True, 3.0)
    assert bind(made, {"place": "home"})() == "at home"


def test_without_a_schema_it_is_read_from_the_method() -> None:
    class Add:
        name = "add"

        def __call__(self, a: int, b: int, around: Context) -> Any:
            return a + b, around.turn

    made = tool_from(Add())
    assert made.parameters["required"] == ["a", "b"]
    assert bind(made, {"a": 1, "b": 2}, ToolContext(turn=4))() == (3, 4)


def test_a_class_can_be_decorated_and_each_object_stays_its_own() -> None:
    @tool(read_only=True)
    class Greeter:
        name = "greet"
        schema = {"type": "object"}  # noqa: RUF012

        def __init__(self, word: str = "hello") -> None:
            self.word = word

        def execute(self, arguments: dict[str, Any]) -> str:
            return self.word

    assert tool_from(Greeter).read_only
    assert [bind(each, {})() for each in (Greeter, Greeter("hi"), Greeter("ho"))] == ["hello", "hi", "ho"]


def test_a_schema_and_a_function_are_a_tool() -> None:
    schema = {"type": "object", "properties": {"from": {"type": "string"}}}
    by_name = tool_from_schema("mail", schema, lambda **given: given, description="Send.", read_only=True)
    assert by_name.parameters is schema
    assert (by_name.description, by_name.read_only) == ("Send.", True)
    assert bind(by_name, {"from": "me"})() == {"from": "me"}
    whole = tool_from_schema("mail", schema, lambda given, around: (given, around), unpack=False)
    assert bind(whole, {"from": "me"}, "context")() == ({"from": "me"}, "context")
    alone = tool_from_schema("mail", schema, lambda given: given, unpack=False)
    assert bind(alone, {"from": "me"}, "context")() == {"from": "me"}


def test_arguments_that_a_function_has_no_room_for_are_faults() -> None:
    made = tool_from_schema("mail", {"type": "object"}, lambda to: to)
    with pytest.raises(InvalidArguments, match="unexpected keyword argument 'cc'"):
        bind(made, {"to": "a", "cc": "b"})


@pytest.mark.parametrize(
    ("annotations", "read_only", "exec_class"),
    [
        (None, False, "exec"),
        ({"readOnlyHint": True}, True, None),
        ({"readOnlyHint": False, "destructiveHint": True}, False, "exec"),
        (SimpleNamespace(readOnlyHint=True, destructiveHint=None), True, None),
        (SimpleNamespace(read_only_hint=True), True, None),
    ],
)
def test_an_mcp_tool_says_what_it_may_touch(annotations: Any, read_only: bool, exec_class: str | None) -> None:
    definition = {
        "name": "fs_read",
        "description": "Read.",
        "inputSchema": {"type": "object"},
        "annotations": annotations,
    }
    for given in (definition, SimpleNamespace(**definition)):
        made = tool_from_mcp(given, lambda arguments: arguments)
        assert (made.name, made.description, made.parameters) == ("fs_read", "Read.", {"type": "object"})
        assert (made.read_only, made.metadata.get("class")) == (read_only, exec_class)
        assert bind(made, {"path": "x"})() == {"path": "x"}


def test_the_hints_of_a_server_are_kept() -> None:
    made = tool_from_mcp({"name": "rm", "annotations": {"destructiveHint": True, "title": "Remove"}}, print)
    assert made.metadata["annotations"] == {"title": "Remove", "destructiveHint": True}


def test_plain_functions_dicts_and_tools_are_accepted() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    plain = {"name": "sub", "parameters": {"type": "object"}, "run": lambda given: given["a"] - given["b"]}
    offered = Tool("offered", run=lambda arguments, context: (arguments, context))
    tools = gather([add, plain, offered])
    assert [bind(each, {"a": 3, "b": 1}, "c")() for each in tools] == [4, 2, ({"a": 3, "b": 1}, "c")]


def test_what_is_no_tool_is_refused_with_a_next_step() -> None:
    class Nameless:
        def execute(self) -> None: ...

    class Picky:
        name = "picky"

        def __init__(self, needed: int) -> None: ...

    class Idle:
        name = "idle"

    class Broken:
        def name(self) -> str:
            raise RuntimeError("no name today")

    for given, words in [
        (3, "not a tool"),
        (Nameless(), "not a tool"),
        (Picky, "cannot create an object of"),
        (Idle, "has no function to run"),
        (Broken, "no name today"),
    ]:
        with pytest.raises(InvalidTool, match=words) as caught:
            tool_from(given)
        assert caught.value.next_step
    with pytest.raises(InvalidTool, match="has no function to run"):
        bind({"name": "x"}, {})
    with pytest.raises(InvalidTool, match="two tools are named 'x'"):
        gather([{"name": "x"}, {"name": "x"}])
    with pytest.raises(InvalidTool, match="without a name"):
        tool_from_mcp({}, print)
    with pytest.raises(InvalidTool, match="not a dict"):
        tool_from_schema("x", [], print)  # type: ignore[arg-type]

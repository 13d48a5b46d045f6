"""Tools are loaded from files, modules and packages, and a bad one does not take the others down."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.config import load_agents, load_installed, load_source, load_tools, restrict
from dragoman.errors import ConfigError
from dragoman.types import Tool

Write = Callable[[str, str], Path]

GOOD = '''
from dataclasses import dataclass
import dragoman
from helper import GREETING

@dataclass
class Where:
    city: str

@dragoman.tool
def greet(name: str) -> str:
    """Say hello."""
    return GREETING + name

@dragoman.tool(read_only=True)
def look(where: Where) -> str:
    """Look out of the window."""
    return where.city

def not_a_tool(): ...
'''


class Point:
    """What an installed package looks like."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value

    def load(self) -> Any:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


@dragoman.tool
def search(query: str) -> str:
    """Search."""
    return query


def names(tools: list[Tool]) -> list[str]:
    return [tool.name for tool in tools]


def test_a_file_offers_its_decorated_functions_and_may_import_its_neighbours(write: Write) -> None:
    write("helper.py", "GREETING = 'Hello, '\n")
    path = write("tools.py", GOOD)
    before = list(sys.path)
    found = load_source(str(path))
    assert names(found) == ["greet", "look"]
    assert found[0].run is not None
    assert sys.path == before
    sys.modules.pop("helper", None)


def test_a_list_named_tools_says_which(write: Write) -> None:
    path = write(
        "tools.py",
        "import dragoman\ndef plain(x: int) -> int:\n    'Plain.'\n    return x\n"
        "@dragoman.tool\ndef hidden() -> None: 'Not listed.'\nTOOLS = [plain]\n",
    )
    assert names(load_source(str(path))) == ["plain"]


def test_two_files_of_the_same_name_are_two_modules(write: Write) -> None:
    body = "import dragoman\n@dragoman.tool\ndef {0}() -> str:\n    'It.'\n    return '{0}'\n"
    one, two = write("a/tools.py", body.format("one")), write("b/tools.py", body.format("two"))
    assert names(load_tools([str(one), str(two)]).tools) == ["one", "two"]


def test_a_module_and_a_name_in_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        "weather_box.py",
        "import dragoman\n@dragoman.tool\ndef rain() -> bool:\n    'Rain?'\n    return True\nBOTH = [rain]\n",
    )
    monkeypatch.syspath_prepend(str(path.parent))
    for source in ("weather_box", "weather_box:rain", "weather_box:BOTH"):
        assert names(load_source(source)) == ["rain"], source
    with pytest.raises(ConfigError, match="did you mean 'rain'"):
        load_source("weather_box:rian")
    sys.modules.pop("weather_box")


BAD = [
    ("a mistake of syntax", "x = 1\ndef broken(:\n", ":2: SyntaxError"),
    ("an error while it runs", "\n\nraise RuntimeError('no luck')\n", ":3: RuntimeError: no luck"),
    ("a function that fails further down", "def f():\n    1 / 0\nf()\n", ":2: ZeroDivisionError"),
    ("a module that is not there", "import no_such_module_at_all\n", ":1: ModuleNotFoundError"),
    ("a program", "import sys\nsys.exit(3)\n", ":2: SystemExit: 3"),
    ("a tool that cannot be one", "import dragoman\n@dragoman.tool\ndef f(*args: int) -> None: 'F.'\n", "args"),
    ("nothing in it", "x = 1\n", "there are no tools in"),
    ("a list of other things", "TOOLS = [3]\n", "not a tool"),
    ("a dict that runs nothing", "TOOLS = [{'name': 'x', 'parameters': {}}]\n", "has nothing to run"),
]


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_file_is_told_with_its_line_and_costs_only_its_own_tools(write: Write, text: str, words: str) -> None:
    bad = write("bad.py", text)
    good = write("good.py", "import dragoman\n@dragoman.tool\ndef fine() -> str:\n    'Fine.'\n    return ''\n")
    box = load_tools([str(bad), str(good)])
    assert names(box.tools) == ["fine"]
    (problem,) = box.problems
    assert words in problem
    assert str(bad) in problem
    assert "\n" not in problem
    with pytest.raises(ConfigError):
        box.require()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("missing.py", "there is no file of tools"),
        (".", "'.' is a folder"),
        ("/", "'/' is a folder"),
        ("no_such_package.tools", "ModuleNotFoundError"),
        ("entry:serch", "did you mean 'search'"),
    ],
)
def test_a_source_that_is_not_there(source: str, words: str) -> None:
    assert words in load_tools([source], [Point("search", search)]).problems[0]


def test_a_name_in_a_file_is_one_tool_which_needs_no_mark(write: Write) -> None:
    path = write("plain.py", "def greet(name: str) -> str:\n    'Greet.'\n    return name\n\ndef other(): ...\n")
    assert names(load_tools([f"{path}:greet"]).require()) == ["greet"]
    assert "did you mean 'greet'" in load_tools([f"{path}:great"]).problems[0]


def test_the_hint_for_one_bad_source_is_that_of_its_error(write: Write) -> None:
    bad, empty = write("bad.py", "def broken(:\n"), write("empty.py", "x = 1\n")
    for sources, hint in (([bad], "fix the code"), ([empty], "@dragoman.tool"), ([bad, empty], "leave them out")):
        with pytest.raises(ConfigError) as caught:
            load_tools(map(str, sources)).require()
        assert hint in caught.value.next_step


def test_the_name_of_a_file_without_its_ending_is_told(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("weather_file.py", "import dragoman\n")
    monkeypatch.chdir(path.parent)
    assert "write weather_file.py for the file" in load_tools(["weather_file"]).problems[0]


def test_of_two_tools_with_one_name_the_first_counts_and_the_other_is_told() -> None:
    points = [Point("one", search), Point("two", [search])]
    box = load_tools(["entry:one", "entry:two"], points)
    assert names(box.tools) == ["search"]
    assert box.problems == ("tool 'search' of entry:two is ignored: entry:one has one of that name",)


def test_tools_of_packages_by_name_or_all_of_them() -> None:
    points = [Point("search", search), Point("bad", RuntimeError("broken package"))]
    assert names(load_tools(["entry:search"], points).tools) == ["search"]
    assert load_tools(["entry:*"], [Point("made", lambda: [search])]).tools[0].name == "search"


def test_what_a_package_brings_unasked_needs_approval() -> None:
    points = [Point("search", search), Point("bad", RuntimeError("broken package"))]
    box = load_installed(points)
    assert [(tool.name, tool.requires_approval) for tool in box.tools] == [("search", True)]
    assert "broken package" in box.problems[0]
    assert not load_installed(points, ask=False).tools[0].requires_approval
    assert not load_tools(["entry:search"], points).tools[0].requires_approval, "whoever names it has chosen it"


def test_denied_tools_are_gone() -> None:
    tools = [Tool("git_push"), Tool("git_log"), Tool("Read"), Tool("shell")]
    assert [tool.name for tool in restrict(tools, deny=["SHELL", "git_p*"])] == ["git_log", "Read"]


def test_agents_are_named_by_module_file_or_entry_point(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import dragoman\n"
        "clerk = dragoman.Agent('ollama:qwen3', name='till')\n"
        "def buyer():\n    return dragoman.Agent('ollama:qwen3')\n"
        "number = 7\n",
        encoding="utf-8",
    )

    class Point:
        name = "guard"

        def load(self) -> Any:
            return dragoman.Agent("ollama:qwen3")

    shop = f"{tmp_path}/shop.py"
    found = load_agents([f"{shop}:clerk", f"{shop}:buyer", "guard"], [Point()])
    assert list(found) == ["till", "buyer", "guard"], "its own name, that of the function, that of the entry point"
    for sources, message in (
        ([f"{shop}:number"], "is no agent, but int"),
        ([f"{shop}:clark"], "there is no 'clark'; did you mean 'clerk'"),
        (["gard"], "no installed package has an agent named 'gard'"),
        ([f"{shop}:clerk", f"{shop}.:clerk"], "there is no file"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            load_agents(sources, [Point()])

"""The description of a tool comes from its docstring, in any of the usual styles."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pytest

from dragoman.tools import tool_from_function
from dragoman.tools.introspection import described, read_docstring

GOOGLE = """Find flights
between two cities.

This paragraph is for people.

Args:
    start: where the journey
        begins
    end (str): where it ends: the city
    **filters: not a parameter of its own

Returns:
    A list.
"""
NUMPY = """
Find flights
between two cities.

Parameters
----------
start, end : str
    where the journey
    begins
limit : int, optional
    at most so many

Returns
-------
list
"""
SPHINX = """Find flights
between two cities.

:param start: where the journey
    begins
:param str end: where it ends
:returns: a list
"""
EPYDOC = """Find flights
between two cities.

@param start: where the journey begins
@type start: str
@return: a list
"""


@pytest.mark.parametrize(
    ("text", "members"),
    [
        (GOOGLE, {"start": "where the journey begins", "end": "where it ends: the city"}),
        (NUMPY, {"start": "where the journey begins", "end": "where the journey begins", "limit": "at most so many"}),
        (SPHINX, {"start": "where the journey begins", "end": "where it ends"}),
        (EPYDOC, {"start": "where the journey begins"}),
    ],
    ids=["google", "numpy", "sphinx", "epydoc"],
)
def test_every_style_is_read(text: str, members: dict[str, str]) -> None:
    found = read_docstring(text)
    assert found.summary == "Find flights between two cities."
    assert {name: words for name, words in found.members.items() if name != "filters"} == members


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("One line.", "One line."),
        ("  \n  Two\n  lines.\n\n  And more.", "Two lines."),
        ("Args:\n    x: only parameters", ""),
        (":param: :: :param x", ""),
        ("Weird\n:param\n", "Weird"),
    ],
)
def test_a_docstring_of_any_shape_is_a_description(text: str, summary: str) -> None:
    assert read_docstring(text).summary.startswith(summary)


def test_what_annotated_says_comes_before_the_docstring() -> None:
    def travel(start: Annotated[str, "said here"], end: str, hops: list[str] | None = None) -> None:
        """Travel.

        Args:
            start: not this
            end: the end
            hops: on the way
            nobody: is no parameter
        """

    properties = tool_from_function(travel).parameters["properties"]
    assert {name: schema["description"] for name, schema in properties.items()} == {
        "start": "said here",
        "end": "the end",
        "hops": "on the way",
    }


def test_docstrings_that_python_writes_do_not_count() -> None:
    @dataclasses.dataclass
    class Bare:
        x: int

    assert Bare.__doc__ == "Bare(x: 'int')"
    assert described(Bare).summary == ""
    assert described(print).summary != ""

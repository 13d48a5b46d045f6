"""For every annotation: JSON written from a value fits the schema, and is read back as an equal value."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import itertools
import json
import math
import pathlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dragoman import args
from dragoman.tools import bind, tool_from_function
from dragoman.tools.json_values import json_text, plain


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(enum.Enum):
    POINT = (0, 0)
    LINE = (0, 1)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Size(msgspec.Struct, tag="size"):
    width: int
    unit: Literal["cm", "in"] = "cm"


Name = NewType("Name", str)
Typed = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and values of it."""

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES: list[Typed] = [
    (str, st.text()),
    (int, st.integers()),
    (float, NUMBERS),
    (bool, st.booleans()),
    (None, st.none()),
    (Name, st.text()),
    (bytes, st.binary()),
    (datetime.date, st.dates()),
    (datetime.time, st.times()),
    (datetime.datetime, st.datetimes(timezones=st.sampled_from([None, datetime.UTC]))),
    (datetime.timedelta, st.timedeltas()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (uuid.UUID, st.uuids()),
    (pathlib.PurePosixPath, st.text(st.characters(exclude_characters="\0", codec="utf-8")).map(pathlib.PurePosixPath)),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Shape, st.sampled_from(Shape)),
    (Rights, st.sampled_from([Rights(number) for number in range(8)])),
    (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    (Size, st.builds(Size, st.integers(-(2**63), 2**63 - 1), st.sampled_from(["cm", "in"]))),
    (Annotated[int, "how many"], st.integers()),
]
HASHABLE = [typed for typed in LEAVES if typed[0] is not Size]
NAMES = itertools.count()


def lists(inner: Typed) -> Typed:
    return list[inner[0]], st.lists(inner[1], max_size=4)  # type: ignore[name-defined]


def sequences(inner: Typed) -> Typed:
    return Sequence[inner[0]], st.lists(inner[1], max_size=4)  # type: ignore[name-defined]


def tuples(inner: Typed) -> Typed:
    return tuple[inner[0], ...], st.lists(inner[1], max_size=4).map(tuple)  # type: ignore[name-defined]


def pairs(inner: Typed) -> Typed:
    return tuple[inner[0], int], st.tuples(inner[1], st.integers())  # type: ignore[name-defined]


def mappings(inner: Typed) -> Typed:
    return Mapping[str, inner[0]], st.dictionaries(st.text(), inner[1], max_size=4)  # type: ignore[name-defined]


def numbered(inner: Typed) -> Typed:
    return dict[int, inner[0]], st.dictionaries(st.integers(), inner[1], max_size=4)  # type: ignore[name-defined]


def coloured(inner: Typed) -> Typed:
    return dict[Colour, inner[0]], st.dictionaries(st.sampled_from(Colour), inner[1])  # type: ignore[name-defined]


def optional(inner: Typed) -> Typed:
    return (inner[0] if inner[0] is not None else type(None)) | None, st.none() | inner[1]


def dataclass(inner: Typed) -> Typed:
    fields = [("first", inner[0]), ("second", inner[0] | None if inner[0] is not None else None, None)]
    made = dataclasses.make_dataclass(f"Record{next(NAMES)}", fields)
    return made, st.builds(made, inner[1], st.none() | inner[1])


def typed_dict(inner: Typed) -> Typed:
    made = TypedDict(f"Keys{next(NAMES)}", {"first": inner[0], "odd key": NotRequired[inner[0]]})  # type: ignore[misc]
    return made, st.fixed_dictionaries({"first": inner[1]}, optional={"odd key": inner[1]})


def named_tuple(inner: Typed) -> Typed:
    fields = [("x", inner[0]), ("y", inner[0])]
    made = NamedTuple(f"Point{next(NAMES)}", fields)  # type: ignore[misc]
    return made, st.builds(made, inner[1], inner[1])


WRAPPERS = [
    lists,
    sequences,
    tuples,
    pairs,
    mappings,
    numbered,
    coloured,
    optional,
    dataclass,
    typed_dict,
    named_tuple,
]


@st.composite
def annotations(draw: st.DrawFn) -> Typed:
    """A type of up to four layers."""
    if draw(st.integers(0, 9)) == 0:
        typed = draw(st.sampled_from(HASHABLE))
        return frozenset[typed[0]], st.frozensets(typed[1], max_size=4)
    typed = draw(st.sampled_from(LEAVES))
    for wrap in draw(st.lists(st.sampled_from(WRAPPERS), max_size=3)):
        typed = wrap(typed)
    return typed


def tool_taking(annotation: Any) -> Any:
    def take(value: Any) -> Any:
        return value

    take.__annotations__ = {"value": annotation}
    return tool_from_function(take)


@given(st.data())
def test_what_is_written_fits_the_schema_and_is_read_back(data: st.DataObject) -> None:
    annotation, values = data.draw(annotations(), label="annotation")
    value = data.draw(values, label="value")
    tool = tool_taking(annotation)
    loaded = args.load(f'{{"value": {json_text(value)}}}', tool)
    assert (loaded.errors, loaded.changes, loaded.repairs) == ((), (), ())
    read = bind(tool, loaded.value).named["value"]
    assert read == value
    assert type(read) is type(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.data(), JSON)
def test_no_json_makes_reading_fail_in_any_other_way_than_by_faults(data: st.DataObject, value: Any) -> None:
    from dragoman.errors import InvalidArguments

    annotation, _ = data.draw(annotations())
    try:
        bind(tool_taking(annotation), {"value": value})
    except InvalidArguments as mistake:
        assert all(fault.path.startswith("$") and fault.why for fault in mistake.faults)


@given(JSON)
def test_plain_json_is_written_as_it_is(value: Any) -> None:
    assert plain(value) == value
    assert json.loads(json_text(value)) == value


def test_a_float_takes_whole_numbers_and_stays_a_float() -> None:
    read = bind(tool_taking(float), {"value": 3}).named["value"]
    assert math.isclose(read, 3.0)
    assert type(read) is float

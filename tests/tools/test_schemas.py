"""Schemas from annotations, and annotations that are refused with a next step."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import re
import uuid
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
)

import annotated_types
import msgspec
import pydantic
import pytest
from tests.tables import each_row
from typing_extensions import TypeAliasType

from dragoman import args
from dragoman.errors import InvalidArguments, InvalidTool
from dragoman.tools import bind, tool, tool_from_function

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
Choice = TypeVar("Choice", int, str)
UserId = NewType("UserId", int)


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Corner(enum.Enum):
    ORIGIN = (0, 0)
    UNIT = (1, 1)


class Shouted(str):
    def __new__(cls, text: str) -> Shouted:
        if not text.isupper():
            raise ValueError("not shouted")
        return super().__new__(cls, text)


def schema_of(annotation: Any) -> Any:
    """The schema of a parameter with this annotation."""

    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": annotation}
    return tool_from_function(take).parameters["properties"]["value"]


def read(annotation: Any, value: Any) -> Any:
    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": annotation}
    return bind(tool_from_function(take), {"value": value}).named["value"]


def faults(annotation: Any, value: Any) -> list[str]:
    with pytest.raises(InvalidArguments) as caught:
        read(annotation, value)
    return [str(fault) for fault in caught.value.faults]


STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


@each_row(
    ("annotation", "schema"),
    [
        (str, STRING),
        (int, INTEGER),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, NULL),
        (Any, {}),
        (object, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": INTEGER}),
        (Iterable[int], {"type": "array", "items": INTEGER}),
        (set[str], {"type": "array", "items": STRING, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (tuple[int, str], {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2}),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
        (dict, {"type": "object", "additionalProperties": True}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (
            dict[int, str],
            {"type": "object", "additionalProperties": STRING, "propertyNames": {"pattern": "^-?[0-9]+$"}},
        ),
        (
            dict[Colour, int],
            {"type": "object", "additionalProperties": INTEGER, "propertyNames": {"enum": ["red", "green"]}},
        ),
        (Optional[int], {"anyOf": [INTEGER, NULL]}),  # noqa: UP045
        (int | str, {"anyOf": [INTEGER, STRING]}),
        (Union[int, Any], {}),  # noqa: UP007
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["circle"], {"type": "string", "const": "circle"}),
        (Literal[1, None], {"type": ["integer", "null"], "enum": [1, None]}),
        (Literal[Colour.RED, Colour.GREEN], {"type": "string", "enum": ["red", "green"]}),
        (Colour, {"type": "string", "enum": ["red", "green"]}),
        (Corner, {"type": "string", "enum": ["ORIGIN", "UNIT"]}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (datetime.timedelta, {"type": "string", "format": "duration"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (decimal.Decimal, {"type": "string", "format": "decimal"}),
        (bytes, {"type": "string", "format": "byte", "contentEncoding": "base64"}),
        (UserId, INTEGER),
        (T, {}),
        (Bound, INTEGER),
        (Choice, {"anyOf": [INTEGER, STRING]}),
        (Shouted, STRING),
        (Annotated[str, "the city"], {"type": "string", "description": "the city"}),
        (Annotated[int, annotated_types.Ge(1), annotated_types.Lt(9)], INTEGER | {"minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[int, annotated_types.Interval(gt=0, le=3)], INTEGER | {"exclusiveMinimum": 0, "maximum": 3}),
        (Annotated[int, annotated_types.MultipleOf(5)], INTEGER | {"multipleOf": 5}),
        (Annotated[str, annotated_types.Len(1, 5)], STRING | {"minLength": 1, "maxLength": 5}),
        (Annotated[list[int], annotated_types.MinLen(2)], {"type": "array", "items": INTEGER, "minItems": 2}),
        (Annotated[dict[str, int], annotated_types.MaxLen(2)], schema_of(dict[str, int]) | {"maxProperties": 2}),
        (Annotated[list[int] | None, annotated_types.MaxLen(2)], schema_of(list[int] | None) | {"maxItems": 2}),
        (Annotated[str, re.compile("^a")], STRING | {"pattern": "^a"}),
        (
            Annotated[str, pydantic.Field(description="a word", pattern="^a", max_length=3, examples=["ab"])],
            STRING | {"description": "a word", "pattern": "^a", "maxLength": 3, "examples": ["ab"]},
        ),
        (
            Annotated[int, msgspec.Meta(ge=2, description="two or more")],
            INTEGER | {"minimum": 2, "description": "two or more"},
        ),
    ],
    ids=str,
)
def test_an_annotation_becomes_a_schema(annotation: Any, schema: Any) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int | str, 3, 3),
        (str | int, "3", "3"),
        (float | int, 3, 3),
        (datetime.date | str, "2024-05-01", datetime.date(2024, 5, 1)),
        (datetime.date | str, "soon", "soon"),
        (str | datetime.date, "2024-05-01", "2024-05-01"),
        (collections.deque[int], [1, 2], collections.deque([1, 2])),
        (collections.OrderedDict[str, int], {"a": 1}, collections.OrderedDict(a=1)),
        (Literal[1, True], True, True),
        (Shouted, "HELLO", Shouted("HELLO")),
        (datetime.datetime, "2024-05-01T10:00:00Z", datetime.datetime(2024, 5, 1, 10, tzinfo=datetime.UTC)),
    ],
)
def test_a_value_is_read_as_its_annotation_says(annotation: Any, value: Any, expected: Any) -> None:
    found = read(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (int, True, ["$.value: expected integer, got true"]),
        (int, "3", ["$.value: expected integer, got '3'"]),
        (float, 10**400, ["$.value: a number too large for a float"]),
        (
            list[int],
            [1, "a", None],
            ["$.value[1]: expected integer, got 'a'", "$.value[2]: expected integer, got null"],
        ),
        (dict[str, int], {"a b": "x"}, ["$.value[\"a b\"]: expected integer, got 'x'"]),
        (dict[int, int], {"x": 1}, ["$.value.x: its key is not an integer"]),
        (tuple[int, int], [1], ["$.value: must have 2 items, has 1"]),
        (set[Any], [[1]], ["$.value: its items are not hashable, so they cannot be a set"]),
        (datetime.date, "tomorrow", ["$.value: is not a date (YYYY-MM-DD): 'tomorrow'"]),
        (datetime.date | None, "tomorrow", ["$.value: is not a date (YYYY-MM-DD): 'tomorrow'"]),
        (uuid.UUID, "no", ["$.value: is not a uuid: 'no'"]),
        (decimal.Decimal, "NaN", ["$.value: is not a decimal number: 'NaN'"]),
        (bytes, "%%", ["$.value: is not base64: '%%'"]),
        (Colour, "blue", ["$.value: not one of 'red' or 'green'"]),
        (Literal[1, 2], True, ["$.value: not one of 1 or 2"]),
        (int | list[int], "x", ["$.value: fits none of the 2 forms that it may take"]),
        (int | list[int], ["x"], ["$.value[0]: expected integer, got 'x'"]),
        (Shouted, "hello", ["$.value: is not a Shouted: not shouted"]),
    ],
)
def test_what_cannot_be_read_is_a_fault_with_its_path(annotation: Any, value: Any, expected: list[str]) -> None:
    assert faults(annotation, value) == expected


def test_limits_that_no_schema_can_say_are_checked_when_reading() -> None:
    this_century = Annotated[datetime.date, annotated_types.Ge(datetime.date(2000, 1, 1))]
    assert schema_of(this_century) == {"type": "string", "format": "date"}
    assert read(this_century, "2000-01-01") == datetime.date(2000, 1, 1)
    assert faults(this_century, "1999-12-31") == ["$.value: must be at least 2000-01-01, got '1999-12-31'"]
    assert faults(Annotated[bytes, annotated_types.MaxLen(2)], "AAAA") == [
        "$.value: must have at most 2 items, got 'AAAA'"
    ]
    even = Annotated[int, annotated_types.Predicate(lambda number: number % 2 == 0)]
    assert read(even, 4) == 4
    assert len(faults(even, 3)) == 1


# ---- records -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Place:
    """Somewhere on earth.

    Attributes:
        city: its name
    """

    city: str
    zip_code: Annotated[str, "five digits"] = "00000"
    tags: list[str] = dataclasses.field(default_factory=list, metadata={"description": "free words"})
    seen: bool = dataclasses.field(default=False, init=False)


@dataclasses.dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("must be positive")


class Movie(TypedDict, total=False):
    title: Required[str]
    year: int


class Book(TypedDict):
    title: str
    year: NotRequired[Annotated[int, "of the first edition"]]


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclasses.dataclass
class Tree:
    value: int
    left: Tree | None = None
    right: Tree | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    others: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class DatedBox(Box[datetime.date]):
    label: str = ""


@dataclasses.dataclass
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclasses.dataclass
class Square:
    side: float
    kind: Literal["square"] = "square"


def test_a_dataclass_is_an_object_with_its_fields() -> None:
    assert schema_of(Place) == {
        "type": "object",
        "description": "Somewhere on earth.",
        "properties": {
            "city": {"type": "string", "description": "its name"},
            "zip_code": {"type": "string", "description": "five digits", "default": "00000"},
            "tags": {"type": "array", "items": STRING, "description": "free words", "default": []},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert read(Place, {"city": "Paris", "tags": ["big"]}) == Place("Paris", tags=["big"])
    assert faults(Place, {"town": "Paris"}) == ["$.value: unexpected 'town'", "$.value: missing required 'city'"]
    assert faults(Place, "Paris") == ["$.value: expected object, got 'Paris'"]


def test_what_a_class_refuses_is_a_fault_of_the_arguments() -> None:
    assert faults(list[Positive], [{"number": 0}]) == ["$.value[0]: is no Positive: must be positive"]


@pytest.mark.parametrize(("kind", "optional"), [(Movie, "year"), (Book, "year")])
def test_a_typed_dict_says_which_keys_are_required(kind: Any, optional: str) -> None:
    schema = schema_of(kind)
    assert schema["required"] == ["title"]
    assert list(schema["properties"]) == ["title", optional]
    assert read(kind, {"title": "x"}) == {"title": "x"}


def test_a_named_tuple_is_written_by_name() -> None:
    assert schema_of(Point)["properties"] == {"x": INTEGER, "y": {"type": "integer", "default": 0}}
    assert read(Point, {"x": 1}) == Point(1, 0)


def test_a_type_that_contains_itself_is_a_definition() -> None:
    def grow(tree: Tree) -> Tree:
        return tree

    made = tool_from_function(grow)
    assert made.parameters["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert made.parameters["$defs"]["Tree"]["properties"]["left"]["anyOf"] == [{"$ref": "#/$defs/Tree"}, NULL]
    loaded = args.load({"tree": {"value": 1, "left": {"value": 2, "right": {"value": 3}}}}, made)
    assert loaded.ok
    assert bind(made, loaded.value).named["tree"] == Tree(1, Tree(2, None, Tree(3)))
    assert not args.load({"tree": {"value": 1, "left": {"value": "x"}}}, made).ok


def test_a_deep_tree_that_fits_no_branch_is_refused_in_no_time() -> None:
    @dataclasses.dataclass
    class One:
        inner: One | Two | int

    @dataclasses.dataclass
    class Two:
        inner: One | Two | int

    @tool
    def take(value: One | Two) -> None: ...

    value: Any = "neither"
    for _ in range(60):
        value = {"inner": value}
    with pytest.raises(InvalidArguments):
        bind(take, {"value": value})


def test_a_type_used_twice_is_defined_once_and_a_type_used_once_stands_in_its_place() -> None:
    def travel(start: Place, end: Annotated[Place, "where to"], corner: Point) -> None: ...

    schema = tool_from_function(travel).parameters
    assert list(schema["$defs"]) == ["Place"]
    assert schema["properties"]["end"] == {"$ref": "#/$defs/Place", "description": "where to"}
    assert schema["properties"]["corner"]["type"] == "object"


def test_two_classes_of_one_name_are_two_definitions() -> None:
    def make() -> Any:
        @dataclasses.dataclass
        class Place:
            street: str

        return Place

    other = make()

    def travel(a: Place, b: Place, c: other, d: other) -> None: ...  # type: ignore[valid-type]

    travel.__annotations__ = {"a": Place, "b": Place, "c": other, "d": other}
    made = tool_from_function(travel)
    assert list(made.parameters["$defs"]) == ["Place", "Place_2"]
    bound = bind(made, {"a": {"city": "x"}, "b": {"city": "y"}, "c": {"street": "z"}, "d": {"street": "w"}})
    assert (bound.named["b"], bound.named["d"]) == (Place("y"), other("w"))


def test_generic_classes_are_filled_in() -> None:
    assert schema_of(Box[int])["properties"]["others"] == {"type": "array", "items": INTEGER, "default": []}
    assert read(Box[Box[int]], {"content": {"content": 1}}) == Box(Box(1))
    assert read(DatedBox, {"content": "2024-01-02"}) == DatedBox(datetime.date(2024, 1, 2))
    assert faults(Box[int], {"content": "x"}) == ["$.value.content: expected integer, got 'x'"]


def test_the_classes_of_a_union_are_distinguished_by_their_tag() -> None:
    shapes = Circle | Square
    assert read(shapes, {"kind": "square", "side": 2}) == Square(2.0)
    assert read(shapes, {"radius": 1.5}) == Circle(1.5)
    assert faults(shapes, {"kind": "square", "radius": 2}) == ["$.value.kind: must be 'circle'"]


Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | None")
OldJson = Union[dict[str, "OldJson"], list["OldJson"], str, int, None]  # noqa: UP007


@pytest.mark.parametrize("alias", [Json, OldJson], ids=["type alias", "old alias"])
def test_an_alias_may_name_itself(alias: Any) -> None:
    def take(value: Any) -> Any:
        return value

    take.__annotations__ = {"value": alias}
    made = tool_from_function(take)
    for value, good in [({"a": [1, {"b": None}]}, True), ({"a": [0.5]}, False)]:
        assert (args.validate({"value": value}, made.parameters) == []) is good
    assert bind(made, {"value": {"a": [1, {"b": None}]}})() == {"a": [1, {"b": None}]}


# ---- models of other libraries -------------------------------------------------------------------------------------


class Inner(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0, description="not negative")


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    title: str
    when: datetime.date
    inner: list[Inner] = []


class Item(msgspec.Struct):
    name: str
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    children: list[Item] = []


def test_a_pydantic_model_brings_its_own_schema_and_checks() -> None:
    schema = schema_of(Model)
    assert schema["properties"]["title"] == STRING
    assert schema["properties"]["inner"]["items"]["properties"]["number"]["minimum"] == 0
    value = {"title": "x", "when": "2024-01-02", "inner": [{"number": 3}]}
    assert read(Model, value) == Model(title="x", when=datetime.date(2024, 1, 2), inner=[Inner(number=3)])
    assert faults(Model, {"title": "x", "when": "2024-01-02", "inner": [{"number": -1}]}) == [
        "$.value.inner[0].number: Input should be greater than or equal to 0"
    ]


def test_models_that_share_a_part_share_its_definition() -> None:
    class Left(pydantic.BaseModel):
        inner: Inner

    class Right(pydantic.BaseModel):
        inner: Inner
        more: list[Inner]

    def take(left: Left, right: Right) -> Any:
        return left, right

    take.__annotations__ = {"left": Left, "right": Right}
    made = tool_from_function(take)
    assert list(made.parameters["$defs"]) == ["Inner"]
    left, right = bind(made, {"left": {"inner": {"number": 1}}, "right": {"inner": {"number": 2}, "more": []}})()
    assert (left, right) == (Left(inner=Inner(number=1)), Right(inner=Inner(number=2), more=[]))


def test_a_model_is_known_by_what_it_can_do() -> None:
    class Home:
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:
            return {"title": "Home", "type": "string"}

        @classmethod
        def model_validate(cls, value: Any) -> str:
            if value != "here":
                raise ValueError("not here")
            return "home"

    assert schema_of(Home) == STRING
    assert read(Home, "here") == "home"
    assert faults(Home, "there") == ["$.value: not here"]


def test_a_struct_is_read_by_msgspec() -> None:
    def take(item: Item) -> None: ...

    made = tool_from_function(take)
    assert made.parameters["$defs"]["Item"]["properties"]["count"]["minimum"] == 1
    assert bind(made, {"item": {"name": "a", "children": [{"name": "b"}]}}).named["item"] == Item(
        "a", children=[Item("b")]
    )
    with pytest.raises(InvalidArguments) as caught:
        bind(made, {"item": {"name": "a", "children": [{"name": 1}]}})
    assert [fault.path for fault in caught.value.faults] == ["$.item.children[0].name"]


# ---- signatures ----------------------------------------------------------------------------------------------------


def test_defaults_make_a_parameter_optional_and_are_shown_where_json_holds_them() -> None:
    marker = object()

    def take(a: int, b: Colour = Colour.RED, c: str = None, d: Any = marker, e=5) -> None: ...  # type: ignore[no-untyped-def,assignment]  # noqa: RUF013

    assert tool_from_function(take).parameters == {
        "type": "object",
        "properties": {
            "a": INTEGER,
            "b": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "c": {"anyOf": [STRING, NULL], "default": None},
            "d": {},
            "e": {"default": 5},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert bind(take, {"a": 1, "c": None}).named == {"a": 1, "c": None}


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def now() -> str:
        return "now"

    assert tool_from_function(now).parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert bind(now, None)() == "now"


def test_keywords_without_names_are_additional_properties() -> None:
    class Filters(TypedDict, total=False):
        colour: Colour

    @tool
    def search(query: str, **filters: int) -> Any:
        return query, filters

    @tool
    def find(query: str, **filters: Unpack[Filters]) -> Any:
        return query, filters

    assert search.__dragoman_tool__.parameters["additionalProperties"] == INTEGER
    assert bind(search, {"query": "x", "size": 3})() == ("x", {"size": 3})
    assert list(find.__dragoman_tool__.parameters["properties"]) == ["query", "colour"]
    assert bind(find, {"query": "x", "colour": "red"})() == ("x", {"colour": Colour.RED})


def test_positional_only_parameters_are_passed_by_position() -> None:
    def power(base: int, exponent: int = 2, /, *, modulo: int | None = None) -> int:
        return pow(base, exponent, modulo)

    assert bind(power, {"base": 3})() == 9
    assert bind(power, {"base": 3, "exponent": 3, "modulo": 5})() == 2


def test_fields_of_pydantic_may_stand_as_defaults() -> None:
    def take(a: int = pydantic.Field(ge=1, description="one"), b: int = pydantic.Field(default=7)) -> int:
        return a + b

    schema = tool_from_function(take).parameters
    assert schema["properties"] == {
        "a": {"type": "integer", "minimum": 1, "description": "one"},
        "b": {"type": "integer", "default": 7},
    }
    assert schema["required"] == ["a"]
    assert bind(take, {"a": 1})() == 8


def test_the_default_of_a_field_in_an_annotation_is_the_default_of_the_parameter() -> None:
    def take(
        a: Annotated[int, pydantic.Field(ge=1)], b: Annotated[list[int], pydantic.Field(default_factory=lambda: [7])]
    ) -> list[int]:
        return [a, *b]

    schema = tool_from_function(take).parameters
    assert schema["required"] == ["a"] and schema["properties"]["b"]["default"] == [7]
    assert bind(take, {"a": 1})() == [1, 7]
    assert bind(take, {"a": 1, "b": [2]})() == [1, 2]


@pytest.mark.parametrize("default", [dataclasses.field(), msgspec.field()], ids=["dataclasses", "msgspec"])
def test_a_field_of_a_class_is_no_default_of_a_parameter(default: Any) -> None:
    """The function would receive the description of the field instead of a value."""

    def take(a: list[int] = default) -> list[int]:
        return a

    with pytest.raises(InvalidTool, match=r"field\(\.\.\.\), which has a meaning only in a class"):
        tool_from_function(take)


def test_the_signature_inside_another_decorator_counts() -> None:
    def traced(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*positional: Any, **named: Any) -> Any:
            return "traced", function(*positional, **named)

        return inner

    @tool
    @traced
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add.__dragoman_tool__.parameters["required"] == ["a"]  # type: ignore[attr-defined]
    assert bind(add, {"a": 1})() == ("traced", 2)


def refused(function: Callable[..., Any], **options: Any) -> tuple[str, str]:
    with pytest.raises(InvalidTool) as caught:
        tool(**options)(function)
    return str(caught.value), caught.value.next_step


def test_what_cannot_be_expressed_is_refused_at_once_with_place_and_next_step() -> None:
    def call_back(then: Callable[[int], int]) -> None: ...
    def stream(numbers: Generator[int, None, None]) -> None: ...
    def variadic(*numbers: int) -> None: ...
    def keyed(table: dict[tuple[int, int], str]) -> None: ...
    def unknown(place: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def checked(number: Annotated[int, pydantic.AfterValidator(abs)]) -> None: ...
    def nested(boxes: list[Box[complex]]) -> None: ...

    message, hint = refused(call_back)
    assert message.startswith("parameter 'then' of tool 'call_back'")
    assert "schema" in hint
    assert "'numbers' of tool 'stream'" in refused(stream)[0]
    assert refused(variadic) == (
        "parameter 'numbers' of tool 'variadic': *numbers has no parameter names that a model could use",
        "use a list instead: numbers: list[...]",
    )
    assert "cannot be the key of a JSON object" in refused(keyed)[0]
    assert "'Nowhere'" in refused(unknown)[0]
    assert "AfterValidator" in refused(checked)[0]
    assert refused(nested)[0] == (
        "parameter 'boxes' of tool 'nested', field 'content' of Box: complex cannot be expressed in JSON Schema"
    )


def test_local_names_are_found_in_annotations_that_are_text() -> None:
    @dataclasses.dataclass
    class Local:
        other: Local | None = None

    class Holder:
        class Deep(enum.Enum):
            YES = "yes"

        @staticmethod
        @tool
        def take(local: Local, deep: Deep) -> Any:
            return local, deep

    bound = bind(Holder.take, {"local": {"other": {}}, "deep": "yes"})
    assert bound() == (Local(Local()), Holder.Deep.YES)


def test_a_tool_may_change_its_arguments_and_the_call_stays_as_it_was() -> None:
    arguments: dict[str, Any] = {"items": [{"a": [1]}], "table": {"x": {}}}

    def spoil(items: list[Any], table: dict[str, Any]) -> None:
        items[0]["a"].append(2)
        table["x"]["y"] = 1

    bind(spoil, arguments)()
    assert arguments == {"items": [{"a": [1]}], "table": {"x": {}}}

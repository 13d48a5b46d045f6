"""Forms: the schema of an annotation, and the conversion of JSON values to Python values."""

from __future__ import annotations

import binascii
import collections
import collections.abc as abc
import dataclasses
import enum
import inspect
import json
import typing
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from dragoman.args.loader import join_words, show
from dragoman.jsonschema.keywords import KIND_OF_TYPE, child_path
from dragoman.tools.introspection import described, hints_of, signature_of
from dragoman.tools.json_values import TEXT_CLASSES, constant_of, exactly, is_path
from dragoman.types import Fault, JsonObject

if TYPE_CHECKING:
    from dragoman.tools.annotations import Builder


# --------------------------------------------------------------------------------------------------------------------
# A form represents one annotation: the schema for the model, and the reader that converts a value to Python.
#
# Both are created together, so that the reader accepts exactly what the schema accepts.

MISSING: Any = object()
"""There is no value. (None is one.)"""


class ReadState:
    """The state while the arguments of one call are read: the faults so far, and cached results."""

    __slots__ = ("faults", "known")

    def __init__(self, known: dict[tuple[int, int, str], tuple[Any, list[Fault]]] | None = None) -> None:
        self.faults: list[Fault] = []
        self.known: dict[tuple[int, int, str], tuple[Any, list[Fault]]] = {} if known is None else known
        """Results of unions, by union, value and place: without it, nested unions would take exponential time."""

    def fault(self, path: str, why: str) -> None:
        self.faults.append(Fault(path, why))

    def expected(self, what: str, value: Any, path: str) -> None:
        self.fault(path, f"expected {what}, got {show(value)}")


Reader = Callable[[Any, str, ReadState], Any]
"""Takes a JSON value, its path and the state; returns the Python value, or adds a fault and returns None."""


class Form(Struct, frozen=True):
    """The schema of an annotation, and the reader of the values that fit it."""

    schema: JsonObject
    read: Reader


class Member(Struct, frozen=True):
    """One named part of an object: a parameter, a field, a key."""

    key: str
    form: Form
    required: bool = True


def copy_json(value: Any, path: str = "$", reading: ReadState | None = None) -> Any:
    """Copy JSON to new containers: a tool may change its arguments, and the conversation must not change."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


def anything() -> Form:
    """Return the form of a value without a type."""
    return Form({}, copy_json)


def object_schema(members: Sequence[Member], extra: Form | None = None) -> JsonObject:
    """Return the schema of an object with these members; `extra` is the form of all others, None if there are none."""
    schema: JsonObject = {"type": "object", "properties": {member.key: member.form.schema for member in members}}
    required = [member.key for member in members if member.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False if extra is None else extra.schema or True
    return schema


def read_members(
    members: Mapping[str, Member], extra: Form | None, value: Any, path: str, reading: ReadState
) -> dict[str, Any]:
    """Read the members of an object; record every fault, not only the first."""
    if not isinstance(value, dict):
        reading.expected("object", value, path)
        return {}
    found: dict[str, Any] = {}
    for key, item in value.items():
        member = members.get(key)
        form = extra if member is None else member.form
        if form is None:
            reading.fault(path, f"unexpected {show(key)}")
        else:
            found[key] = form.read(item, child_path(path, key), reading)
    for key, member in members.items():
        if member.required and key not in value:
            reading.fault(path, f"missing required {show(key)}")
    return found


# --------------------------------------------------------------------------------------------------------------------
# The forms of single values: numbers, strings, times, identifiers, and choices among constants.

_CANNOT_READ = (ValueError, TypeError, OverflowError, InvalidOperation, binascii.Error)


def scalar_form(kind: type) -> Form | None:
    """Return the form of a class whose values are one string, number, boolean or null in JSON."""
    if kind in _PLAIN:
        return Form({"type": KIND_OF_TYPE[kind]}, _PLAIN[kind])
    if kind in _WRITTEN:
        schema, convert, what = _WRITTEN[kind]
        return Form({"type": "string", **schema}, _text_reader(convert, what))
    if issubclass(kind, enum.Flag):
        return _flag_form(kind)
    if issubclass(kind, enum.Enum):
        return literal_form(kind) if len(kind) else None
    name = TEXT_CLASSES.get((kind.__module__, kind.__name__)) or ("path" if is_path(kind) else None)
    if name is not None:
        return Form({"type": "string", "format": name}, _text_reader(kind, f"a {name}"))
    base = next((base for base in (str, int, float) if issubclass(kind, base)), None)
    return None if base is None else Form({"type": KIND_OF_TYPE[base]}, _derived_reader(kind, _PLAIN[base]))


def literal_form(values: Iterable[Any]) -> Form:
    """The form of a choice among constants."""
    choices = [(constant_of(value), value) for value in values]
    constants = [constant for constant, _ in choices]
    kinds = list(dict.fromkeys(KIND_OF_TYPE[type(constant)] for constant in constants))
    schema: JsonObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if len(constants) == 1:
        schema["const"] = constants[0]
    else:
        schema["enum"] = constants
    return Form(schema, _choice_reader(choices))


def _plain_reader(kind: type) -> Reader:
    name = KIND_OF_TYPE[kind]

    def read(value: Any, path: str, reading: ReadState) -> Any:
        return value if type(value) is kind else reading.expected(name, value, path)

    return read


def _read_number(value: Any, path: str, reading: ReadState) -> Any:
    if type(value) is float:
        return value
    if type(value) is not int:
        return reading.expected("number", value, path)
    try:
        return float(value)
    except OverflowError:
        return reading.fault(path, "a number too large for a float")


_PLAIN: dict[type, Reader] = {
    **{kind: _plain_reader(kind) for kind in (str, bool, int, type(None))},
    float: _read_number,
}


def _text_reader(convert: Callable[[str], Any], what: str) -> Reader:
    """Return a reader that parses a string to another type."""

    def read(value: Any, path: str, reading: ReadState) -> Any:
        if type(value) is not str:
            return reading.expected(f"string ({what})", value, path)
        try:
            return convert(value)
        except _CANNOT_READ:
            return reading.fault(path, f"is not {what}: {show(value)}")

    return read


def _read_bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _read_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


_BASE64 = {"format": "byte", "contentEncoding": "base64"}
_WRITTEN: dict[type, tuple[JsonObject, Callable[[str], Any], str]] = {
    datetime: ({"format": "date-time"}, datetime.fromisoformat, "a date and time (ISO 8601)"),
    date: ({"format": "date"}, date.fromisoformat, "a date (YYYY-MM-DD)"),
    time: ({"format": "time"}, time.fromisoformat, "a time of day (ISO 8601)"),
    timedelta: (
        {"format": "duration"},
        lambda text: msgspec.convert(text, timedelta),
        "a duration (ISO 8601, such as PT1H30M)",
    ),
    Decimal: ({"format": "decimal"}, _read_decimal, "a decimal number"),
    bytes: (_BASE64, _read_bytes, "base64"),
    bytearray: (_BASE64, lambda text: bytearray(_read_bytes(text)), "base64"),
}


def _derived_reader(kind: type, read_base: Reader) -> Reader:
    """Return the reader of a user-defined subclass of a string or number type."""

    def read(value: Any, path: str, reading: ReadState) -> Any:
        before = len(reading.faults)
        found = read_base(value, path, reading)
        if len(reading.faults) > before:
            return None
        try:
            return kind(found)
        except Exception as problem:  # The class is user code; any exception is a fault of the value.
            return reading.fault(path, f"is not a {kind.__name__}: {problem}")

    return read


# ---- choices -------------------------------------------------------------------------------------------------------


def _flag_form(kind: type[enum.Flag]) -> Form:
    """Return the form of flags: a list of names, since a number has no meaning for a model."""
    names = [member.name for member in kind if member.name is not None]

    def read(value: Any, path: str, reading: ReadState) -> Any:
        if not isinstance(value, list):
            return reading.expected("array", value, path)
        found = kind(0)
        for position, name in enumerate(value):
            if name in names:
                found |= kind[name]
            else:
                reading.fault(f"{path}[{position}]", f"not one of {join_words(names)}")
        return found

    return Form({"type": "array", "items": {"type": "string", "enum": names}, "uniqueItems": True}, read)


def _choice_reader(choices: list[tuple[Any, Any]]) -> Reader:
    # True equals 1 in Python but not in JSON.
    by_constant = {(isinstance(constant, bool), constant): value for constant, value in choices}
    shown = [show(constant) for constant, _ in choices]
    why = f"not one of {join_words(shown)}" if len(shown) > 1 else f"must be {shown[0]}"

    def read(value: Any, path: str, reading: ReadState) -> Any:
        key = (isinstance(value, bool), value)
        if isinstance(value, dict | list) or key not in by_constant:
            return reading.fault(path, why)
        return by_constant[key]

    return read


# --------------------------------------------------------------------------------------------------------------------
# The forms of containers (lists, tuples, sets, mappings) and of unions.

_ARRAYS: dict[type, Callable[[list[Any]], Any]] = {
    list: list,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    collections.deque: collections.deque,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_MAPPINGS: dict[type, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
    collections.OrderedDict: collections.OrderedDict,
}


def container_form(
    builder: Builder, kind: type, arguments: tuple[Any, ...], annotation: Any, place: str
) -> Form | None:
    """Return the form of a container class; None for any other class."""
    if kind is tuple and arguments[1:] != (Ellipsis,) and (arguments or isinstance(annotation, GenericAlias)):
        return _fixed_tuple_form([builder.form(each, place) for each in arguments])
    if kind in _MAPPINGS:
        return _mapping_form(builder, kind, arguments, place)
    make = _ARRAYS.get(kind)
    if make is None:
        return None
    items = builder.form(arguments[0], place) if arguments else anything()
    schema: JsonObject = {"type": "array"}
    if items.schema:
        schema["items"] = items.schema
    if make in (set, frozenset):
        schema["uniqueItems"] = True
    return Form(schema, _array_reader(items, make))


def _array_reader(items: Form, make: Callable[[list[Any]], Any]) -> Reader:
    def read(value: Any, path: str, reading: ReadState) -> Any:
        if not isinstance(value, list):
            return reading.expected("array", value, path)
        before = len(reading.faults)
        found = [items.read(item, child_path(path, position), reading) for position, item in enumerate(value)]
        if len(reading.faults) > before:
            return None
        try:
            return make(found)
        except TypeError:  # For example, a set of lists.
            return reading.fault(path, "its items are not hashable, so they cannot be a set")

    return read


def _fixed_tuple_form(forms: list[Form]) -> Form:
    """Return the form of a tuple with a form for each position; `tuple[()]` has none."""
    schema: JsonObject = {"type": "array", "minItems": len(forms), "maxItems": len(forms)}
    if forms:
        schema["prefixItems"] = [form.schema for form in forms]

    def read(value: Any, path: str, reading: ReadState) -> Any:
        if not isinstance(value, list):
            return reading.expected("array", value, path)
        if len(value) != len(forms):
            return reading.fault(path, f"must have {len(forms)} items, has {len(value)}")
        pairs = enumerate(zip(forms, value, strict=True))
        return tuple(form.read(item, child_path(path, position), reading) for position, (form, item) in pairs)

    return Form(schema, read)


# ---- mappings ------------------------------------------------------------------------------------------------------


def _mapping_form(builder: Builder, kind: type, arguments: tuple[Any, ...], place: str) -> Form:
    keys = _key_form(builder, arguments[0], place) if arguments else builder.form(str, place)
    values = builder.form(arguments[1], place) if len(arguments) > 1 else anything()
    schema: JsonObject = {"type": "object", "additionalProperties": values.schema or True}
    names = {key: value for key, value in keys.schema.items() if key != "type"}
    if names:
        schema["propertyNames"] = names
    make = _MAPPINGS[kind]

    def read(value: Any, path: str, reading: ReadState) -> Any:
        if not isinstance(value, dict):
            return reading.expected("object", value, path)
        found = {}
        for key, item in value.items():
            inside = child_path(path, key)
            before = len(reading.faults)
            name = keys.read(key, inside, reading)
            content = values.read(item, inside, reading)
            if len(reading.faults) == before:
                found[name] = content
        return make(found)

    return Form(schema, read)


def _key_form(builder: Builder, annotation: Any, place: str) -> Form:
    """Return the form of keys. JSON keys are strings, so the type must be a string in JSON, or an integer."""
    if annotation is int:
        return Form({"type": "string", "pattern": "^-?[0-9]+$"}, _read_integer_key)
    form = builder.form(annotation, place)
    if form.schema.get("type") != "string" and form.schema:
        builder.refuse(
            annotation,
            place,
            "cannot be the key of a JSON object",
            "use str, int, an enum or a Literal of strings as keys, or a list of pairs",
        )
    return form


def _read_integer_key(value: Any, path: str, reading: ReadState) -> Any:
    try:
        return int(value)
    except ValueError:
        return reading.fault(path, "its key is not an integer")


# ---- unions --------------------------------------------------------------------------------------------------------


def union_form(builder: Builder, arguments: Sequence[Any], place: str) -> Form:
    """Return the form of a union: the first branch, in the order of the annotation, that can read the value."""
    forms = [builder.form(each, place) for each in arguments]
    schemas: list[JsonObject] = []
    for form in forms:
        if form.schema not in schemas:
            schemas.append(form.schema)
    schema = {"anyOf": schemas} if len(schemas) > 1 and {} not in schemas else {} if {} in schemas else schemas[0]
    # An integer stays an integer if both int and float are allowed.
    forms.sort(key=lambda form: form.schema.get("type") == "number")
    return Form(schema, _union_reader(forms))


def _union_reader(forms: list[Form]) -> Reader:
    identity = id(forms)

    def read(value: Any, path: str, reading: ReadState) -> Any:
        key = (identity, id(value), path)
        known = reading.known.get(key)
        if known is None:
            known = reading.known[key] = _read_first(forms, value, path, reading)
        reading.faults.extend(known[1])
        return known[0]

    return read


def _read_first(forms: list[Form], value: Any, path: str, reading: ReadState) -> tuple[Any, list[Fault]]:
    refusals: list[list[Fault]] = []
    for form in forms:
        attempt = ReadState(reading.known)
        found = form.read(value, path, attempt)
        if not attempt.faults:
            return found, []
        if form.schema.get("type") != "null":
            refusals.append(attempt.faults)
    if len(refusals) == 1:
        return None, refusals[0]
    # A branch that fails at a deeper place is the one that was meant.
    for faults in refusals:
        if all(fault.path != path for fault in faults):
            return None, faults
    return None, [Fault(path, f"fits none of the {len(forms)} forms that it may take")]


# --------------------------------------------------------------------------------------------------------------------
# The forms of classes with named members: dataclasses, TypedDicts and NamedTuples.

_Build = Callable[["Builder", Any, Mapping[Any, Any], str], Form]


def builder_of(kind: type) -> _Build | None:
    """Return the builder of the form of such a class; None for a class without named members."""
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return _typed_dict
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple
    return _dataclass if dataclasses.is_dataclass(kind) else None


def member_of(key: str, form: Form, default: Any, description: str | None) -> Member:
    """Return a member with description and default in its schema; those of the form itself take precedence."""
    schema = dict(form.schema)
    if description:
        schema.setdefault("description", description)
    required = default is MISSING
    if not required:
        written = exactly(default, MISSING)
        if written is not MISSING:
            schema.setdefault("default", written)
    return Member(key, Form(schema, form.read), required)


def _record_form(kind: Any, members: list[Member], make: Callable[..., Any]) -> Form:
    by_key = {member.key: member for member in members}
    schema = object_schema(members)
    summary = described(kind).summary
    if summary:
        schema["description"] = summary

    def read(value: Any, path: str, reading: ReadState) -> Any:
        before = len(reading.faults)
        found = read_members(by_key, None, value, path, reading)
        if len(reading.faults) > before:
            return None
        try:
            return make(**found)
        except Exception as problem:  # A class may validate its members; an exception is a fault of the arguments.
            return reading.fault(path, f"is no {kind.__name__}: {problem}")

    return Form(schema, read)


def _dataclass(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> Form:
    hints = hints_of(kind, builder.names, place)
    words = described(kind).members
    fields = kind.__dataclass_fields__
    members = []
    for name, parameter in signature_of(kind).parameters.items():
        field = fields.get(name)
        inside = f"{place}, field {name!r} of {kind.__name__}"
        form = builder.form(hints.get(name, Any), inside, variables)
        description = (field.metadata.get("description") if field is not None else None) or words.get(name)
        member = member_of(name, form, _default_of(field, parameter), description)
        members.append(member)
    return _record_form(kind, members, kind)


def _default_of(field: Any, parameter: inspect.Parameter) -> Any:
    if field is not None and field.default_factory is not dataclasses.MISSING:
        try:
            return field.default_factory()
        except Exception:  # Only for the schema: the class calls the factory again for each instance.
            return object()
    return MISSING if parameter.default is inspect.Parameter.empty else parameter.default


def _named_tuple(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> Form:
    # By name and not by position, because a model writes names.
    hints = hints_of(kind, builder.names, place)
    words = described(kind).members
    members = []
    for name in kind._fields:
        form = builder.form(hints.get(name, Any), f"{place}, field {name!r} of {kind.__name__}", variables)
        members.append(member_of(name, form, kind._field_defaults.get(name, MISSING), words.get(name)))
    return _record_form(kind, members, kind)


def _typed_dict(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> Form:
    return _record_form(kind, typed_dict_members(builder, kind, variables, place), dict)


def typed_dict_members(builder: Builder, kind: Any, variables: Mapping[Any, Any], place: str) -> list[Member]:
    """Return the keys of a TypedDict."""
    words = described(kind).members
    members = []
    for key, annotation in hints_of(kind, builder.names, place).items():
        form = builder.form(annotation, f"{place}, key {key!r} of {kind.__name__}", variables)
        member = member_of(key, form, MISSING, words.get(key))
        members.append(Member(key, member.form, _is_required(kind, key, annotation)))
    return members


def _is_required(kind: Any, key: str, annotation: Any) -> bool:
    # With postponed annotations the class has not evaluated the qualifiers, so they are searched for first.
    while True:
        origin = typing.get_origin(annotation)
        name = getattr(origin, "_name", None)
        if name in ("Required", "NotRequired"):
            return bool(name == "Required")
        if name != "ReadOnly" and origin is not typing.Annotated:
            return bool(key in kind.__required_keys__)
        annotation = typing.get_args(annotation)[0]


# --------------------------------------------------------------------------------------------------------------------
# The forms of models that write their own schema and validate their own values: pydantic, msgspec and attrs.
#
# Pydantic models are recognised by their methods; pydantic is never imported.

_REF = "#/$defs/"


def is_model(kind: type) -> bool:
    """Whether a class has the interface of a pydantic model."""
    return callable(getattr(kind, "model_json_schema", None)) and callable(getattr(kind, "model_validate", None))


def model_form(builder: Builder, annotation: Any, place: str) -> Form:
    """Return the form of a pydantic model; the model itself validates the values."""
    model = annotation
    try:
        schema = model.model_json_schema()
    except Exception as problem:  # Any exception of the library is a fault of this annotation.
        builder.refuse(annotation, place, f"gives no schema ({problem})", "change the model, or the annotation")
    schema = _adopt(builder, schema)

    def read(value: Any, path: str, reading: ReadState) -> Any:
        try:
            # As JSON if possible: a strict model accepts a date from JSON text, but not from a Python string.
            validate_json = getattr(model, "model_validate_json", None)
            return model.model_validate(value) if validate_json is None else validate_json(json.dumps(value))
        except Exception as problem:
            for place, why in _faults_of(problem):
                inside = path
                for step in place:
                    inside = child_path(inside, step)
                reading.fault(inside, why)
            return None

    return Form(schema, read)


def _faults_of(problem: Exception) -> list[tuple[tuple[str | int, ...], str]]:
    """Return the paths and messages of a pydantic error; any other exception is about the whole value."""
    errors = getattr(problem, "errors", None)
    found = errors() if callable(errors) else None
    if not isinstance(found, list) or not found:
        return [((), str(problem))]
    return [
        (tuple(step if isinstance(step, int) else str(step) for step in each.get("loc", ())), str(each.get("msg", "")))
        for each in found
    ]


def struct_form(builder: Builder, annotation: Any, place: str) -> Form:
    """Return the form of a class that msgspec supports: its own Structs, and attrs classes."""
    try:
        (schema,), definitions = msgspec.json.schema_components([annotation], ref_template=_REF + "{name}")
    except Exception as problem:
        builder.refuse(annotation, place, f"gives no schema ({problem})", "change the class, or the annotation")
    schema = _adopt(builder, {**schema, "$defs": definitions})

    def read(value: Any, path: str, reading: ReadState) -> Any:
        try:
            return msgspec.convert(value, annotation)
        except msgspec.ValidationError as problem:
            why, _, inside = str(problem).partition(" - at `")
            return reading.fault(path + inside.rstrip("`").removeprefix("$"), why[:1].lower() + why[1:])

    return Form(schema, read)


def _adopt(builder: Builder, schema: JsonObject) -> JsonObject:
    """Return a schema of another library, with its definitions moved to ours and without titles."""
    definitions = schema.get("$defs", {})
    names: dict[str, str] = {}
    for name, definition in definitions.items():
        plain = _rewrite(definition, {})
        names[name] = name
        # The same class in two models is one definition; another class of the same name is another.
        if name in builder.definitions and builder.definitions[name] != plain:
            names[name] = builder.free_name(name)
        builder.definitions[names[name]] = plain
    if any(old != new for old, new in names.items()):
        for new in names.values():
            builder.definitions[new] = _rewrite(builder.definitions[new], names)
    found = _rewrite({key: value for key, value in schema.items() if key != "$defs"}, names)
    return typing.cast(JsonObject, found)


def _rewrite(node: Any, names: dict[str, str], *, in_names: bool = False) -> Any:
    """Return a copy with renamed references. `in_names`: the keys are names of members and not keywords."""
    if isinstance(node, list):
        return [_rewrite(each, names) for each in node]
    if not isinstance(node, dict):
        return node
    written = {}
    for key, value in node.items():
        if key == "$ref" and isinstance(value, str) and value.startswith(_REF):
            name = value.removeprefix(_REF)
            written[key] = _REF + names.get(name, name)
        elif key == "title" and isinstance(value, str) and not in_names:
            continue
        else:
            written[key] = _rewrite(value, names, in_names=key in ("properties", "patternProperties") and not in_names)
    return written

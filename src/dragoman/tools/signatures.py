"""A function's parameters: what the model may fill, what the caller fills, and how both reach the function."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.errors import InvalidTool
from dragoman.tools.building import Builder
from dragoman.tools.context import ToolContext
from dragoman.tools.docstrings import described
from dragoman.tools.forms import MISSING, Form, Member, Reading, anything, object_schema, read_members
from dragoman.tools.hints import closure_of, globals_of, resolve, signature_of
from dragoman.tools.notes import annotate
from dragoman.tools.records import member_of, typed_dict_members
from dragoman.types import JsonObject

Fill = Callable[[], Any]
_Kind = inspect.Parameter


class Signature(Struct, frozen=True):
    """The parameters of one function, ready to be filled from JSON."""

    members: dict[str, Member]
    extra: Form | None
    """The form of arguments without a name of their own (`**kwargs`)."""
    positional: tuple[str, ...]
    """Parameters that cannot be given by name, in order."""
    defaults: dict[str, Fill]
    """What to pass where the model gave nothing and Python would not find the default by itself."""
    context_parameter: str | None
    schema: JsonObject

    def fill(self, arguments: Any, context: Any, reading: Reading) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments for the function."""
        named = read_members(self.members, self.extra, arguments, "$", reading)
        if reading.faults:
            return (), {}
        for name, make in self.defaults.items():
            if name not in named:
                named[name] = make()
        if self.context_parameter is not None:
            named[self.context_parameter] = context_or_empty(context)
        return tuple(named.pop(name) for name in self.positional if name in named), named


class _Reader:
    """One look at a function; `names` are those that its annotations may use beside the module's own."""

    def __init__(self, function: Callable[..., Any], tool: str, context: str | None, names: Mapping[str, Any]) -> None:
        self._function = function
        self._tool = tool
        self._wanted_context = context
        self._module = globals_of(function)
        self._names = {**names, **closure_of(function)}
        self._builder = Builder(self._module, self._names)
        self._words = described(function).members
        self._members: list[Member] = []
        self._defaults: dict[str, Fill] = {}
        self._positional: list[str] = []
        self._extra: Form | None = None
        self._context: str | None = None

    def read(self, *, bound: bool) -> Signature:
        """Every parameter in turn; `bound` leaves out the first one, which is the object of a method."""
        parameters = list(signature_of(self._function).parameters.values())[1 if bound else 0 :]
        fixed = self._function.keywords if isinstance(self._function, functools.partial) else {}
        for parameter in parameters:
            if parameter.name not in fixed:
                self._look_at(parameter)
        if self._wanted_context is not None and self._context is None:
            raise InvalidTool(
                f"tool {self._tool!r} has no parameter {self._wanted_context!r} for the context",
                hint="name one of its parameters with context=, or annotate one with dragoman.tools.Context",
            )
        schema = self._builder.finish(object_schema(self._members, self._extra))
        members = {member.key: member for member in self._members}
        return Signature(members, self._extra, tuple(self._positional), self._defaults, self._context, schema)

    def _look_at(self, parameter: _Kind) -> None:
        place = f"parameter {parameter.name!r} of tool {self._tool!r}"
        if parameter.kind is _Kind.VAR_POSITIONAL:
            raise InvalidTool(
                f"{place}: *{parameter.name} has no names that a model could fill",
                hint=f"take a list instead: {parameter.name}: list[...]",
            )
        if parameter.kind is _Kind.POSITIONAL_ONLY:
            self._positional.append(parameter.name)
        if parameter.name == self._wanted_context:
            self._take_context(parameter.name, place)
            return
        annotation = resolve(parameter.annotation, self._module, self._names, place)
        if is_context(annotation):
            self._take_context(parameter.name, place)
        elif parameter.kind is _Kind.VAR_KEYWORD:
            self._take_extra(annotation, place)
        else:
            self._take(parameter, annotation, place)

    def _take_context(self, name: str, place: str) -> None:
        if self._context is not None:
            raise InvalidTool(f"{place}: {self._context!r} takes the context already", hint="keep one of the two")
        self._context = name

    def _take_extra(self, annotation: Any, place: str) -> None:
        origin = typing.get_origin(annotation)
        if getattr(origin, "_name", None) == "Unpack" or origin is typing.Unpack:
            (keys,) = typing.get_args(annotation)
            self._members.extend(typed_dict_members(self._builder, keys, {}, place))
        else:
            self._extra = self._builder.form(annotation, place)

    def _take(self, parameter: _Kind, annotation: Any, place: str) -> None:
        form = anything() if annotation is Any else self._builder.form(annotation, place)
        default = MISSING if parameter.default is _Kind.empty else parameter.default
        if is_field(default):
            form = annotate(form, [default])
            fill = field_default(default)
            default = MISSING if fill is None else fill()
            if fill is not None:
                self._defaults[parameter.name] = fill
        elif default is not MISSING and parameter.kind is _Kind.POSITIONAL_ONLY:
            self._defaults[parameter.name] = lambda: parameter.default
        if default is None:
            form = or_null(form)
        self._members.append(member_of(parameter.name, form, default, self._words.get(parameter.name)))


def read_signature(
    function: Callable[..., Any],
    tool: str,
    *,
    context: str | None = None,
    names: Mapping[str, Any] | None = None,
    bound: bool = False,
) -> Signature:
    """The parameters of a function; InvalidTool says which of them a model could not fill, and why."""
    return _Reader(function, tool, context, names or {}).read(bound=bound)


def context_or_empty(context: Any) -> Any:
    """The context of the call; where the caller gave none, one that says nothing."""
    return ToolContext() if context is None else context


def is_context(annotation: Any) -> bool:
    """Whether a parameter asks for the context of the call: `Context`, or `Context | None`."""
    if isinstance(annotation, type):
        return issubclass(annotation, ToolContext)
    return any(is_context(each) for each in typing.get_args(annotation) if isinstance(each, type))


def or_null(form: Form) -> Form:
    """The form with null allowed: `city: str = None` is written often, and its default is no text."""
    schema, read_value = form.schema, form.read
    if not schema or _takes_null(schema):
        return form

    def read(value: Any, path: str, reading: Reading) -> Any:
        return None if value is None else read_value(value, path, reading)

    inner = {key: value for key, value in schema.items() if key != "description"}
    words = {"description": schema["description"]} if "description" in schema else {}
    return Form({"anyOf": [inner, {"type": "null"}], **words}, read)


def _takes_null(schema: JsonObject) -> bool:
    kinds = schema.get("type")
    named = kinds if isinstance(kinds, list) else [kinds]
    return "null" in named or any(_takes_null(each) for each in schema.get("anyOf", ()))


def is_field(default: Any) -> bool:
    """Whether a default is pydantic's `Field(...)`, which describes the parameter and holds the real default."""
    return type(default).__name__ == "FieldInfo" and hasattr(default, "default_factory")


def field_default(info: Any) -> Fill | None:
    """What gives the default of a `Field`; None where it has none."""
    if callable(info.default_factory):
        factory: Fill = info.default_factory
        return factory
    if info.default is Ellipsis or type(info.default).__name__ == "PydanticUndefinedType":
        return None
    return lambda: info.default

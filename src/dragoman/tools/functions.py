"""Functions as tools: the parameters, and the runner behind `Tool.run`."""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import InvalidArguments, InvalidTool
from dragoman.tools.annotations import Builder, annotate
from dragoman.tools.forms import (
    MISSING,
    Form,
    Member,
    ReadState,
    anything,
    copy_json,
    member_of,
    object_schema,
    read_members,
    typed_dict_members,
)
from dragoman.tools.introspection import closure_of, described, globals_of, resolve, signature_of
from dragoman.types import JsonObject, Operand, Tool

if TYPE_CHECKING:
    import typing_extensions

    # `Context` alone means `Context[Any]`. At run time, TypeVar has no default before Python 3.13.
    DepsT = typing_extensions.TypeVar("DepsT", default=Any)
else:
    DepsT = TypeVar("DepsT")

# --------------------------------------------------------------------------------------------------------------------
# What a tool may know about the call that it answers.


def _never() -> bool:
    return False


def _ignore(message: str, fraction: float | None = None) -> None:
    """Progress that nobody asked for."""


class ToolContext(Struct, Generic[DepsT], frozen=True):
    """What a tool may know of its call. `ToolContext[Deps]` declares the type of `data`, which the caller passes in."""

    run_id: str = ""
    turn: int = 0
    call_id: str = ""
    session: str | None = None
    workspace: str | None = None
    """The folder that the run works in."""
    deadline: float | None = None
    """When the call has to be done, on the monotonic clock of whoever runs it."""
    mode: str = ""
    """The mode of the policy, for example one in which nothing may be changed."""
    data: DepsT = None  # type: ignore[assignment]
    """What the caller passed to the run for its own tools."""
    cancelled: Callable[[], bool] = _never
    """Whether the run has been given up; a long tool asks now and then, and stops."""
    progress: Callable[..., None] = _ignore
    """`progress(message, fraction=None)` tells a watching person how far the tool is."""
    operands: tuple[Operand, ...] = ()
    """What was decided on, and approved where that was needed. A tool that finds something else there stops."""
    sandbox: Any = None
    """The sandbox for commands; None leaves the choice to the tool."""
    ask: Callable[..., Any] | None = None
    """`await ask(question, choices)` gives what a person answered; None where nobody is there."""
    scope: Any = None
    """The run itself, for tools that start runs of their own: these stay within its rights and its budget."""


Context = ToolContext
"""The short name, for annotations."""


# --------------------------------------------------------------------------------------------------------------------
# A function's parameters: what the model may fill, what the caller fills, and how both reach the function.

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

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> tuple[tuple[Any, ...], dict[str, Any]]:
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
    """One look at a function; see `read_signature`."""

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
        if type(default).__name__ == "FieldInfo" and hasattr(default, "default_factory"):
            # Pydantic's `Field(...)` describes the parameter and holds the real default.
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
    """The parameters of a function; InvalidTool says which of them a model could not fill, and why.

    `names` are those that annotations may use beside the module's own.
    """
    return _Reader(function, tool, context, names or {}).read(bound=bound)


def context_or_empty(context: Any) -> Any:
    """The context of the call; where the caller gave none, one that says nothing."""
    return ToolContext() if context is None else context


def is_context(annotation: Any) -> bool:
    """Whether a parameter asks for the context of the call: `Context`, `Context[Deps]`, or one of them `| None`."""
    origin = typing.get_origin(annotation)
    plain = origin if isinstance(origin, type) else annotation
    if isinstance(plain, type) and issubclass(plain, ToolContext):
        return True
    if origin not in (typing.Union, types.UnionType):
        return False
    return any(is_context(each) for each in typing.get_args(annotation))


def or_null(form: Form) -> Form:
    """The form with null allowed: `city: str = None` is written often, and its default is no text."""
    schema, read_value = form.schema, form.read
    if not schema or _takes_null(schema):
        return form

    def read(value: Any, path: str, reading: ReadState) -> Any:
        return None if value is None else read_value(value, path, reading)

    inner = {key: value for key, value in schema.items() if key != "description"}
    words = {"description": schema["description"]} if "description" in schema else {}
    return Form({"anyOf": [inner, {"type": "null"}], **words}, read)


def _takes_null(schema: JsonObject) -> bool:
    kinds = schema.get("type")
    named = kinds if isinstance(kinds, list) else [kinds]
    return "null" in named or any(_takes_null(each) for each in schema.get("anyOf", ()))


def field_default(info: Any) -> Fill | None:
    """What gives the default of a `Field`; None where it has none."""
    if callable(info.default_factory):
        return typing.cast(Fill, info.default_factory)
    is_missing = info.default is Ellipsis or type(info.default).__name__ == "PydanticUndefinedType"
    return None if is_missing else lambda: info.default


# --------------------------------------------------------------------------------------------------------------------
# Functions as tools: what `Tool.run` holds, and how a tool is made from a function.

Filled = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments."""


class Traits(TypedDict, total=False):
    """What may be said of a tool beside its name, its schema and its function; see `dragoman.tool`."""

    description: str | None
    parallel_safe: bool
    read_only: bool
    repeatable: bool | None
    timeout: float | None
    max_output: int | None
    requires_approval: bool
    exec: bool
    context: str | None
    metadata: Mapping[str, Any] | None


class Options(Traits, total=False):
    """What `dragoman.tool` takes."""

    name: str | None
    schema: JsonObject | None


class Runner:
    """What stands in `Tool.run`: it knows its function, and how JSON arguments reach it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        """What to call the function with: here all arguments as one dict, and the context."""
        return (copy_json(arguments), context_or_empty(context)), {}

    def __call__(self, arguments: Any, context: Any = None) -> Any:
        """Fill and call, for whoever has a `Tool` and no use for `bind`."""
        reading = ReadState()
        positional, named = self.fill(arguments, context, reading)
        if reading.faults:
            raise InvalidArguments(name_of(self.function), reading.faults)
        return self.function(*positional, **named)


class FunctionRunner(Runner):
    """Runs a function by its signature, with arguments converted into the types of its annotations."""

    __slots__ = ("_first", "_signature")

    def __init__(self, function: Callable[..., Any], signature: Signature, first: tuple[Any, ...] = ()) -> None:
        super().__init__(function)
        self._signature = signature
        self._first = first

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        positional, named = self._signature.fill(arguments, context, reading)
        return self._first + positional, named

    def bound_to(self, owner: object) -> FunctionRunner:
        """The same for a method of this object."""
        return FunctionRunner(self.function, self._signature, (owner,))


class KeywordRunner(Runner):
    """Runs a function with the JSON arguments by name, as they are."""

    __slots__ = ("_context_parameter", "_first", "_signature")

    def __init__(
        self, function: Callable[..., Any], context_parameter: str | None = None, first: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(function)
        self._context_parameter = context_parameter
        self._first = first
        self._signature = _signature_or_none(function)

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        if not isinstance(arguments, dict):
            reading.expected("object", arguments, "$")
            return (), {}
        named = copy_json(arguments)
        if self._context_parameter is not None:
            named[self._context_parameter] = context_or_empty(context)
        try:
            if self._signature is not None:
                self._signature.bind(*self._first, **named)
        except TypeError as problem:
            reading.fault("$", str(problem))
        return self._first, named

    def bound_to(self, owner: object) -> KeywordRunner:
        return KeywordRunner(self.function, self._context_parameter, (owner,))


class MappingRunner(Runner):
    """Runs a function that takes all JSON arguments as one dict, and the context if it has room for it."""

    __slots__ = ("_takes",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._takes = _places_of(function)

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        return (copy_json(arguments), context_or_empty(context))[: self._takes], {}


def _signature_or_none(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return signature_of(function)
    except InvalidTool:  # Built-in functions may have none; then Python compares for itself.
        return None


def _places_of(function: Callable[..., Any]) -> int:
    """How many of arguments and context a function has room for."""
    signature = _signature_or_none(function)
    if signature is None:
        return 1
    parameters = signature.parameters.values()
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return 2
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)


class UnboundRunner(Runner):
    """Stands in for a method that was given without its object: there is nothing it could be run on."""

    __slots__ = ()

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        raise InvalidTool(
            f"{self.function.__qualname__} is a method and was given without its object",
            hint="give the method of an object (tools=[thing.method]); above @classmethod, put @tool first",
        )


# ---- tools from functions ------------------------------------------------------------------------------------------


def tool_from_function(
    function: Callable[..., Any], options: Options | None = None, *, names: Mapping[str, Any] | None = None
) -> Tool:
    """A tool from a function: its schema from the annotations, its words from the docstring.

    `names` are local names that annotations written as strings may use.
    """
    return build(function, options or {}, names or {}, bound=False)[0]


def build(
    function: Callable[..., Any], options: Options, names: Mapping[str, Any], *, bound: bool
) -> tuple[Tool, FunctionRunner | KeywordRunner]:
    """The tool and its runner; `bound` for methods, whose first parameter is their object."""
    name = options.get("name") or name_of(function)
    schema, context = options.get("schema"), options.get("context")
    runner: FunctionRunner | KeywordRunner
    if schema is None:
        signature = read_signature(function, name, context=context, names=names, bound=bound)
        schema, context = signature.schema, signature.context_parameter
        runner = FunctionRunner(function, signature)
    else:
        runner = KeywordRunner(function, context)
    description = options.get("description")
    if description is None:
        description = described(function).summary
    return with_options(Tool(name, description, schema, run=runner, context_parameter=context), options), runner


def with_options(tool: Tool, options: Traits) -> Tool:
    """The tool with everything that was said of it; InvalidTool for what makes no sense."""
    for key in ("timeout", "max_output"):
        limit = options.get(key)
        if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool) or limit <= 0):
            raise InvalidTool(f"tool {tool.name!r}: {key}={limit!r}", hint="give a number above zero, or leave it out")
    metadata = {**tool.metadata, **(options.get("metadata") or {})}
    if options.get("exec"):
        metadata["class"] = "exec"
    read_only = bool(options.get("read_only", tool.read_only))
    repeatable = options.get("repeatable")
    if repeatable is None:
        # What changes nothing may be done again.
        repeatable = tool.repeatable or read_only
    return replace(
        tool,
        parallel_safe=bool(options.get("parallel_safe", tool.parallel_safe)),
        read_only=read_only,
        metadata=metadata,
        repeatable=bool(repeatable),
        timeout=options.get("timeout", tool.timeout),
        max_output=options.get("max_output", tool.max_output),
        requires_approval=bool(options.get("requires_approval", tool.requires_approval)),
    )


def name_of(function: Callable[..., Any]) -> str:
    """The name that a function goes by; a callable object goes by that of its class, in a function's spelling."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", None)
    if name is None:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(inner).__name__).lower()
    if not name.isidentifier():
        raise InvalidTool(f"{function!r} has no name that a model could call", hint='give it one: tool(name="...")')
    return str(name)

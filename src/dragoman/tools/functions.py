"""Tools from functions: the signature, and the runner in `Tool.run`."""

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
from dragoman.keywords import UnknownKeyword
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
# The context of a call.


def _never() -> bool:
    return False


def _ignore(message: str, fraction: float | None = None) -> None:
    """The default for `progress`: ignore it."""


class ToolContext(Struct, Generic[DepsT], frozen=True):
    """The context of a call. `ToolContext[Deps]` declares the type of `data`, which the caller passes in."""

    run_id: str = ""
    turn: int = 0
    call_id: str = ""
    session: str | None = None
    workspace: str | None = None
    """The workspace of the run."""
    deadline: float | None = None
    """The deadline of the call, on the monotonic clock of the driver."""
    mode: str = ""
    """The mode of the policy, such as `plan`."""
    data: DepsT = None  # type: ignore[assignment]
    """The data that the caller passed to the run for its own tools."""
    cancelled: Callable[[], bool] = _never
    """Returns whether the run was cancelled; a long-running tool checks it regularly, and stops."""
    progress: Callable[..., None] = _ignore
    """`progress(message, fraction=None)` reports the progress of the tool to the user."""
    operands: tuple[Operand, ...] = ()
    """The operands that the policy decided on, or a person approved. A tool that finds other operands stops."""
    decide: Callable[[dict[str, Any]], Any] | None = None
    """`decide(arguments)` returns the decision of the rules on this call with other arguments, such as the target of a
    redirect. Its `verdict` is allow, ask or deny. None if no rules apply."""
    sandbox: Any = None
    """The sandbox for commands; None: the tool chooses."""
    ask: Callable[..., Any] | None = None
    """`await ask(question, choices)` returns the answer of a person; None if there is no person."""
    scope: Any = None
    """The run itself, for tools that start child runs: its rules and budget apply to them."""


Context = ToolContext
"""The short name, for annotations."""


# --------------------------------------------------------------------------------------------------------------------
# The parameters of a function: those that the model fills, and those that the caller fills.

Fill = Callable[[], Any]
_Kind = inspect.Parameter


class Signature(Struct, frozen=True):
    """The parameters of a function, with the conversion from JSON."""

    members: dict[str, Member]
    extra: Form | None
    """The form of additional arguments (`**kwargs`)."""
    positional: tuple[str, ...]
    """Positional-only parameters, in order."""
    defaults: dict[str, Fill]
    """Defaults to pass if the model omits an argument and Python cannot supply the default itself."""
    context_parameter: str | None
    schema: JsonObject

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and named arguments for the function."""
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
    """Reads the signature of one function; see `read_signature`."""

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
        """Read every parameter; `bound` skips the first one, which is the object of a method."""
        parameters = list(signature_of(self._function).parameters.values())[1 if bound else 0 :]
        fixed = self._function.keywords if isinstance(self._function, functools.partial) else {}
        for parameter in parameters:
            if parameter.name not in fixed:
                self._look_at(parameter)
        if self._wanted_context is not None and self._context is None:
            raise InvalidTool(
                f"tool {self._tool!r} has no parameter {self._wanted_context!r} for the context",
                hint="pass the name of a parameter as context=, or annotate one with dragoman.tools.Context",
            )
        schema = self._builder.finish(object_schema(self._members, self._extra))
        members = {member.key: member for member in self._members}
        return Signature(members, self._extra, tuple(self._positional), self._defaults, self._context, schema)

    def _look_at(self, parameter: _Kind) -> None:
        place = f"parameter {parameter.name!r} of tool {self._tool!r}"
        if parameter.kind is _Kind.VAR_POSITIONAL:
            raise InvalidTool(
                f"{place}: *{parameter.name} has no parameter names that a model could use",
                hint=f"use a list instead: {parameter.name}: list[...]",
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
            raise InvalidTool(
                f"{place}: {self._context!r} is already the context parameter", hint="remove one of the two"
            )
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
        if _is_field(default):
            # Pydantic's `Field(...)` describes the parameter and contains the real default.
            form = annotate(form, [default])
            default = self._take_default(parameter.name, default)
        elif default is MISSING:
            notes = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is typing.Annotated else ()
            field = next((note for note in reversed(notes) if _is_field(note)), None)
            default = MISSING if field is None else self._take_default(parameter.name, field)
        elif _place_of_type(default) in _FIELDS:
            raise InvalidTool(
                f"{place}: its default is {_FIELDS[_place_of_type(default)]}, which has a meaning only in a class",
                hint="give the default itself, or None and create the value in the function",
            )
        elif default is not MISSING and parameter.kind is _Kind.POSITIONAL_ONLY:
            self._defaults[parameter.name] = lambda: parameter.default
        if default is None:
            form = or_null(form)
        self._members.append(member_of(parameter.name, form, default, self._words.get(parameter.name)))

    def _take_default(self, name: str, field: Any) -> Any:
        """Return the default of pydantic's `Field`, which Python does not know, and keep it for the call."""
        fill = field_default(field)
        if fill is None:
            return MISSING
        self._defaults[name] = fill
        return fill()


_FIELDS = {
    ("dataclasses", "Field"): "dataclasses.field(...)",
    ("msgspec", "Field"): "msgspec.field(...)",
    ("attr", "_CountingAttr"): "attrs.field(...)",
}
"""Descriptions of fields by package and type. As the default of a parameter, the function would receive them."""


def _place_of_type(value: Any) -> tuple[str, str]:
    return type(value).__module__.partition(".")[0], type(value).__name__


def _is_field(value: Any) -> bool:
    return type(value).__name__ == "FieldInfo" and hasattr(value, "default_factory")


def read_signature(
    function: Callable[..., Any],
    tool: str,
    *,
    context: str | None = None,
    names: Mapping[str, Any] | None = None,
    bound: bool = False,
) -> Signature:
    """Read the parameters of a function. Raises InvalidTool for a parameter that a model cannot fill.

    `names` are names that annotations may use in addition to those of the module.
    """
    return _Reader(function, tool, context, names or {}).read(bound=bound)


def context_or_empty(context: Any) -> Any:
    """Return the context of the call; an empty one if the caller passed none."""
    return ToolContext() if context is None else context


def is_context(annotation: Any) -> bool:
    """Whether a parameter takes the context of the call: `Context`, `Context[Deps]`, or one of them `| None`."""
    origin = typing.get_origin(annotation)
    plain = origin if isinstance(origin, type) else annotation
    if isinstance(plain, type) and issubclass(plain, ToolContext):
        return True
    if origin not in (typing.Union, types.UnionType):
        return False
    return any(is_context(each) for each in typing.get_args(annotation))


def or_null(form: Form) -> Form:
    """Return the form with null allowed: `city: str = None` is common, and its default is not a string."""
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
    """Return the factory of a `Field`'s default; None if it has no default."""
    if callable(info.default_factory):
        return typing.cast(Fill, info.default_factory)
    is_missing = info.default is Ellipsis or type(info.default).__name__ == "PydanticUndefinedType"
    return None if is_missing else lambda: info.default


# --------------------------------------------------------------------------------------------------------------------
# Tools from functions: the runner in `Tool.run`, and the construction of the tool.

Filled = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments."""


class Traits(TypedDict, total=False):
    """The properties of a tool besides its name, schema and function; see `dragoman.tool`."""

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
    """The options of `dragoman.tool`."""

    name: str | None
    schema: JsonObject | None


_OPTIONS = tuple(sorted({*Traits.__annotations__, *Options.__annotations__}))


class Runner:
    """The value of `Tool.run`: a function, and the conversion of JSON arguments for it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        """Return the arguments for the function: by default all arguments as one dict, and the context."""
        return (copy_json(arguments), context_or_empty(context)), {}

    def __call__(self, arguments: Any, context: Any = None) -> Any:
        """Fill and call, for code that has a `Tool` and does not need `bind`."""
        reading = ReadState()
        positional, named = self.fill(arguments, context, reading)
        if reading.faults:
            raise InvalidArguments(name_of(self.function), reading.faults)
        return self.function(*positional, **named)


class FunctionRunner(Runner):
    """Runs a function with arguments converted to the types of its annotations."""

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
    """Runs a function with the JSON arguments by name, without conversion."""

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
    """Runs a function that takes all JSON arguments as one dict, and the context if it has a parameter for it."""

    __slots__ = ("_takes",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._takes = _places_of(function)

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        return (copy_json(arguments), context_or_empty(context))[: self._takes], {}


def _signature_or_none(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return signature_of(function)
    except InvalidTool:  # Built-in functions may have no signature; then Python checks the call itself.
        return None


def _places_of(function: Callable[..., Any]) -> int:
    """Return how many of the two parameters, arguments and context, a function has."""
    signature = _signature_or_none(function)
    if signature is None:
        return 1
    parameters = signature.parameters.values()
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return 2
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)


class UnboundRunner(Runner):
    """The runner of a method without its object, which cannot run."""

    __slots__ = ()

    def fill(self, arguments: Any, context: Any, reading: ReadState) -> Filled:
        raise unbound_method(self.function)


def unbound_method(function: Callable[..., Any]) -> InvalidTool:
    """The error for a method without its object."""
    return InvalidTool(
        f"{function.__qualname__} is a method and was passed without its object",
        hint="pass the method of an object (tools=[thing.method]); with @classmethod, put @tool above it",
    )


# ---- tools from functions ------------------------------------------------------------------------------------------


def tool_from_function(
    function: Callable[..., Any], options: Options | None = None, *, names: Mapping[str, Any] | None = None
) -> Tool:
    """Make a tool from a function: the schema from the annotations, the descriptions from the docstring.

    `names` are local names for annotations that are strings.
    """
    return build(function, options or {}, names or {}, bound=False)[0]


def build(
    function: Callable[..., Any], options: Options, names: Mapping[str, Any], *, bound: bool
) -> tuple[Tool, FunctionRunner | KeywordRunner]:
    """Build the tool and its runner; `bound` is for methods, whose first parameter is their object."""
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
    """Return the tool with the options. Raises InvalidTool for an invalid option, UnknownKeyword for an unknown one."""
    for key in options:
        if key not in _OPTIONS:
            # A misspelled `requires_approval` would let every call run.
            raise UnknownKeyword("tool", key, _OPTIONS)
    for key in ("timeout", "max_output"):
        limit = options.get(key)
        if limit is not None and (not isinstance(limit, int | float) or isinstance(limit, bool) or limit <= 0):
            raise InvalidTool(f"tool {tool.name!r}: {key}={limit!r}", hint="use a number above zero, or leave it out")
    metadata = {**tool.metadata, **(options.get("metadata") or {})}
    if options.get("exec"):
        metadata["class"] = "exec"
    read_only = bool(options.get("read_only", tool.read_only))
    repeatable = options.get("repeatable")
    if repeatable is None:
        # A tool that changes nothing can run again.
        repeatable = tool.repeatable or read_only
    return replace(
        tool,
        # Calls that change nothing do not disturb one another.
        parallel_safe=bool(options.get("parallel_safe", tool.parallel_safe or read_only)),
        read_only=read_only,
        metadata=metadata,
        repeatable=bool(repeatable),
        timeout=options.get("timeout", tool.timeout),
        max_output=options.get("max_output", tool.max_output),
        requires_approval=bool(options.get("requires_approval", tool.requires_approval)),
    )


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function; for a callable object, the name of its class in snake case."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", None)
    if name is None:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(inner).__name__).lower()
    if not name.isidentifier():
        raise InvalidTool(f"{function!r} has no valid name", hint='give it one: tool(name="...")')
    return str(name)

"""Signatures, annotations and docstrings read from Python objects."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from dragoman.errors import InvalidTool

# --------------------------------------------------------------------------------------------------------------------
# Docstrings: the first paragraph describes the tool, and a line describes each parameter.


class Described(Struct, frozen=True):
    """The parts of a docstring."""

    summary: str = ""
    members: dict[str, str] = field(default_factory=dict)


def described(thing: Any) -> Described:
    """Read the docstring of a function or class; docstrings that Python generates are ignored."""
    text = thing.__dict__.get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    if not isinstance(text, str) or not text.strip() or _is_written_by_python(thing, text):
        return Described()
    return read_docstring(text)


def _is_written_by_python(thing: Any, text: str) -> bool:
    """Whether Python generated the docstring, as for a dataclass or a NamedTuple without one."""
    return isinstance(thing, type) and text.startswith(f"{thing.__name__}(") and text.rstrip().endswith(")")


def read_docstring(text: str) -> Described:
    """Return the first paragraph and the parameters, in google, numpy, sphinx or epydoc style."""
    text = inspect.cleandoc(text)
    if "\n" not in text and ":param" not in text and "@param" not in text:
        return Described(text)
    # Imported here because many tools have a docstring of one line.
    from docstring_parser import parse

    try:
        found = parse(text)
    except Exception:  # A docstring of an unknown style is still a description.
        return Described(_first_paragraph(text))
    short, long = found.short_description or "", found.long_description or ""
    summary = short if found.blank_after_short_description else f"{short}\n{long}"
    members: dict[str, str] = {}
    for each in found.params:
        words = " ".join((each.description or "").split())
        for name in each.arg_name.split(","):
            if words:
                members.setdefault(name.strip().lstrip("*"), words)
    return Described(_first_paragraph(summary), members)


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())


# --------------------------------------------------------------------------------------------------------------------
# Resolution of annotations to types: strings are evaluated, type variables are substituted.

Names = Mapping[str, Any]
"""Names that annotations may use in addition to those of their module."""


class _HintSource:
    """An object with annotations, for `typing.get_type_hints`."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, with unresolved annotations. Raises InvalidTool for a function without a signature."""
    try:
        if sys.version_info >= (3, 14):  # There, an annotation is evaluated on access.
            import annotationlib

            return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(function)
    except (ValueError, TypeError) as problem:
        raise InvalidTool(
            f"{function!r} has no signature that can be read: {problem}",
            hint="wrap it in a function, or use tool_from_schema(name, schema, function)",
        ) from problem


def globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals of the module in which a function, or a callable object, is defined."""
    inner: Any = inspect.unwrap(function)
    while hasattr(inner, "func"):  # A partial.
        inner = inspect.unwrap(inner.func)
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__globals__"):
        inner = inspect.unwrap(type(inner).__call__)
    return getattr(inner, "__globals__", {})


def closure_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names in the closure of a function."""
    inner = inspect.unwrap(function)
    code, cells = getattr(inner, "__code__", None), getattr(inner, "__closure__", None) or ()
    found = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # The cell is still empty.
            continue
    return found


def resolve(annotation: Any, module: dict[str, Any], names: Names, place: str) -> Any:
    """Return the type of an annotation; strings and forward references are evaluated."""
    if annotation is inspect.Parameter.empty:
        return Any
    carrier = _HintSource({"it": annotation})
    try:
        return typing.get_type_hints(carrier, module, dict(names), include_extras=True)["it"]
    except Exception as problem:  # An annotation may be any expression, so it may raise any exception.
        raise InvalidTool(
            f"{place}: its annotation {annotation!r} cannot be resolved ({problem})",
            hint="define the name before the tool, in its module, and import it outside of TYPE_CHECKING",
        ) from problem


def hints_of(record: Any, names: Names, place: str) -> dict[str, Any]:
    """Return the annotations of the members of a class."""
    try:
        return typing.get_type_hints(record, localns=dict(names), include_extras=True)
    except Exception as problem:
        raise InvalidTool(
            f"{place}: the annotations of {record.__qualname__} cannot be resolved ({problem})",
            hint="define the names that they use before the tool, in the module of the class",
        ) from problem


def substitute(annotation: Any, variables: Mapping[Any, Any]) -> Any:
    """Return the annotation with its type variables replaced."""
    if isinstance(annotation, typing.TypeVar):
        return variables.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or isinstance(annotation, type) or not any(each in variables for each in parameters):
        return annotation
    return annotation[tuple(variables.get(each, each) for each in parameters)]


def variables_of(origin: Any, arguments: tuple[Any, ...], place: str) -> dict[Any, Any]:
    """Return the types of the type variables of a generic class, including those of its bases."""
    own = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
    found = dict(own)
    for base in getattr(origin, "__orig_bases__", ()):
        generic = typing.get_origin(base)
        if generic is None or generic in (typing.Generic, typing.Protocol):
            continue
        given = tuple(substitute(each, own) for each in typing.get_args(base))
        for variable, meaning in variables_of(generic, given, place).items():
            if found.setdefault(variable, meaning) != meaning:
                raise InvalidTool(
                    f"{place}: {origin.__qualname__} and its base use {variable} for different types",
                    hint="give the type variable of the base another name",
                )
    return found

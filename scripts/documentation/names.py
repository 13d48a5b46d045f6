"""The public names of the library, read from its source: signatures, fields, methods and docstrings.

Public are the names in `dragoman.__all__`, and the names in `__all__` of each package that is listed there. A module
without `__all__` is public with all names that do not begin with an underscore. `docs/stability.md` says what this
means for users.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple, TypeVar

import dragoman
from dragoman.types import Tool

MORE_MODULES = ("agent.events", "wire.schemas")
"""Modules that are public, although `dragoman.__all__` lists only their packages."""

NAMES_FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "public_names.txt"
"""The public names that were accepted. A test compares them with the source."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = ast.ClassDef | Function | ast.Assign | ast.AnnAssign | ast.Module


class Name(NamedTuple):
    """A public name, and the place in the source that defines it."""

    package: str
    """The package that users import it from: `dragoman.agent`."""
    name: str
    home: str
    """The module that defines it."""
    node: Node
    doc: str


class Member(NamedTuple):
    """A field, a property or a method of a public class."""

    name: str
    node: Function | ast.AnnAssign
    doc: str
    is_property: bool = False


@cache
def list_packages() -> tuple[str, ...]:
    """Return the public packages and modules by name, the top one first."""
    exported: list[str] = dragoman.__all__  # type: ignore[attr-defined]
    inner = [name for name in exported if isinstance(getattr(dragoman, name), ModuleType)]
    return ("dragoman", *sorted(f"dragoman.{name}" for name in (*inner, *MORE_MODULES)))


@cache
def list_names(package: str) -> tuple[Name, ...]:
    """Return the public names of a package, modules excluded."""
    module = import_module(package)
    exported = getattr(module, "__all__", None) or _defined_in(package)
    found = [locate(package, each) for each in sorted(exported, key=str.lower) if not each.startswith("_")]
    return tuple(each for each in found if not isinstance(each.node, ast.Module))


def module_doc(package: str) -> str:
    """Return the docstring of a package."""
    return ast.get_docstring(_parse(package)) or ""


def find_home(name: Name) -> str:
    """Return the public package in which a name is described: the closest one to its definition that exports it."""
    fitting = [
        package
        for package in list_packages()
        if name.home == package or name.home.startswith(f"{package}.")
        if any(other.name == name.name and other.home == name.home for other in list_names(package))
    ]
    return max(fitting, key=len, default=name.package)


# --------------------------------------------------------------------------------------------------------------------
# The place of a name in the source.


@cache
def _parse(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


@cache
def _statements(module: str) -> tuple[ast.stmt, ...]:
    """Return the statements of a module. Those for type checkers show where a lazily loaded name comes from."""
    found: list[ast.stmt] = []
    for statement in _parse(module).body:
        is_for_checkers = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
        found += [*statement.body] if is_for_checkers and isinstance(statement, ast.If) else [statement]
    return tuple(found)


def _defined_in(module: str) -> list[str]:
    names = [name for statement in _statements(module) for name in _names_of(statement)]
    return [name for name in names if not isinstance(getattr(import_module(module), name), TypeVar)]


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    several = [each for target in targets if isinstance(target, ast.Tuple) for each in target.elts]
    return [target.id for target in (*targets, *several) if isinstance(target, ast.Name)]


@cache
def locate(package: str, name: str) -> Name:
    """Find the definition of a name that a package exports."""
    home, node, doc = _follow(package, name)
    return Name(package, name, home, node, doc)


def _follow(module: str, name: str) -> tuple[str, Node, str]:
    statements = _statements(module)
    # An overloaded function is described by its last definition, which takes all forms.
    for position in range(len(statements) - 1, -1, -1):
        statement = statements[position]
        if name in _names_of(statement):
            value = getattr(import_module(module), name, None)
            if isinstance(statement, ast.Assign) and inspect.isfunction(value):
                return module, _unwrap(value, name), inspect.getdoc(value) or ""
            assert isinstance(statement, Node)
            doc = value.description if isinstance(value, Tool) else _doc_at(statements, position)
            return module, statement, doc
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if (alias.asname or alias.name) == name and statement.module.startswith("dragoman"):
                    return _follow_import(statement.module, alias.name)
    raise LookupError(f"{module} does not define {name}")


def _follow_import(module: str, name: str) -> tuple[str, Node, str]:
    inner = f"{module}.{name}"
    if hasattr(import_module(module), "__path__") and find_spec(inner) is not None:
        return inner, _parse(inner), ast.get_docstring(_parse(inner)) or ""
    return _follow(module, name)


def _unwrap(value: FunctionType, name: str) -> ast.FunctionDef:
    """Return the definition of a function that was made from another one: the blocking form of an async function."""
    original = inspect.unwrap(value)
    *owner, inner = original.__qualname__.split(".")
    body: Iterable[ast.stmt] = _statements(original.__module__)
    for cls in owner:
        body = next(each.body for each in body if isinstance(each, ast.ClassDef) and each.name == cls)
    found = next(each for each in body if isinstance(each, Function) and each.name == inner)
    returns = ast.unparse(found.returns) if found.returns else "None"
    for kind in ("Iterator", "ContextManager"):
        returns = returns.replace(f"Async{kind}", kind).replace(f"Abstract{kind}", kind)
    made = ast.parse(f"def {name}(): ...").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, made.returns = found.args, ast.parse(returns, mode="eval").body
    return made


def _doc_at(statements: tuple[ast.stmt, ...] | list[ast.stmt], position: int) -> str:
    """Return the docstring of a definition; for a value or a field, the string below it."""
    statement = statements[position]
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return ast.get_docstring(statement) or ""
    below = statements[position + 1] if position + 1 < len(statements) else None
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
        return inspect.cleandoc(below.value.value)
    return ""


# --------------------------------------------------------------------------------------------------------------------
# Members of classes.


def list_fields(name: Name) -> list[Member]:
    """Return the fields of a class of values, in the order of its parameters."""
    if not is_record(name):
        return []
    fields: dict[str, Member] = {}
    for inherited in reversed(_ancestors(name)):
        fields |= {member.name: member for member in _own_members(inherited) if isinstance(member.node, ast.AnnAssign)}
    return list(fields.values())


def list_methods(name: Name) -> list[Member]:
    """Return the public methods and properties of a class, those of its private bases too.

    A method without a docstring has that of the method that it overrides, or of the protocol that its class follows.
    """
    if not isinstance(name.node, ast.ClassDef):
        return []
    ancestors = _ancestors(name)
    found: dict[str, Member] = {}
    for number, cls in enumerate(ancestors):
        if number and not cls.name.startswith("_"):
            continue
        for member in _own_members(cls):
            if not isinstance(member.node, ast.AnnAssign) and member.name not in found:
                found[member.name] = member._replace(doc=member.doc or _inherited_doc(member.name, ancestors))
    return list(found.values())


def find_parameters(name: Name) -> ast.arguments | None:
    """Return the parameters of a function, or those with which a class is called."""
    if isinstance(name.node, Function):
        return name.node.args
    node = _find_init(name)
    return node.args if node else None


def find_constructor(name: Name) -> str:
    """Return the docstring of the constructor of a class."""
    node = _find_init(name)
    return (ast.get_docstring(node) or "") if node else ""


def _find_init(name: Name) -> ast.FunctionDef | None:
    for cls in _ancestors(name):
        for statement in cls.node.body if isinstance(cls.node, ast.ClassDef) else ():
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                return statement
    return None


def find_tool(name: Name) -> Tool | None:
    """Return the tool, if the name is one."""
    value = _value_of(name)
    return value if isinstance(value, Tool) else None


def is_record(name: Name) -> bool:
    """Whether the fields of a class are the parameters of its constructor."""
    value = _value_of(name)
    return isinstance(value, type) and (hasattr(value, "__struct_fields__") or hasattr(value, "__dataclass_fields__"))


def _value_of(name: Name) -> object:
    # A package may export a name under another one.
    return getattr(import_module(name.home), getattr(name.node, "name", name.name))


@cache
def _ancestors(name: Name) -> tuple[Name, ...]:
    """Return a class and its bases in this library, in the order in which Python looks for methods."""
    value = _value_of(name)
    own = [cls for cls in getattr(value, "__mro__", ()) if cls.__module__.startswith("dragoman")]
    return tuple(locate(cls.__module__, cls.__name__) for cls in own if "." not in cls.__qualname__)


def _own_members(name: Name) -> Iterator[Member]:
    assert isinstance(name.node, ast.ClassDef)
    for position, statement in enumerate(name.node.body):
        doc = _doc_at(name.node.body, position)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and not statement.name.startswith("_"):
            marks = {ast.unparse(each).rpartition(".")[2] for each in statement.decorator_list}
            if not marks & {"overload", "setter", "deleter"}:
                yield Member(statement.name, statement, doc, bool(marks & {"property", "cached_property"}))
        elif isinstance(statement, ast.Assign) and not _names_of(statement)[0].startswith("_"):
            value = inspect.getattr_static(_value_of(name), _names_of(statement)[0])
            if inspect.isfunction(value):
                made = _unwrap(value, _names_of(statement)[0])
                yield Member(made.name, made, inspect.getdoc(value) or "")
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_shared = ast.unparse(statement.annotation).startswith("ClassVar")
            if not is_shared and not statement.target.id.startswith("_"):
                yield Member(statement.target.id, statement, doc)


def _inherited_doc(method: str, ancestors: tuple[Name, ...]) -> str:
    members = (member for cls in ancestors for member in _own_members(cls) if member.name == method)
    found = next((member.doc for member in members if member.doc), "")
    return found or next((protocol[method] for protocol in _followed(ancestors) if protocol.get(method)), "")


def _followed(ancestors: tuple[Name, ...]) -> Iterator[dict[str, str]]:
    """Yield the docstrings of each public protocol whose methods a class has."""
    own = {member.name for cls in ancestors for member in _own_members(cls)}
    yield from (protocol for protocol in _list_protocols() if protocol.keys() <= own)


@cache
def _list_protocols() -> tuple[dict[str, str], ...]:
    names = [name for package in list_packages() for name in list_names(package)]
    protocols = [name for name in names if getattr(_value_of(name), "_is_protocol", False)]
    found = [
        {member.name: member.doc for member in _own_members(name) if not isinstance(member.node, ast.AnnAssign)}
        for name in protocols
    ]
    return tuple(docs for docs in found if docs)


# --------------------------------------------------------------------------------------------------------------------
# Aliases of types.


def list_aliases(name: Name) -> list[Name]:
    """Return the aliases of types that the signatures of a name use and that are not public themselves."""
    nodes = [name.node, *(member.node for member in list_methods(name))]
    found: dict[str, Name] = {}
    for annotation in (each for node in nodes for each in _list_annotations(node)):
        for part in ast.walk(annotation):
            if isinstance(part, ast.Name) and part.id not in found:
                alias = _find_alias(name.home, part.id)
                if alias is not None:
                    found[part.id] = alias
    return [found[each] for each in sorted(found) if each not in _list_all()]


@cache
def _list_all() -> frozenset[str]:
    return frozenset(name.name for package in list_packages() for name in list_names(package))


def _list_annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations of a function, or those of the fields and of the constructor of a class."""
    if isinstance(node, ast.ClassDef):
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) or getattr(statement, "name", "") == "__init__":
                yield from _list_annotations(statement)
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation
    elif isinstance(node, Function):
        places = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        yield from (place.annotation for place in places if place is not None and place.annotation is not None)
        if node.returns is not None:
            yield node.returns


def _find_alias(module: str, name: str) -> Name | None:
    try:
        found = locate(module, name)
    except (LookupError, OSError, TypeError):  # a name of Python itself, or of a module without source
        return None
    is_ours = found.home.startswith("dragoman") and isinstance(found.node, ast.Assign)
    return found if is_ours and "TypeVar" not in ast.unparse(found.node) else None


# --------------------------------------------------------------------------------------------------------------------
# What the tests ask for.


def list_undocumented() -> list[str]:
    """Return the public names, methods and properties without a docstring."""
    found = []
    for package in list_packages():
        if not module_doc(package):
            found.append(package)
        for name in list_names(package):
            full = f"{name.home}.{name.name}"
            found += [full] if not name.doc else []
            found += [f"{full}.{member.name}" for member in list_methods(name) if not member.doc]
    return sorted(set(found))


def list_interface() -> list[str]:
    """Return every public name with its parameters, fields and methods: what a program can depend on."""
    return sorted(line for package in list_packages() for name in list_names(package) for line in _describe(name))


def _describe(name: Name) -> Iterator[str]:
    full = f"{name.package}.{name.name}"
    home = find_home(name)
    if home != name.package:
        yield f"{full} = {home}.{name.name}"
        return
    parameters, fields = find_parameters(name), list_fields(name)
    if fields:
        shown = [
            field.name + ("=" if isinstance(field.node, ast.AnnAssign) and field.node.value else "") for field in fields
        ]
        yield f"{full}({', '.join(shown)})"
    else:
        yield full + (f"({write_names(parameters)})" if parameters else "")
    for member in list_methods(name):
        ending = f"({write_names(member.node.args)})" if isinstance(member.node, Function) else ""
        yield f"{full}.{member.name}" + ("" if member.is_property else ending)


def write_names(arguments: ast.arguments) -> str:
    """Return the names of parameters, as a signature shows them, without types and values."""
    bare = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0]
    assert isinstance(bare, ast.FunctionDef)
    for each in (*bare.args.posonlyargs, *bare.args.args, *bare.args.kwonlyargs, bare.args.vararg, bare.args.kwarg):
        if each is not None:
            each.annotation = None
    optional = ast.Constant(...)
    bare.args.defaults = [optional for _ in bare.args.defaults]
    bare.args.kw_defaults = [default and optional for default in bare.args.kw_defaults]
    for places in (bare.args.posonlyargs, bare.args.args):
        if places and places[0].arg in ("self", "cls"):
            del places[0]
    return ast.unparse(bare.args).replace("=...", "=")

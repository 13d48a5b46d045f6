"""The pages about the API: one for each public package, with every public name, its signature and its docstring."""

from __future__ import annotations

import ast
import re

from scripts.documentation.names import (
    Function,
    Member,
    Name,
    find_constructor,
    find_home,
    find_parameters,
    find_tool,
    list_aliases,
    list_fields,
    list_methods,
    list_names,
    list_packages,
    module_doc,
)

_WIDTH = 88
_LONGEST_VALUE = 400
_DRAWING = re.compile(r"^[├└│]", re.MULTILINE)


def write_pages() -> dict[str, str]:
    """Return the pages by their path below `docs/reference/`."""
    pages = {f"api/{file_of(package)}": _write_package(package) for package in list_packages()}
    return {**pages, "api/index.md": _write_index()}


def file_of(package: str) -> str:
    """Return the name of the page of a package."""
    return package.removeprefix("dragoman.").replace(".", "-") + ".md"


def _write_index() -> str:
    parts = [
        "# API\n\n",
        "Every public name, with its signature and its docstring, written from the source. "
        "[Stability](../../stability.md) says what may change, and when.\n\n",
        "| package | contents |\n|---|---|\n",
    ]
    parts += [f"| [`{each}`]({file_of(each)}) | {_cell(summarise(module_doc(each)))} |\n" for each in list_packages()]
    return "".join(parts)


def _write_package(package: str) -> str:
    names = list_names(package)
    parts = [f"# {package}\n\n{render_doc(module_doc(package))}\n"]
    if names:
        parts.append("| name | |\n|---|---|\n")
        parts += [f"| [`{name.name}`]({_link(name)}) | {_cell(summarise(name.doc))} |\n" for name in names]
    parts += [_write_name(name) for name in names if find_home(name) == package]
    return "".join(parts)


def _link(name: Name) -> str:
    home = find_home(name)
    return ("" if home == name.package else file_of(home)) + f"#{name.name.lower()}"


def _write_name(name: Name) -> str:
    parts = [f"\n## {name.name}\n\n```python\n{write_signature(name)}\n```\n\n{render_doc(name.doc)}"]
    if isinstance(name.node, ast.ClassDef) and (created := find_constructor(name)):
        parts.append(f"\n{render_doc(created)}")
    aliases = [f"- {_write_alias(alias)}\n" for alias in list_aliases(name)]
    if aliases:
        parts += ["\nTypes in the signatures:\n\n", *aliases]
    fields = list_fields(name)
    if fields:
        parts.append("\nFields:\n\n")
        parts += [_write_field(field) for field in fields]
    parts += [_write_method(name, member) for member in list_methods(name)]
    return "".join(parts)


def _write_alias(alias: Name) -> str:
    assert isinstance(alias.node, ast.Assign)
    doc = " ".join(alias.doc.split())
    return f"`{alias.name} = {ast.unparse(alias.node.value)}`" + (f": {doc}" if doc else "")


def _write_field(field: Member) -> str:
    assert isinstance(field.node, ast.AnnAssign)
    shown = f"{field.name}: {ast.unparse(field.node.annotation)}"
    if field.node.value is not None:
        shown += f" = {_write_default(field.node.value)}"
    doc = " ".join(field.doc.split())
    return f"- `{shown}`" + (f": {doc}" if doc else "") + "\n"


def _write_default(value: ast.expr) -> str:
    """Return the value of a field. A factory shows what it makes."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {keyword.arg: keyword.value for keyword in value.keywords}
        if "default" in given:
            return ast.unparse(given["default"])
        if "default_factory" in given:
            return {"dict": "{}", "list": "[]", "set": "set()"}.get(ast.unparse(given["default_factory"]), "...")
    return ast.unparse(value)


def _write_method(name: Name, member: Member) -> str:
    assert isinstance(member.node, Function)
    if member.is_property:
        returns = ast.unparse(member.node.returns) if member.node.returns else "Any"
        shown = f"{member.name}: {returns}"
    else:
        shown = _write_function(member.node)
    return f"\n### {name.name}.{member.name}\n\n```python\n{shown}\n```\n\n{render_doc(member.doc)}"


# --------------------------------------------------------------------------------------------------------------------
# Signatures.


def write_signature(name: Name) -> str:
    """Return the definition of a name without its body."""
    node = name.node
    if isinstance(node, Function):
        return _write_function(node, name.name)
    if isinstance(node, ast.ClassDef):
        return _write_class(name, node)
    tool = find_tool(name)
    if tool is not None:
        given = ", ".join(tool.parameters.get("properties", {}))
        return f"{name.name}: Tool  # the tool {tool.name}({given})"
    shown = ast.unparse(node)
    if len(shown) > _LONGEST_VALUE or "\n" in shown:
        return f"{name.name} = ..."
    return _wrap_union(shown)


def _write_class(name: Name, node: ast.ClassDef) -> str:
    fields, parameters = list_fields(name), find_parameters(name)
    bases = [base for base in map(ast.unparse, node.bases) if not base.startswith(("_", "Struct", "Generic"))]
    above = f"({', '.join(bases)})" if bases else ""
    if fields or parameters is None:
        return f"class {name.name}{above}"
    return f"class {name.name}{above}\n\n{_lay_out(name.name, parameters, '')}"


def _write_function(node: Function, name: str = "") -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return _lay_out(f"{kind} {name or node.name}", node.args, returns)


def _lay_out(start: str, arguments: ast.arguments, returns: str) -> str:
    """Return a signature: on one line if it fits, or with one parameter per line."""
    shown = _list_parameters(arguments)
    line = f"{start}({', '.join(shown)}){returns}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {each},\n" for each in shown)
    return f"{start}(\n{inner}){returns}"


def _list_parameters(arguments: ast.arguments) -> list[str]:
    """Return the parameters as the source writes them, without `self`."""
    places = [*arguments.posonlyargs, *arguments.args]
    values = [None] * (len(places) - len(arguments.defaults)) + [*arguments.defaults]
    shown = [_write_parameter(place, value) for place, value in zip(places, values, strict=True)]
    if arguments.posonlyargs:
        shown.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        shown.append("*" + _write_parameter(arguments.vararg, None))
    elif arguments.kwonlyargs:
        shown.append("*")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    shown += [_write_parameter(place, value) for place, value in pairs]
    if arguments.kwarg:
        shown.append("**" + _write_parameter(arguments.kwarg, None))
    own = shown[0].partition(":")[0] if shown else ""
    return [each for each in shown[1:] if each != "/" or len(shown) > 3] if own in ("self", "cls") else shown


def _write_parameter(place: ast.arg, value: ast.expr | None) -> str:
    kind = f": {ast.unparse(place.annotation)}" if place.annotation else ""
    if value is None:
        return f"{place.arg}{kind}"
    return f"{place.arg}{kind}{' = ' if kind else '='}{ast.unparse(value)}"


def _wrap_union(shown: str) -> str:
    if len(shown) <= _WIDTH:
        return shown
    start, _, rest = shown.partition(" = ")
    separator, joint = (" | ", "\n    | ") if " | " in rest else (", ", ",\n    ")
    return f"{start} = (\n    {joint.join(rest.split(separator))}\n)"


# --------------------------------------------------------------------------------------------------------------------
# Docstrings.


def render_doc(doc: str) -> str:
    """Return a docstring as Markdown. Drawings and indented text become blocks of code."""
    paragraphs = doc.split("\n\n")
    shown: list[str] = []
    for paragraph in paragraphs:
        is_code = all(line.startswith("    ") for line in paragraph.split("\n"))
        if is_code and shown and shown[-1].endswith("```"):
            shown[-1] = shown[-1].removesuffix("```") + "\n" + _dedent(paragraph) + "\n```"
        elif is_code or _DRAWING.search(paragraph):
            shown.append(f"```text\n{_dedent(paragraph) if is_code else paragraph}\n```")
        else:
            shown.append(paragraph)
    return "\n\n".join(shown) + "\n"


def _dedent(text: str) -> str:
    return "\n".join(line[4:] for line in text.split("\n"))


def summarise(doc: str) -> str:
    """Return the first sentence of a docstring."""
    first = " ".join(doc.partition("\n\n")[0].split())
    return re.split(r"(?<=[.:]) (?=[A-Z`])", first)[0].rstrip(".:")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

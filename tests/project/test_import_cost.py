"""`import dragoman` loads next to nothing, and reading text loads no network, server, schema engine or terminal."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

# Whole packages: a submodule counts as its package.
HEAVY = {"aiohttp", "asyncio", "email", "httpx", "jsonschema_rs", "pydantic", "rich", "socket", "ssl", "starlette"}
HEAVY |= {"typer", "urllib3", "uvicorn"}


def modules_after(statement: str) -> set[str]:
    code = f"import sys\nbefore = set(sys.modules)\n{statement}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import dragoman",
        "import dragoman.formats",
        "import dragoman; dragoman.formats.parse('hello')",
        "import dragoman; dragoman.ToolCall",
    ],
)
def test_no_heavy_module_is_loaded(statement: str) -> None:
    loaded = modules_after(statement)
    assert "dragoman" in loaded
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert "http.client" not in loaded


def test_the_bare_import_loads_no_third_party_module_and_no_other_module_of_the_package() -> None:
    loaded = modules_after("import dragoman")
    assert "msgspec" not in loaded
    assert {name for name in loaded if name.startswith("dragoman.")} == set()


def test_every_public_name_is_there_and_listed() -> None:
    code = "import dragoman\nfor name in dragoman.__all__: getattr(dragoman, name); assert name in dir(dragoman), name"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import dragoman

    with pytest.raises(AttributeError, match="'dragoman' has no attribute 'formatz'"):
        dragoman.formatz  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", ["", "agent", "builtin", "client", "local"])
def test_type_checkers_and_the_interpreter_see_the_same_names(package: str) -> None:
    """A lazy package names each export twice: in an import for type checkers, and in the table that is used."""
    module = importlib.import_module(f"dragoman.{package}".rstrip("."))
    tree = ast.parse(inspect.getsource(module))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {(node.module, alias.name) for node in imports for alias in node.names if alias.asname == alias.name}
    defined = {name for name in module.__all__ if name in vars(module)} - {name for _, name in seen}
    assert {name for _, name in seen} | defined == set(module.__all__)
    for home, name in seen:
        found = getattr(module, name)
        assert found is getattr(importlib.import_module(str(home)), name)

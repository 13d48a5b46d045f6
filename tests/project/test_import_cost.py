"""`import dragoman` loads next to nothing, and reading text loads no network, server, schema engine or terminal."""

from __future__ import annotations

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

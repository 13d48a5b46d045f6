"""`scripts/check-structure` accepts a small made-up project, and reports each rule that a change to it breaks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check-structure"
LONG = "x = 1\n" * 60

# `left` and `right` import `shared`, and the package names `left` and `right` in a table of lazily loaded names.
SOUND = {
    "__init__.py": '_HOMES = {"Left": "left", "Right": "sound.right"}\n',
    "left.py": "from sound import shared\n" + LONG,
    "right.py": "import sound.shared\n" + LONG,
    "shared.py": "SHARED = 1\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in SOUND.items():
        write(tmp_path, name, text)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / "src" / "sound" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def except_modules(root: Path, table: str) -> None:
    (root / "pyproject.toml").write_text(f"[tool.dragoman.structure.modules]\n{table}\n", encoding="utf-8")


def except_nouns(root: Path, *nouns: str) -> None:
    (root / "pyproject.toml").write_text(f"[tool.dragoman.structure]\nnouns = {list(nouns)}\n", encoding="utf-8")


def check(root: Path) -> list[str]:
    """The lines that the script prints, if its exit code agrees with them."""
    done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == (0 if lines[0].startswith("structure: ") else 1), done.stderr
    return lines


def test_a_sound_project_has_no_faults(project: Path) -> None:
    assert check(project) == ["structure: 4 modules follow the rules"]


def test_a_folder_without_source_is_a_misuse(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, "there are no Python files" in done.stderr) == (2, True)


# ---- size ------------------------------------------------------------------------------------------------------------


def test_a_file_has_at_most_800_lines(project: Path) -> None:
    write(project, "shared.py", "x = 1\n" * 800)
    assert len(check(project)) == 1 and "follow the rules" in check(project)[0]
    write(project, "shared.py", "x = 1\n" * 801)
    assert check(project) == ["src/sound/shared.py: 801 lines, at most 800; split it by subject"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_has_at_most_40_lines_without_its_docstring(project: Path, kind: str) -> None:
    body = '    """First.\n\n    More.\n    """\n' + "    x = 1\n" * 40
    write(project, "shared.py", f"{kind} work():\n{body}")
    assert "follow the rules" in check(project)[0]
    write(project, "shared.py", f"{kind} work():\n{body}    x = 2\n")
    assert check(project) == ["src/sound/shared.py:1: work has 41 lines, at most 40; move a part into a function"]


# ---- use -------------------------------------------------------------------------------------------------------------


def test_a_small_module_has_more_than_one_importer(project: Path) -> None:
    write(project, "right.py", LONG)
    (fault,) = check(project)
    assert fault.startswith("src/sound/shared.py: 1 lines, and only sound.left imports it; move its content there, or")


def test_a_module_of_60_lines_may_have_one_importer(project: Path) -> None:
    write(project, "right.py", LONG)
    write(project, "shared.py", LONG)
    assert "follow the rules" in check(project)[0]


def test_a_module_without_an_importer_is_reported(project: Path) -> None:
    write(project, "alone.py", LONG)
    (fault,) = check(project)
    assert fault.startswith("src/sound/alone.py: nothing imports it; delete it, or list it with a reason in [tool.")


def test_programs_and_packages_need_no_importer(project: Path) -> None:
    write(project, "__main__.py", "import sound.left\n")
    write(project, "empty/__init__.py", "")
    assert check(project) == ["structure: 6 modules follow the rules"]


@pytest.mark.parametrize(
    "statement",
    [
        "def later():\n    from sound import shared\n",
        "def later():\n    import sound.shared as other\n",
        "from .shared import SHARED\n",
        "from . import shared\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sound.shared import SHARED\n",
        "HOME = 'sound.shared'\n",
    ],
)
def test_every_kind_of_import_counts(project: Path, statement: str) -> None:
    write(project, "right.py", statement + LONG)
    assert "follow the rules" in check(project)[0]


def test_a_name_imported_from_a_package_is_an_import_of_the_package(project: Path) -> None:
    write(project, "right.py", "from sound import SHARED\n" + LONG)
    (fault,) = check(project)
    assert "only sound.left imports it" in fault


def test_a_relative_name_counts_in_a_package_alone(project: Path) -> None:
    write(project, "right.py", "HOME = 'shared'\n" + LONG)
    assert len(check(project)) == 1 and "only sound.left imports it" in check(project)[0]


def test_a_listed_module_may_be_without_an_importer(project: Path) -> None:
    write(project, "alone.py", LONG)
    except_modules(project, '"sound.alone" = "a program"')
    assert "follow the rules" in check(project)[0]


@pytest.mark.parametrize("name", ["sound.shared", "sound.gone"])
def test_an_exception_that_is_not_needed_is_reported(project: Path, name: str) -> None:
    except_modules(project, f'"{name}" = "it was needed once"')
    (fault,) = check(project)
    assert fault.startswith(f"pyproject.toml: {name} needs no exception; remove it")


def test_an_exception_needs_a_reason(project: Path) -> None:
    write(project, "alone.py", LONG)
    except_modules(project, '"sound.alone" = ""')
    (fault,) = check(project)
    assert fault.startswith("pyproject.toml: sound.alone is an exception without a reason")


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["parsing.py", "parsing/__init__.py"])
def test_a_name_in_ing_is_a_listed_noun(project: Path, path: str) -> None:
    write(project, path, LONG)
    write(project, "left.py", "from sound import parsing, shared\n" + LONG)
    (fault,) = check(project)
    assert fault.startswith(f"src/sound/{path}: name it after a thing, or list 'parsing' as a noun")
    except_nouns(project, "parsing")
    assert "follow the rules" in check(project)[0]


def test_a_noun_without_a_module_is_reported(project: Path) -> None:
    except_nouns(project, "king")
    (fault,) = check(project)
    assert fault.startswith("pyproject.toml: no module is called 'king'; remove it")


# ---- cycles ----------------------------------------------------------------------------------------------------------


def test_a_cycle_of_imports_is_reported_as_a_path(project: Path) -> None:
    write(project, "shared.py", "try:\n    from sound.right import x\nexcept ImportError:\n    pass\n")
    (fault,) = check(project)
    paths = ("sound.right -> sound.shared -> sound.right", "sound.shared -> sound.right -> sound.shared")
    assert fault.removeprefix("import cycle: ").partition(";")[0] in paths


def test_a_package_that_imports_its_module_may_not_be_imported_by_it(project: Path) -> None:
    write(project, "__init__.py", SOUND["__init__.py"] + "from sound.shared import SHARED\n")
    write(project, "shared.py", "from sound import OTHER\n")
    (fault,) = check(project)
    assert fault.startswith("import cycle: sound") and "sound.shared" in fault


@pytest.mark.parametrize(
    "statement",
    [
        "def later():\n    import sound.right\n",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import sound.right\n",
        "import typing\nif typing.TYPE_CHECKING:\n    import sound.right\n",
    ],
)
def test_imports_that_do_not_run_at_once_form_no_cycle(project: Path, statement: str) -> None:
    write(project, "shared.py", statement)
    assert "follow the rules" in check(project)[0]

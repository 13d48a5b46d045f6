"""Commands run in this process, with their input given and their output caught."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from dragoman.cli.app import run


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.out)


Command = Callable[..., Outcome]


class Terminal(io.TextIOWrapper):
    """Standard input at a keyboard where nobody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def dragoman(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def command(*arguments: str, stdin: bytes | None = b"") -> Outcome:
        kind = Terminal if stdin is None else io.TextIOWrapper
        stream = kind(io.BytesIO(stdin or b""), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", stream)
        code = run(arguments)
        return Outcome(code, *capsys.readouterr())

    return command


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    """Write a file and return its path as a command line gives it."""

    def write_file(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write_file


@pytest.fixture(scope="session")
def embedded_model() -> str:
    """The path of the default model of `dragoman local add`, fetched if need be."""
    from dragoman.errors import DragomanError
    from dragoman.local import Store
    from dragoman.local.engine import import_llama

    try:
        import_llama()
        return Store().add().path
    except DragomanError as error:
        pytest.skip(f"the embedded model is not at hand ({error}): run `dragoman local add`")

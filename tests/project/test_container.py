"""The Containerfile: its steps are run without a container engine, in the environment of the tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import dragoman
from dragoman.testing import Upstream

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-container-0123456789abcdef"
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"}


class Step(NamedTuple):
    name: str
    value: str


def read_steps() -> Iterator[Step]:
    lines = [line for line in (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line:
            name, _, value = line.partition(" ")
            yield Step(name, value)


STEPS = list(read_steps())


def values_of(name: str) -> list[str]:
    return [step.value for step in STEPS if step.name == name]


def variables() -> dict[str, str]:
    pairs = [pair.partition("=") for value in values_of("ENV") for pair in value.split()]
    return {name: value for name, _, value in pairs}


def program(words: list[str]) -> list[str]:
    """A command of the container, with the programs of this environment."""
    first = {"dragoman": [sys.executable, "-m", "dragoman"], "python": [sys.executable]}[words[0]]
    return [*first, *words[1:]]


def test_the_image_is_built_of_files_that_exist_and_runs_as_a_user_without_rights() -> None:
    assert {step.name for step in STEPS} == INSTRUCTIONS
    sources = [words.split()[:-1] for words in values_of("COPY") if not words.startswith("--from")]
    assert [name for names in sources for name in names if not (ROOT / name).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert [name for names in sources for name in names if f"!{name}\n" not in ignored] == []
    user = int(values_of("USER")[0])
    assert user > 0 and f"--uid {user} " in values_of("RUN")[-1]
    assert values_of("EXPOSE") == [variables()["DRAGOMAN_GATEWAY_PORT"]]
    assert STEPS[-1].name == "ENTRYPOINT"


def test_the_gateway_of_the_image_answers_a_client_with_the_key_and_ends_with_its_signal(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shown = {name: value for name, value in variables().items() if name.startswith("DRAGOMAN_")}
    around = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), **shown}
    around |= {"DRAGOMAN_GATEWAY_PORT": str(port), "DRAGOMAN_GATEWAY_KEY": KEY, "DRAGOMAN_FACTS": "off"}
    around["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    with Upstream(["Hello."]) as upstream:
        around["DRAGOMAN_GATEWAY_TO"] = upstream.url
        entry = program(json.loads(values_of("ENTRYPOINT")[0]))
        with subprocess.Popen([*entry, "--json"], env=around, stdout=subprocess.PIPE, text=True) as gateway:
            assert gateway.stdout is not None
            json.loads(gateway.stdout.readline())
            try:
                check = json.loads(values_of("HEALTHCHECK")[0].partition("CMD ")[2])
                assert subprocess.run(program(check), env=around, check=False).returncode == 0
                reply = dragoman.ask("llamacpp:m", "Hi", base_url=f"http://127.0.0.1:{port}", key=KEY)
                assert reply.text == "Hello."
                with pytest.raises(dragoman.errors.DragomanError, match="key"):
                    dragoman.ask("llamacpp:m", "Hi", base_url=f"http://127.0.0.1:{port}", key="another")
            finally:
                gateway.send_signal(getattr(signal, values_of("STOPSIGNAL")[0]))
            assert gateway.wait(20) == 0
    assert subprocess.run(program(check), env=around, capture_output=True, check=False).returncode == 1


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_steps_that_install_run_in_a_virtual_environment(tmp_path: Path) -> None:
    make, install = (value for value in values_of("RUN") if "/opt/dragoman" in value)
    assert make == "python -m venv /opt/dragoman"
    venv.create(tmp_path / "env", with_pip=True)
    words = shlex.split(install.replace("/opt/dragoman", str(tmp_path / "env")))
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    done = subprocess.run(
        [tmp_path / "env/bin/dragoman", "serve", "--help"], capture_output=True, text=True, check=True
    )
    assert "DRAGOMAN_GATEWAY_TO" in done.stdout

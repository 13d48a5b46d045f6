"""The blocks of the README and the docs: code runs, output is what is shown, configuration is read by its program.

- `python` blocks of a page run in order, in one interpreter. A `text` block right below is what the block prints.
- Lines `$ dragoman ...`, `$ python ...` and `$ pytest ...` in `console` blocks run in the same folder, in the order of
  the page, and print what is below them. A command that fails shows its message, which begins with `error`. A `...`
  on a line of its own stands for lines that are left out.
- A block with `title="name.py"` is a file of that folder, and is not run by itself. `config.toml` has the settings.
- A page about certificates has files of a company: one certificate that signs itself.
- A command that cannot run here (a server, a model elsewhere) belongs in an `sh` block, without `$`. Python code that
  needs a package that this project does not install belongs in a `py` block.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.documentation.pages import (
    CONFIGURATIONS,
    OTHER,
    ROOT,
    Block,
    check_links,
    count_blocks,
    is_output,
    is_written,
    list_pages,
    name_of,
    read_blocks,
    read_commands,
)
from tests.certificates import make_certificate
from tests.tables import each_row

from dragoman.client.facts import read_learned
from dragoman.config import load
from dragoman.config.tool_sources import AGENTS, ENTRY_POINTS
from dragoman.doctor.comparison import parse_cases
from dragoman.errors import DragomanError
from dragoman.formats import registry as formats
from dragoman.mcp.servers import read_servers
from dragoman.providers import registry as providers
from dragoman.server.settings import parse_settings
from dragoman.wire import registry as wires

PAGES = [page for page in list_pages() if is_written(page)]
RUN = [page for page in PAGES if any(each.language == "python" or read_commands(each) for each in read_blocks(page))]
# What a page reads by its path from the top of the repository.
SHOWN_FOLDERS = ("src", "docs", "examples", "tests")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
Interpreter = Callable[[Path, list[dict[str, Any]]], list[str]]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    """Run the steps of a page in a folder, and return what each printed. One process serves all pages."""
    home = tmp_path_factory.mktemp("home")
    around = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "DRAGOMAN_")) and name.upper() not in PROXIES
    }
    around |= {"HOME": str(home), "DRAGOMAN_FACTS": "off", "NO_COLOR": "1"}
    around["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), around["PATH"]])
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("page_steps.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=around
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None

        def run(folder: Path, steps: list[dict[str, Any]]) -> list[str]:
            output, answer = folder.with_suffix(".out"), folder.with_suffix(".json")
            job = {"folder": str(folder), "output": str(output), "answer": str(answer), "steps": steps}
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n", process.stderr.read()
            told = json.loads(answer.read_text(encoding="utf-8"))
            assert told["error"] == "", told["error"]
            printed = output.read_bytes()
            return [
                printed[start:end].decode() for start, end in zip([0, *told["ends"][:-1]], told["ends"], strict=True)
            ]

        yield run
        process.stdin.close()


def list_steps(page: Path) -> Iterator[tuple[dict[str, Any], str | None, int]]:
    """Yield each step of a page, what it must print, and the line of the page that shows it."""
    blocks = read_blocks(page)
    for block, after in zip(blocks, [*blocks[1:], Block("", "", "", 0)], strict=True):
        if block.language == "python" and not block.title:
            shown = after.body if is_output(block, after) else None
            yield {"page": str(page), "line": block.line, "body": block.body}, shown, after.line
        for command in read_commands(block):
            yield {"command": command.line, "fails": command.output.startswith("error")}, command.output, command.number


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_blocks_run_and_print_what_is_shown(page: Path, interpreter: Interpreter, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for name in SHOWN_FOLDERS:
        (folder / name).symlink_to(ROOT / name)
    write_files(page, folder)
    steps = list(list_steps(page))
    printed = interpreter(folder, [step for step, _, _ in steps])
    for (step, shown, line), output in zip(steps, printed, strict=True):
        if shown is not None and ("command" not in step or shown.strip()):
            assert is_shown(output, shown), f"{name_of(page)}:{line} prints\n{output}"


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows or needs."""
    blocks = read_blocks(page)
    for block in blocks:
        if block.title and "/" not in block.title:
            path = folder / block.title
            path.write_text(block.body, encoding="utf-8")
            path.chmod(0o600)
    if any("company-ca.pem" in block.body for block in blocks if block.language == "python"):
        pytest.importorskip("cryptography")
        made = make_certificate(folder, "127.0.0.1")
        for name in ("company-ca.pem", "client.pem", "server.pem"):
            shutil.copy(made, folder / name)


def is_shown(output: str, shown: str) -> bool:
    """Whether a page shows an output. A line `...` of the page stands for any lines."""
    parts = re.split(r"^\.\.\.\n", shown.strip("\n") + "\n", flags=re.MULTILINE)
    return re.fullmatch(r"(?:.*\n)*?".join(map(re.escape, parts)), output.strip("\n") + "\n") is not None


def read_toml(text: str, folder: Path) -> None:
    """Read a block as its program does: the gateway, a package, the file of what was learned, or the settings."""
    tables = tomllib.loads(text)
    if tables.keys() & {"gateway", "endpoints", "routes"}:
        parse_settings(text)
    elif "project" in tables:
        known = {ENTRY_POINTS, AGENTS, formats.ENTRY_POINTS, providers.ENTRY_POINTS, wires.ENTRY_POINTS}
        assert set(tables["project"]["entry-points"]) <= known
    elif "facts" in tables:
        (folder / "facts.toml").write_text(text, encoding="utf-8")
        learned, problems = read_learned(folder / "facts.toml")
        assert learned and problems == []
    else:
        own = folder / "config.toml"
        own.write_text(text, encoding="utf-8")
        own.chmod(0o600)
        assert load(folder, {"HOME": str(folder), "DRAGOMAN_CONFIG": str(own)}).warnings == ()


def read_json(text: str, folder: Path) -> None:
    """Read a block: a list of MCP servers, one row of cases per line, or one value."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        assert parse_cases(text.encode(), "the block")
    else:
        assert "mcpServers" not in value or read_servers(value, {})


def read_nginx(text: str, folder: Path) -> None:
    (folder / "nginx.conf").write_text(
        f"pid {folder}/nginx.pid; events {{}} http {{ access_log off; {text} }}", encoding="utf-8"
    )
    command = ["nginx", "-t", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


READERS: dict[str, Callable[[str, Path], object]] = {
    "toml": read_toml,
    "json": read_json,
    "yaml": lambda text, folder: list(yaml.safe_load_all(text)),
    "nginx": read_nginx,
}


@pytest.mark.needs("nginx", package="nginx-light")
def test_configuration_is_read_by_its_program(tmp_path: Path) -> None:
    assert READERS.keys() == set(CONFIGURATIONS)
    blocks = [(page, each) for page in PAGES for each in read_blocks(page) if each.language in READERS]
    assert len(blocks) > 8
    for number, (page, block) in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            READERS[block.language](block.body, folder)
        except Exception as error:
            raise AssertionError(f"{name_of(page)}:{block.line}: {error}") from error


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    assert check_links() == []


def test_most_blocks_are_run_read_or_compared() -> None:
    """`make docs` prints these numbers."""
    counts = count_blocks()
    others = sum(number for kind, number in counts.items() if kind.startswith(OTHER))
    assert counts["Python, run"] > 100 and counts["commands, run"] and others < sum(counts.values()) / 3, counts


@each_row("wrong", ["model = 3", "[gateway]\nport = 'x'", "[[facts]]\nurl = 1", '[project.entry-points."dragoman.x"]'])
def test_wrong_configuration_is_noticed(wrong: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises((DragomanError, AssertionError)):
        read_toml(wrong, tmp_path_factory.mktemp("wrong"))

"""The wheel and the source distribution: what they contain, and that they work in a clean environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

import dragoman

# The fixtures build once if one worker runs all of them.
pytestmark = pytest.mark.xdist_group("distribution")
ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://git.example.org/team/dragoman"
EXTRAS = {"cli", "server", "local", "mcp", "otel", "durable"}
# What the extras bring. Without them, everything can be imported but the modules of these packages.
OF_EXTRAS = (
    "dbos httptools markdown_it opentelemetry prompt_toolkit psycopg rich starlette typer uvicorn uvloop xllamacpp"
)


def build(source: Path, target: Path, *kinds: str) -> None:
    options = [word for kind in kinds for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(target), *options]
    variables = {**os.environ, "DRAGOMAN_REPOSITORY": ADDRESS, "SOURCE_DATE_EPOCH": "1700000000"}
    done = subprocess.run(command, cwd=source, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder, "wheel", "sdist")
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def test_the_wheel_contains_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        points = archive.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    expected = {path.relative_to(ROOT / "src").as_posix() for path in files}
    package = {name for name in names if name.startswith("dragoman/")}
    assert package ^ expected == set() and "dragoman/py.typed" in package
    rest = {name.partition("/")[2] for name in names - package}
    assert rest == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert "dragoman = dragoman.__main__:main" in points


def test_the_metadata_says_what_a_package_index_shows(metadata: Message) -> None:
    assert metadata["Version"] == dragoman.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert re.fullmatch(r"[A-Z][^.]*\.", metadata["Summary"]), "one sentence"
    assert set(metadata.get_all("Provides-Extra", [])) >= EXTRAS
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL", []))
    assert urls["Source"] == ADDRESS and urls.keys() >= {"Documentation", "Changelog", "Issues", "Security"}
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    # Every link of the README is a full address, and leads to a file that exists.
    links = re.findall(r"\]\(([^)\s]+)\)", str(metadata.get_payload()))
    own = [re.sub(r".*/(blob|raw)/main/|#.*", "", link) for link in links if link.startswith(ADDRESS)]
    assert own and [link for link in links if not re.match("https?:|#", link)] == []
    assert [path for path in own if not (ROOT / path).exists()] == []


def test_a_build_without_an_address_has_no_urls_and_leaves_links_alone() -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from hatch_build import absolute_links, find_repository
    finally:
        sys.path.remove(str(ROOT))
    assert find_repository({}) == ""
    assert find_repository({"GITHUB_SERVER_URL": "https://x.org", "GITHUB_REPOSITORY": "a/b"}) == "https://x.org/a/b"
    text = '[a](docs/a.md#b) ![i](i.png) [w](https://w.org) [t](#t) <img src="p.svg">'
    there = (
        '[a](R/blob/main/docs/a.md#b) ![i](R/raw/main/i.png) [w](https://w.org) [t](#t) <img src="R/raw/main/p.svg">'
    )
    assert absolute_links(text, "R") == there


def test_the_source_distribution_builds_the_same_wheel(dist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    source = next(tmp_path.iterdir())
    assert {"LICENSE", "README.md", "CHANGELOG.md", "tests", "docs"} <= {path.name for path in source.iterdir()}
    build(source, tmp_path, "wheel")
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


WITHOUT_EXTRAS = f"""
import importlib, pkgutil, sys

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {OF_EXTRAS.split()}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent)
import dragoman
for name in dragoman.__all__:
    getattr(dragoman, name)
assert dragoman.__file__.startswith(sys.argv[1]), dragoman.__file__
for each in pkgutil.iter_modules(dragoman.__path__, "dragoman."):
    if each.name not in ("dragoman.cli", "dragoman.__main__"):
        importlib.import_module(each.name)

from dragoman.server.process import GatewayServer

def tell(use):
    try:
        print("worked", use())
    except dragoman.errors.DragomanError as error:
        print(error, "|", error.next_step)

tell(lambda: dragoman.Agent("local").run("hi"))
tell(lambda: dragoman.Agent("ollama:m", journal="postgres://me@127.0.0.1:1/x").run("hi"))
tell(lambda: dragoman.engine.PostgresEngine("postgres://me@127.0.0.1:1/x"))
tell(lambda: dragoman.telemetry.OpenTelemetry())
tell(lambda: GatewayServer(None, None))
from dragoman.__main__ import main
sys.argv[1:] = ["--version"]
print(main())
"""


def test_without_extras_everything_imports_and_what_needs_one_names_it(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS, str(tmp_path)]
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *told, version, code = done.stdout.splitlines()
    assert (version, code) == (f"dragoman {dragoman.__version__}", "0")
    parts = [line.partition(" | install it: ") for line in told]
    assert all(said.endswith(", which is not installed") for said, _, _ in parts)
    extras = ("local", "durable", "durable", "otel", "server")
    assert [command for _, _, command in parts] == [f'pip install "dragoman[{extra}]"' for extra in extras]


# ---- an installation, with packages of the registry -----------------------------------------------------------------


IMPORT_ALL = """
import pkgutil, sys, importlib, dragoman
for each in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
    if not each.name.startswith(("dragoman.cli", "dragoman.server", "dragoman.engine", "dragoman.integrations")):
        importlib.import_module(each.name)
"""
COMMANDS = {
    "--version": (0, f"dragoman {dragoman.__version__}"),
    "demo --help": (0, "Usage: dragoman demo"),
    "formats hermes": (0, "<tool_call>"),
    "run hi -m local --no-journal": (2, 'install it: pip install "dragoman[local]"'),
    "serve --to http://127.0.0.1:1": (2, 'install it: pip install "dragoman[server]"'),
    "status --engine postgres://me@127.0.0.1:1/x": (2, 'install it: pip install "dragoman[durable]"'),
}


def install(folder: Path, *requirements: str) -> Path:
    """Install into a new environment, and return its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    command = [str(programs / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return programs


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def run(*command: str) -> tuple[int, str]:
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    plain = install(tmp_path / "plain", str(wheel))
    assert run(str(plain / "python"), "-W", "error", "-c", IMPORT_ALL) == (0, "")
    assert run(str(plain / "dragoman"), "--version") == (0, f"dragoman {dragoman.__version__}\n")
    code, said = run(str(plain / "dragoman"), "serve")
    assert (code, 'hint: pip install "dragoman[cli,server]"' in said) == (2, True)
    commands = install(tmp_path / "commands", f"{wheel}[cli]")
    for words, (expected, part) in COMMANDS.items():
        code, said = run(str(commands / "dragoman"), *words.split())
        assert (words, code, part in said) == (words, expected, True), said

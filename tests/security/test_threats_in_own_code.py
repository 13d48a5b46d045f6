"""Nothing in the workspace runs on dragoman's behalf: with the environment, the package and the program inside it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman import mcp, own_code
from dragoman.cli.approval_prompt import EditError, edit_json
from dragoman.sandbox import Box, find_sandbox
from dragoman.tools import answer_sync, bind
from dragoman.types import ToolCall

PACKAGE = Path(dragoman.__file__).parent

# The program of a user, in the workspace. The first call plants what an attacker would leave there; every call after
# it makes dragoman start a helper, and the end of the run makes it import what it had not needed before.
PROGRAM = """
import json, os, pathlib, stat, sys
import dragoman
from dragoman import builtin
from dragoman.testing import ScriptedModel, call, calls

top = pathlib.Path(__file__).resolve().parent
marker = sys.argv[1]

def plant() -> str:
    "Leave files in the workspace."
    script = f"#!/bin/sh\\necho $0 >> {marker}\\nexit 1\\n"
    module = f"open({marker!r}, 'a').write(__file__ + chr(10))\\nraise ImportError('planted')\\n"
    programs = [top / ".venv/bin/python", top / ".venv/bin/python3"]
    programs += [top / "bin" / name for name in "rg bwrap bash sh git python3 python uv pip".split()]
    for path in programs:
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    loaded = {name.partition(".")[0] for name in sys.modules}
    names = set(sys.stdlib_module_names) | {"jsonschema_rs", "docstring_parser", "opentelemetry", "rich", "typer"}
    for name in names - loaded - {"antigravity", "this"}:
        (top / f"{name}.py").write_text(module)
    for path in (top / ".venv").rglob("dragoman/**/*.py"):
        path.write_text(module)
    return "planted"

turns = [calls(call("plant"))]
turns += [calls(call("bash", command="echo from-$((40 + 2))"))]
turns += [calls(call("grep", pattern="ScriptedModel"))]
turns += [calls(call("bash", command="exit 3")), calls(call("nothing")), calls(call("plant", extra=1))]
turns += [calls(call("web_fetch", url="http://127.0.0.1:9/")), "done"]
model = ScriptedModel(turns)
tools = [plant, builtin.Bash, builtin.Grep, builtin.WebFetch]
safety = dragoman.Safety(workspace=str(top), sandbox=sys.argv[2])
agent = dragoman.Agent(
    model.endpoint(), tools=tools, mode="bypass", connection=dragoman.Connection(transport=model), safety=safety
)
ran = agent.run("Work.")
import resource, ctypes, zipfile, sqlite3  # a late import of a name of the standard library
print(json.dumps([str(result.content) for result in ran.results]))
"""

BOXED = """
import json, sys
from dragoman.errors import ConfigError
from dragoman.own_code import own_paths
from dragoman.sandbox import Box, find_sandbox
top, tier = sys.argv[1:]
said = {"own": own_paths(top)}
try:
    for name, command in {"python": "echo x > .venv/bin/python", "move": "mv .venv old", "program": "echo x > agent.py",
                          "package": "echo x >> $(find .venv -name supervisor.py)", "work": "echo x > result"}.items():
        ran = find_sandbox(tier, top).run(["/bin/sh", "-c", command], Box(workspace=top))
        said[name] = ran.code
except ConfigError as problem:
    said["refused"] = str(problem)
print(json.dumps(said))
"""

DOCTOR = """
import contextlib, io, json, os, sys
from dragoman.__main__ import main
os.environ["DRAGOMAN_SANDBOX"] = "landlock"
sys.argv = ["dragoman", "doctor", "--sandbox", "--json"]
with contextlib.redirect_stdout(io.StringIO()) as printed:
    main()
report = json.loads(printed.getvalue())
print(json.dumps([report["holds"], report["refused_here"]]))
"""

WRITES = """
import json, sys
import dragoman
from dragoman import builtin
from dragoman.testing import ScriptedModel, call, calls
top = sys.argv[1]
paths = [".venv/bin/python", ".venv/lib/site.py", "agent.py", "link/bin/python", "other.py"]
model = ScriptedModel([calls(*(call("write", path=path, content="x") for path in paths)), "done"])
agent = dragoman.Agent(model.endpoint(), tools=[builtin.Write], mode="edits",
    connection=dragoman.Connection(transport=model), safety=dragoman.Safety(workspace=top))
print(json.dumps([result.is_error for result in agent.run("x").results]))
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A project with a virtual environment, dragoman in it, and a program that is started as `python agent.py`."""
    top = tmp_path / "project"
    site = top / ".venv/lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    shutil.copytree(PACKAGE, site / "dragoman", ignore=shutil.ignore_patterns("__pycache__", "samples"))
    dependencies = {str(Path(module.__file__ or "").parents[1]) for module in map(_module, own_code._DEPENDENCIES)}
    (site / "elsewhere.pth").write_text("\n".join(dependencies), encoding="utf-8")
    base: Any = sys._base_executable  # type: ignore[attr-defined]
    (top / ".venv/pyvenv.cfg").write_text(f"home = {Path(base).parent}\n", encoding="utf-8")
    (top / ".venv/bin").mkdir()
    (top / ".venv/bin/python").symlink_to(base)
    (top / "agent.py").write_text(PROGRAM, encoding="utf-8")
    return top


def _module(name: str) -> Any:
    return __import__(name)


def _run(top: Path, *words: str) -> Any:
    environment = {"PATH": f"{top}/bin:{os.environ['PATH']}", "HOME": str(top.parent), "LD_LIBRARY_PATH": f"{top}/lib"}
    command = [str(top / ".venv/bin/python"), *words]
    done = subprocess.run(command, cwd=top, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("sandbox", ["none", pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap"))])
def test_threat_25_helpers_and_late_imports_come_from_elsewhere(workspace: Path, sandbox: str) -> None:
    marker = workspace.parent / "marker"
    results = _run(workspace, "agent.py", str(marker), sandbox)
    assert not marker.exists(), marker.read_text()
    assert results[0] == "planted"
    assert "from-42" in results[1]
    assert "agent.py" in results[2]


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_threat_25_a_box_does_not_change_what_dragoman_runs_from(workspace: Path) -> None:
    (workspace / "box.py").write_text(BOXED, encoding="utf-8")
    (workspace / "agent.py").write_text("x", encoding="utf-8")
    said = _run(workspace, "box.py", str(workspace), "bubblewrap")
    assert ".venv" in said["own"]
    assert "box.py" in said["own"]
    assert [said["python"] != 0, said["move"] != 0, said["package"] != 0, said["work"]] == [True, True, True, 0]
    assert (workspace / ".venv/bin/python").is_symlink()


def test_threat_25_a_box_that_cannot_keep_the_environment_refuses(workspace: Path) -> None:
    (workspace / "box.py").write_text(BOXED, encoding="utf-8")
    said = _run(workspace, "box.py", str(workspace), "landlock")
    reason = f"dragoman runs from {workspace}/.venv, and Landlock cannot protect it from commands"
    assert said["refused"] == reason
    # The doctor tests the sandbox in a folder of its own, so it has to say this too.
    (workspace / "doctor.py").write_text(DOCTOR, encoding="utf-8")
    assert _run(workspace, "doctor.py") == [True, reason]


@pytest.mark.parametrize("tier", ["landlock", pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap"))])
def test_threat_25_a_tool_file_is_as_before_when_a_command_has_ended(
    tmp_path: Path, tier: Any, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setattr(own_code, "_named", {})
    (tmp_path / "tools").mkdir()
    for name in ("tools/weather.py", "notes.py"):
        (tmp_path / name).write_text("kept", encoding="utf-8")
    own_code.note_code(str(tmp_path / "tools/weather.py"))
    command = "echo x > notes.py; echo x > tools/weather.py; rm -rf tools; mkdir tools; echo x > tools/weather.py; true"
    aside = tmp_path_factory.mktemp("aside")
    ran = find_sandbox(tier).run(["/bin/sh", "-c", command], Box(workspace=str(tmp_path), aside=str(aside)))
    assert ran.code == 0
    assert (tmp_path / "tools/weather.py").read_text(encoding="utf-8") == "kept"
    assert (tmp_path / "notes.py").read_text(encoding="utf-8") == "x\n"
    assert any("weather.py" in each for each in ran.put_back) == (tier == "landlock")


def test_threat_25_file_tools_ask_before_they_change_it(workspace: Path) -> None:
    (workspace / "agent.py").write_text(WRITES, encoding="utf-8")
    (workspace / "link").symlink_to(".venv")
    assert _run(workspace, "agent.py", str(workspace)) == [True, True, True, True, False]


# Where a program lies, and whether it may be started for a workspace of /ws.
PLACES = {
    "outside": ("{top}/usr", True),
    "inside": ("{top}/ws/bin", False),
    "deep inside": ("{top}/ws/a/b/node_modules/.bin", False),
    "by a link from outside": ("{top}/outward", False),
    "by a link from inside": ("{top}/ws/inward", False),
    "relative": ("usr", False),
    "empty": ("", False),
}


@pytest.mark.parametrize("name", ["bwrap", "rg", "git", "bash", "python3"])
@pytest.mark.parametrize(("place", "is_found"), PLACES.values(), ids=list(PLACES))
def test_threat_25_no_program_of_the_workspace_is_found(
    place: str, is_found: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("usr", "ws/bin", "ws/a/b/node_modules/.bin"):
        program = tmp_path / folder / name
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    (tmp_path / "outward").symlink_to("ws/bin")
    (tmp_path / "ws/inward").symlink_to("../usr")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", place.format(top=tmp_path))
    assert (own_code.find_program(name, str(tmp_path / "ws")) is not None) == is_found


SERVER = Path(__file__).parents[1] / "mcp/sdk_server.py"


def make_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_threat_25_a_server_that_starts_again_is_the_same_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, marker, pid = tmp_path / "ws/bin", tmp_path / "marker", tmp_path / "pid"
    inside.mkdir(parents=True)
    make_program(tmp_path / "usr/weather", f"echo $$ > {pid}; exec {sys.executable} {SERVER} stdio")
    monkeypatch.setenv("PATH", f"{inside}:{tmp_path / 'usr'}:/usr/bin:/bin")
    limits = mcp.Limits(restart_delays=(0.0,))
    with mcp.connect([mcp.StdioServer("weather", ["weather"])], limits=limits, environment=os.environ) as toolbox:
        (forecast,) = (tool for tool in toolbox.tools if tool.metadata["mcp_tool"] == "forecast")
        make_program(inside / "weather", f"touch {marker}; exit 1")
        first = pid.read_text(encoding="utf-8")
        os.kill(int(first), signal.SIGKILL)
        asked = ToolCall("1", forecast.name, {"city": "Rome"})
        told = [answer_sync(bind(forecast, asked.arguments), asked, wait=asyncio.run).result for _ in range(2)]
        assert "sunny" in str(told[-1].content)
        assert pid.read_text(encoding="utf-8") != first
    assert not marker.exists()


def test_threat_25_the_editor_is_not_taken_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    make_program(tmp_path / "ws/bin/ed1", f"touch {marker}")
    make_program(tmp_path / "usr/ed1", "echo '{\"a\": 2}' > $1; [ ! -e ed1 ]")
    monkeypatch.chdir(tmp_path / "ws")
    monkeypatch.setenv("VISUAL", "ed1")
    monkeypatch.setenv("PATH", f":{tmp_path}/ws/bin:{tmp_path}/usr:/usr/bin:/bin")
    assert asyncio.run(edit_json("", {"a": 1})) == {"a": 2}
    (tmp_path / "usr/ed1").unlink()
    own_code._find_on.cache_clear()
    with pytest.raises(EditError, match="cannot start ed1"):
        asyncio.run(edit_json("", {"a": 1}))
    assert not marker.exists()


def test_threat_25_without_an_interpreter_elsewhere_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(dragoman.errors.ConfigError, match="no Python outside the workspace"):
        own_code.find_interpreter(os.path.dirname(os.path.realpath(sys.executable)))


@pytest.mark.parametrize("workspace", ["/", ""])
def test_threat_25_a_workspace_that_is_the_whole_file_system_shields_nothing(workspace: str) -> None:
    program = f"from dragoman.own_code import shield_imports; shield_imports({workspace!r}); import wave; print('done')"
    environment = {**os.environ, "PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], cwd="/", env=environment, capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr

"""The tool `bash`: the output of a command, its end, and the result for the model."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.builtin.commands.process_probe import PATIENCE, ProcessProbe, ask, output_of, run

from dragoman.builtin.commands import bash as bash_module
from dragoman.builtin.commands.bash import Bash, make_bash
from dragoman.errors import ConfigError, DragomanError
from dragoman.sandbox import BoxLimits
from dragoman.tools import Answer, ToolContext
from dragoman.toolset import as_tool
from dragoman.types import Operand

PROVIDER_KEY = "sk-not-to-be-seen-0123456789"


def test_the_tool_says_what_it_is() -> None:
    assert Bash.name == "bash"
    assert (Bash.parallel_safe, Bash.read_only, Bash.repeatable) == (False, False, False)
    assert as_tool(Bash).is_exec
    assert Bash.metadata == {"class": "exec", "exec": True, "family": "bash", "origin": "builtin"}
    assert list(Bash.parameters["properties"]) == ["command", "timeout"]
    assert "`cd`, variables and aliases do not carry over" in Bash.description


# ---- how it ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output", "ending", "data"),
    [
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n", "exit code 0", {"exit_code": 0, "bytes": 12}),
        ("true", "(no output)\n", "exit code 0", {"exit_code": 0, "bytes": 0}),
        ("echo; echo", "(no output)\n", "exit code 0", {"exit_code": 0, "bytes": 2}),
        ("printf word; exit 3", "word\n", "exit code 3", {"exit_code": 3, "signal": None}),
        ("kill -SEGV $$", "(no output)\n", "ended by SIGSEGV", {"exit_code": None, "signal": "SIGSEGV"}),
        ("echo in group; kill -INT 0", "in group\n", "ended by SIGINT", {"signal": "SIGINT"}),
        ("read line; echo $?", "1\n", "exit code 0", {"exit_code": 0}),
        ("test -t 0 || test -t 1 || echo $TERM", "dumb\n", "exit code 0", {}),
        ("exec 1>&- 2>&-; exit 4", "(no output)\n", "exit code 4", {"exit_code": 4}),
        ("rm -rf /nowhere-at-all; cd /; pwd", "/\n", "exit code 0", {}),
        ("yes | head -n 2", "y\ny\n", "exit code 0", {"exit_code": 0}),
        ("if", None, "exit code 2", {"exit_code": 2}),
        ("no-such-program-here", None, "exit code 127", {"exit_code": 127}),
    ],
    ids=lambda value: str(value)[:25],
)
def test_a_command_is_told_with_its_output_and_its_end(
    tmp_path: Path, command: str, output: str | None, ending: str, data: dict[str, Any]
) -> None:
    result = run(command, tmp_path).result
    assert isinstance(result.content, str)
    before, _, after = result.content.rpartition("[")
    assert output is None or before == output
    assert re.fullmatch(re.escape(ending) + r" after \d+\.\d s\]", after)
    assert not result.is_error
    assert data.items() <= result.data.items()


def test_every_call_begins_anew_in_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    run("cd inner; export CARRIED=1; alias ls=false", tmp_path)
    assert output_of(run('pwd; echo "${CARRIED-nothing}"', tmp_path)) == f"{tmp_path}\nnothing\n"


def test_a_command_that_deletes_its_folder_does_no_harm_to_the_next(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    before = Path.cwd()
    assert run(f"rm -r {workspace}; echo gone", workspace).result.data["exit_code"] == 0
    answer = run("echo unreachable", workspace)
    assert (answer.result.is_error, answer.result.content) == (
        True,
        f"Not run: the workspace {workspace} is not there.",
    )
    assert Path.cwd() == before


def test_it_runs_in_a_loop_of_another_thread(tmp_path: Path) -> None:
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(run("echo from a thread", tmp_path)))
    thread.start()
    thread.join(PATIENCE)
    assert output_of(answers[0]) == "from a thread\n"


def test_many_at_once_do_not_mix(tmp_path: Path) -> None:
    async def together() -> list[Answer]:
        context = ToolContext(workspace=str(tmp_path))
        return await asyncio.gather(*(ask(f"echo {number}; exit {number}", context) for number in range(8)))

    for number, answer in enumerate(asyncio.run(together())):
        assert output_of(answer) == f"{number}\n"
        assert answer.result.data["exit_code"] == number


def test_a_watching_person_is_told_the_last_line(tmp_path: Path) -> None:
    seen: list[str] = []
    context = ToolContext(workspace=str(tmp_path), progress=lambda message, fraction=None: seen.append(message))
    asyncio.run(ask(r"printf '\x1b[32m10%%\r20%%\n'", context))
    assert seen == ["20%"]


def test_a_watcher_that_fails_does_not_end_the_command(tmp_path: Path) -> None:
    def fail(message: str, fraction: float | None = None) -> None:
        raise RuntimeError("nobody is watching")

    answer = asyncio.run(ask("echo still here", ToolContext(workspace=str(tmp_path), progress=fail)))
    assert output_of(answer) == "still here\n"


# ---- what is not run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "more", "words"),
    [
        (" \n", {}, "Not run: the command is empty."),
        ("echo a\0b", {}, "Not run: a command cannot hold a NUL character."),
        ("echo \ud800", {}, "Not run: the command holds half a character (a lone surrogate)."),
        ("echo " + "x" * 100_000, {}, "Not run: the command has 100,005 bytes, and 100,000 is the most."),
        ("echo a", {"timeout": 0}, "Not run: timeout has to be more than 0 seconds."),
        ("echo a", {"timeout": -1}, "Not run: timeout has to be more than 0 seconds."),
    ],
    ids=["empty", "nul", "surrogate", "long", "no time", "negative time"],
)
def test_what_cannot_be_run_is_said(tmp_path: Path, command: str, more: dict[str, Any], words: str) -> None:
    result = run(command, tmp_path, **more).result
    assert result.is_error
    assert str(result.content).startswith(words)


def test_a_missing_shell_is_said(tmp_path: Path) -> None:
    result = run("echo a", tmp_path, make_bash(shell="/nowhere/bash")).result
    assert (result.is_error, result.content) == (True, "Not run: the shell /nowhere/bash is not there.")


def test_without_bash_the_answer_says_that_it_was_sh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = os.access
    monkeypatch.setattr(bash_module.os, "access", lambda path, mode: path != "/bin/bash" and access(path, mode))
    monkeypatch.setattr(bash_module, "find_program", lambda name, *folders: None)
    answer = run('echo "${BASH_VERSION-none}"', tmp_path)
    assert str(answer.result.content).endswith("[there is no bash on this system: it was run with sh]")


def test_the_end_of_the_run_is_an_end_for_the_command(tmp_path: Path) -> None:
    """The deadline is a time of the clock of the driver."""

    class Scope:
        clock = staticmethod(lambda: 100.0)

    context = ToolContext(workspace=str(tmp_path), deadline=100.5, scope=Scope())
    result = asyncio.run(ask("exec sleep 1000", context)).result
    assert result.is_error
    assert result.content == "(no output)\n[timed out after 0.35 s and was ended; part of its work may be done]"


# ---- the environment -------------------------------------------------------------------------------------------------


def test_a_command_sees_the_listed_variables_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threat 15."""
    trap = tmp_path / "trap.sh"
    trap.write_text("echo trapped\n", encoding="utf-8")
    for name, value in {
        "OPENAI_API_KEY": PROVIDER_KEY,
        "DRAGOMAN_MODE": "bypass",
        "BASH_ENV": str(trap),
        "ENV": str(trap),
        "LD_PRELOAD": "/nowhere/preload.so",
        "PYTHONPATH": "/nowhere",
        "BASH_FUNC_echo%%": "() { builtin echo trapped; }",
        "LC_TIME": "C",
        "TZ": "UTC",
    }.items():
        monkeypatch.setenv(name, value)
    told = output_of(run("env; echo done", tmp_path))
    names = {line.partition("=")[0] for line in told.splitlines()[:-1]}
    assert told.endswith("\ndone\n")
    listed = {"PATH", "HOME", "LANG", "TMPDIR", "USER", "SHELL", "TZ", "TERM"}
    names = {name for name in names if not name.startswith("GIT_")}
    assert names <= listed | {name for name in os.environ if name.startswith("LC_")} | {"PWD", "SHLVL", "_"}
    assert {"PATH", "TERM", "TZ", "LC_TIME"} <= names
    assert PROVIDER_KEY not in told


def test_the_processes_around_a_command_hold_no_key_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", PROVIDER_KEY)
    told = output_of(run("tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline", tmp_path))
    assert "Supervisor(int(sys.argv[1])" in told
    assert PROVIDER_KEY not in told


def test_the_caller_may_pass_on_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPATH", "/go")
    monkeypatch.setenv("OTHER", "no")
    by_name = make_bash(environment=("GOPATH", "NOT_SET"))
    with_value = make_bash(environment={"CI": "1", "OPENAI_API_KEY": "its own"})
    command = 'echo "${GOPATH-} ${OTHER-} ${CI-} ${OPENAI_API_KEY-} ${NOT_SET-unset}"'
    assert output_of(run(command, tmp_path, by_name)) == "/go    unset\n"
    assert output_of(run(command, tmp_path, with_value)) == "  1 its own unset\n"


@pytest.mark.parametrize(
    "names",
    [
        ("OPENAI_API_KEY",),
        ("ANTHROPIC_API_KEY",),
        ("DRAGOMAN_MODE",),
        ("BASH_ENV",),
        ("LD_PRELOAD",),
        ("BASH_FUNC_ls%%",),
        ("a b",),
        {"ENV": "x"},
        "PATH",
    ],
    ids=str,
)
def test_keys_and_ways_in_are_refused(names: Any) -> None:
    with pytest.raises(ConfigError):
        make_bash(environment=names)


# ---- scripts that changed --------------------------------------------------------------------------------------------


def operands_of(command: str, workspace: Path) -> tuple[Operand, ...]:
    assert Bash.inspect is not None
    return tuple(Bash.inspect({"command": command}, ToolContext(workspace=str(workspace))))


def test_the_operands_are_the_line_and_the_scripts_it_runs(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("echo job\n", encoding="utf-8")
    line, script = operands_of("bash job.sh --fast", tmp_path)
    assert line == Operand(kind="command", value="bash job.sh --fast", access="run")
    assert (script.kind, script.value, script.access, script.inside) == ("path", "job.sh", "run", True)
    assert script.real == str(tmp_path / "job.sh")
    found = (tmp_path / "job.sh").stat()
    assert script.identity == f"{found.st_dev}:{found.st_ino}"
    assert script.digest == hashlib.sha256(b"echo job\n").hexdigest()


def test_a_script_that_is_not_there_has_no_identity(tmp_path: Path) -> None:
    _, script = operands_of("bash later.sh", tmp_path)
    assert (script.value, script.identity, script.digest) == ("later.sh", "", "")


@pytest.mark.parametrize("arguments", [{}, {"command": 3}, {"command": "if ((("}, {"command": "\0"}], ids=str)
def test_odd_arguments_are_inspected_without_a_failure(tmp_path: Path, arguments: dict[str, Any]) -> None:
    assert Bash.inspect is not None
    (line, *_) = Bash.inspect(arguments, ToolContext(workspace=str(tmp_path)))
    assert line.kind == "command"


def change(way: str, folder: Path) -> None:
    script, other = folder / "job.sh", folder / "other.sh"
    other.write_text("echo approved\n" if way == "replaced" else "echo something else\n", encoding="utf-8")
    if way in ("rewritten", "created"):
        script.write_text("echo something else\n", encoding="utf-8")
    elif way == "replaced":
        other.replace(script)
    elif way in ("linked", "deleted"):
        script.unlink()
        if way == "linked":
            script.symlink_to(other)


@pytest.mark.parametrize("moment", ["after the approval", "after the last look of the tool"])
@pytest.mark.parametrize("way", ["rewritten", "replaced", "linked", "deleted", "created", "as it was"])
def test_a_script_that_changed_after_the_approval_is_not_run(
    tmp_path: Path, way: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way != "created":
        (tmp_path / "job.sh").write_text("echo approved\n", encoding="utf-8")
    approved = operands_of("bash job.sh", tmp_path)
    look = bash_module.has_changed

    def look_and_change(*given: Any) -> bool:
        found = look(*given)
        change(way, tmp_path)
        return found

    if moment == "after the approval":
        change(way, tmp_path)
    else:
        monkeypatch.setattr(bash_module, "has_changed", look_and_change)
    result = asyncio.run(ask("bash job.sh", ToolContext(workspace=str(tmp_path), operands=approved))).result
    if way == "as it was":
        assert str(result.content).startswith("approved\n")
    else:
        assert result.is_error
        assert "changed since it was approved" in str(result.content)


# ---- the sandbox -----------------------------------------------------------------------------------------------------


class BrokenSandbox:
    def launch(self, argv: Any, box: Any) -> Any:
        raise DragomanError("the kernel says no")


@pytest.mark.parametrize("by", ["context", "settings"])
def test_without_the_sandbox_that_is_wanted_nothing_runs(tmp_path: Path, by: str) -> None:
    tool = make_bash(sandbox=BrokenSandbox()) if by == "settings" else Bash
    context = ToolContext(workspace=str(tmp_path), sandbox=BrokenSandbox() if by == "context" else None)
    result = asyncio.run(ask("touch ran", context, tool)).result
    assert result.is_error
    assert "the kernel says no" in str(result.content)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_in_a_sandbox_the_workspace_is_all_there_is(tmp_path: Path, probe: ProcessProbe) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("secret", encoding="utf-8")
    tool = make_bash(sandbox="bubblewrap")
    command = f"cat {outside}; touch made; (setsid sleep 1000 9>probe >&9 2>&9 &); echo $HOME; exit 5"
    answer = run(command, tmp_path, tool)
    assert "secret" not in output_of(answer)
    assert str(Path.home()) + "\n" not in output_of(answer)
    assert answer.result.data["exit_code"] == 5
    assert (tmp_path / "made").exists()
    assert probe.is_alone()


def test_limits_hold_without_a_sandbox_too(tmp_path: Path) -> None:
    tool = make_bash(limits=BoxLimits(file_bytes=4096))
    answer = run("head -c 9999 /dev/zero > large; stat -c %s large", tmp_path, tool)
    assert "4096\n" in output_of(answer)
    assert run("ulimit -f", tmp_path).result.data["exit_code"] == 0


def test_a_folder_that_cannot_be_entered_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_module.os.path, "isdir", lambda path: True)
    result = run("echo a", tmp_path / "gone").result
    assert (result.is_error, result.content) == (True, f"Not run: {tmp_path / 'gone'}: No such file or directory")

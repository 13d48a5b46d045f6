"""Our reading of command lines against that of bash itself, on tens of thousands of hostile lines."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.policy.bash import WRAPPING, expected_calls, run_lines
from tests.policy.pieces import READING, TRAPS, make_hidden_lines, make_lines, make_reading_lines

from dragoman.builtin.commands.operands import find_reads
from dragoman.policy.shell import CommandLine, allows, mentions, read_command, read_only

pytestmark = pytest.mark.needs("bash")


def _words(line: CommandLine) -> list[tuple[str, ...]]:
    return [command.words for command in line.commands]


def _is_tame(line: CommandLine) -> bool:
    """Whether running the line, as we read it, cannot write a file nor reach a builtin."""
    return all(
        command.words
        and command.words[0] in ("git", "evil")
        and all(redirection.joins or redirection.discards for redirection in command.redirections)
        for command in line.commands
    )


def _only_reads(line: str, folder: Path) -> bool:
    """Whether a line only reads, and no name of a file in the folder becomes an option of it, or something unknown."""
    found = read_only(line)
    options = [each for each in find_reads(found.reads, str(folder)) if each.access == "run"]
    return found.verdict and not found.leaves and not options


def test_an_allowed_line_runs_what_the_rule_says_and_nothing_else(tmp_path: Path) -> None:
    lines = [line for line in make_lines(30_000, seed=14) if allows("git status*", line)]
    assert len(lines) > 2_000
    runs = run_lines(lines, ["git"], tmp_path)
    for line, calls in zip(lines, runs, strict=True):
        assert calls, line
        assert all(call[:2] == ("git", "status") for call in calls), line
        read = read_command(line)
        assert Counter(calls) == Counter(expected_calls(_words(read), read.operators)), line
    assert list((tmp_path / "place").iterdir()) == []


def test_an_exact_rule_runs_exactly_that(tmp_path: Path) -> None:
    lines = [line for line in make_lines(10_000, seed=15) if allows("git status", line)]
    assert len(lines) > 50
    runs = run_lines(lines, ["git"], tmp_path)
    assert {call for calls in runs for call in calls} == {("git", "status")}


def test_the_words_of_an_understood_line_are_the_arguments_that_bash_passes(tmp_path: Path) -> None:
    reads = [read for line in make_lines(20_000, seed=16) if (read := read_command(line)).understood and _is_tame(read)]
    assert len(reads) > 2_000
    assert any(command.assignments for read in reads for command in read.commands)
    runs = run_lines([read.text for read in reads], ["git", "evil"], tmp_path)
    for read, calls in zip(reads, runs, strict=True):
        assert Counter(calls) == Counter(expected_calls(_words(read), read.operators)), read.text


def test_any_mixture_of_special_characters_is_read_as_bash_reads_it_or_not_understood(tmp_path: Path) -> None:
    lots = random.Random(17)
    characters = " \t'\"\\$*?[]{}~!#&;|<>()=:,.-a1@%^+_`\n é"
    lines = ["git " + "".join(lots.choices(characters, k=lots.randint(1, 9))) for _ in range(30_000)]
    lines += ["git " + "".join(lots.choices("'\"\\ a$~={,.!#-", k=lots.randint(4, 12))) for _ in range(20_000)]
    reads = [read for line in lines if (read := read_command(line)).understood and _is_tame(read)]
    assert len(reads) > 5_000
    place = tmp_path / "place"
    place.mkdir()
    for name in ("a", "1", "-", "aa", "a1", "x y"):
        (place / name).touch()
    runs = run_lines([read.text for read in reads], ["git"], tmp_path)
    for read, calls in zip(reads, runs, strict=True):
        assert Counter(calls) == Counter(expected_calls(_words(read), read.operators)), read.text
    assert len(list(place.iterdir())) == 6


def test_a_line_that_only_reads_still_does_after_bash_has_expanded_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for name in TRAPS:
        (place / name).touch()
    lines = [line for line in make_reading_lines(20_000, seed=18) if _only_reads(line, place)]
    assert len(lines) > 2_000
    assert sum(not read_command(line).understood for line in lines) > 500
    programs = sorted({line.split()[0] for line in READING})
    for line, calls in zip(lines, run_lines(lines, programs, tmp_path), strict=True):
        for call in calls:
            assert read_only(shlex.join(call)).verdict, (line, call)
    assert len(list(place.iterdir())) == len(TRAPS)


def test_a_forbidden_program_is_found_however_it_is_hidden(tmp_path: Path) -> None:
    lines = make_hidden_lines(2_000, seed=19)
    place = tmp_path / "place"
    place.mkdir()
    for name in ("a", "evil"):
        (place / name).touch()
    runs = run_lines(lines, ["git", "evil"], tmp_path, status=1, apart=WRAPPING)
    guilty = [line for line, calls in zip(lines, runs, strict=True) if any(call[0] == "evil" for call in calls)]
    assert len(guilty) > 200
    for line in guilty:
        for pattern in ("evil*", "evil", "evil:*", "e*il"):
            assert mentions(pattern, line), (pattern, line)
        assert not allows("git status*", line), line
        assert not read_only(line).verdict, line


_SHOW_FOLDER = r"""
exec 9>"$1" 8<"$2"; cd "$3"
cat() { builtin printf '%s\0' "$PWD" "$1" >&9; }
while IFS= builtin read -r -d '' line <&8; do
  ( builtin eval -- "$line" ) </dev/null >/dev/null 2>&1
  builtin printf '%s\0' end end >&9
done
"""


def test_the_folders_in_which_a_file_may_be_read_are_known(tmp_path: Path) -> None:
    """Lines of `cd`, successes and failures in any order: what bash reads, and where, is among what was said."""
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "c").mkdir()
    lots = random.Random(20)
    steps = ("cd a", "cd b", "cd c", "cd ..", "cd nowhere", "true", "false", "cat x", "cat ../y", "cd a/b", "cd ./c/..")
    joints = (" && ", " || ", "; ", " | ", "\n")
    lines = []
    for _ in range(3_000):
        parts = lots.choices(steps, k=lots.randint(2, 6))
        lines.append("".join(part + lots.choice(joints) for part in parts) + "cat z")
    (tmp_path / "lines").write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    command = ["bash", "--norc", "--noprofile", "-c", _SHOW_FOLDER, "bash", "traces", "lines", str(top)]
    subprocess.run(
        command, cwd=tmp_path, env={"PATH": "/nowhere"}, check=True, timeout=120, executable=shutil.which("bash")
    )
    shown = iter((tmp_path / "traces").read_text(encoding="utf-8").split("\0"))
    count = 0
    for line in lines:
        expected = {
            (os.path.normpath(top / folder), reading.path)
            for reading in read_only(line).reads
            for folder in reading.folders
        }
        while (folder := next(shown)) and folder != "end":
            count += 1
            assert (folder, next(shown)) in expected, line
        assert next(shown) == "end"
    assert count > 2_000

"""A change of a file is shown as a diff before it is approved: of the file as it is, bounded, and without secrets."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from dragoman.agent.approvals import ApprovalRequest
from dragoman.agent.changes import LONGEST, find_change
from dragoman.cli.approval_prompt import draw_change
from dragoman.cli.screen import Screen
from dragoman.secrets import HumanSink
from dragoman.types import Operand, ToolCall

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
OTHER = "".join(f"{number}\n" for number in range(3000))


def ask(path: Path, tool: str, digest: str | None = None, **arguments: Any) -> ApprovalRequest:
    content = path.read_bytes() if path.is_file() else b""
    identity = "1:2" if path.exists() else ""
    found = hashlib.sha256(content).hexdigest() if digest is None else digest
    operand = Operand("path", path.name, "write", str(path), identity=identity, digest=found)
    return ApprovalRequest("apr_1", ToolCall("c1", tool, {"path": path.name, **arguments}), "", operands=(operand,))


def test_the_lines_that_would_change_and_why_there_are_none(tmp_path: Path) -> None:
    notes, new, crlf = tmp_path / "notes.txt", tmp_path / "new.txt", tmp_path / "crlf.txt"
    binary, large, nowhere = tmp_path / "a.bin", tmp_path / "large.txt", tmp_path / "no" / "file"
    notes.write_text(TEXT, encoding="utf-8")
    crlf.write_bytes(b"one\r\ntwo\r\n")
    binary.write_bytes(b"a\0b")
    large.write_text("x" * (LONGEST + 1), encoding="utf-8")
    password = "password: " + "hunter2secret99"
    rows: list[tuple[ApprovalRequest, list[str], str]] = [
        (ask(notes, "edit", old="line 20\n", new="20\n"), ["-line 20", "+20"], ""),
        (ask(notes, "edit", old="line 2", new="x", replace_all=True), ["-line 2", "+x", "-line 20", "+x0"], ""),
        (ask(notes, "edit", old="line 2", new="x"), [], "not in the file"),
        (ask(notes, "edit", old="absent", new="x"), [], "not in the file"),
        (ask(notes, "write", content=TEXT), [], "nothing would change"),
        (ask(notes, "write", content=TEXT[:-1]), ["@ only the line break"], ""),
        (ask(notes, "write", content=TEXT + "more"), ["+more"], ""),
        (ask(notes, "write", content=OTHER), [], "40 lines become 3000 lines: too many"),
        (ask(new, "write", content="a\nb\n"), ["+a", "+b"], ""),
        (ask(new, "write", content=f"{password}\n"), ["+password: [redacted:password]"], ""),
        (ask(crlf, "edit", old="two", new="three"), ["-two", "+three"], ""),
        (ask(notes, "write", digest="0" * 64, content="x"), [], "the file changed since"),
        (ask(binary, "write", content="x"), [], "cannot be shown as text"),
        (ask(large, "write", content="x"), [], "cannot be shown as text"),
        (ask(nowhere, "write", content="x"), ["+x"], ""),
    ]
    wrong = []
    for request, lines, note in rows:
        change = find_change(request, HumanSink())
        assert change is not None
        marked = [line for line in change.lines if line[:1] in "+-@" and not line.startswith("@@")]
        is_right = note in change.note and bool(change.note) == bool(note) and len(marked) >= len(lines)
        if not is_right or not all(any(line.startswith(each) for line in marked) for each in lines):
            wrong.append((request.call, change))
        assert "hunter2" not in str(change)
    assert not wrong
    # Another tool of that name, with other arguments, is not understood.
    assert find_change(ask(notes, "write", text="x"), HumanSink()) is None
    assert find_change(ask(notes, "deploy", content="x"), HumanSink()) is None


def test_a_diff_is_bounded_marked_and_without_colours_in_a_pipe(tmp_path: Path) -> None:
    request = ask(tmp_path / "new.txt", "write", content="approve y?\x1b[2J\u202e\n" + "x" * 500 + "\n" + TEXT)
    change = find_change(request, HumanSink())
    assert change is not None
    out = io.StringIO()
    assert draw_change(Screen(out), change, 10) is True
    lines = out.getvalue().splitlines()
    assert lines[0] == "  change of new.txt  +42 -0"
    assert lines[-1] == "    … 33 more lines of the diff"
    assert all(line.startswith("    | ") for line in lines[1:-1]) and len(lines) == 12
    assert "\x1b" not in out.getvalue() and "\\u001b[2J\\u202e" in lines[2]
    assert "(+301 characters)" in lines[3]
    assert draw_change(Screen(io.StringIO()), change, None) is False

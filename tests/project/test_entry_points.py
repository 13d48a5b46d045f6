"""Packages that add formats and wires through entry points, as they do providers and tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGE = """
from dragoman.formats import Format
from dragoman.wire import WireRow
from dragoman.wire.openai_chat import OpenAIChat

FORMATS = [Format("acme_marks", template="<<acme {name}>>\\n{args}\\n<</acme>>")]


class AcmeChat(OpenAIChat):
    name = "acme_chat"
    path = "/acme/chat"
    row = WireRow("AcmeChat", r"/acme/chat$")


def formats():
    return FORMATS


def broken():
    raise RuntimeError("the package is broken")
"""
POINTS = """
[dragoman.formats]
acme = acme_dragoman:formats
broken = acme_dragoman:broken
taken = acme_dragoman:AcmeChat

[dragoman.wire]
acme = acme_dragoman:AcmeChat
broken = acme_dragoman:missing
"""
PROGRAM = """
import sys
import dragoman
from dragoman import formats, wire
from dragoman.providers import Registry

assert "importlib.metadata" not in sys.modules
calls = formats.parse('<<acme look>>\\n{"at": 1}\\n<</acme>>', "acme_marks").calls
assert [(call.name, call.arguments) for call in calls] == [("look", {"at": 1})]
assert "acme_marks" in formats.names()
try:
    formats.get("acme_markz")
except dragoman.DragomanError as problem:
    print(problem.explain())
assert wire.get("acme_chat").encode_request(dragoman.Request("m", [dragoman.Message.user("hi")]))["model"] == "m"
rows = '[providers.acme]\\nwires = ["acme_chat"]\\nbase_url = "http://a.invalid"\\nauth = "none"\\n'
endpoint = Registry.default().with_rows(rows).resolve("acme:m")
assert endpoint.wire == "acme_chat", endpoint
try:
    wire.get("acme_chatt")
except dragoman.DragomanError as problem:
    print(problem.explain())
"""


def test_an_installed_package_adds_formats_and_wires(tmp_path: Path) -> None:
    (tmp_path / "acme_dragoman.py").write_text(PACKAGE)
    info = tmp_path / "acme_dragoman-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-dragoman\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "unknown format 'acme_markz'; did you mean 'acme_marks'?" in ran.stdout
    assert "entry point 'broken' of dragoman.formats: RuntimeError: the package is broken" in ran.stdout
    assert "entry point 'taken' of dragoman.formats: ConfigError" in ran.stdout
    assert "entry point 'broken' of dragoman.wire: AttributeError" in ran.stdout
    assert "did you mean 'acme_chat'?" in ran.stdout

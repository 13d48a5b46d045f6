"""A tool whose operand is a file, for tests of approvals: `launch` runs a script and records its text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import dragoman
from dragoman.types import Operand, Tool


class Launcher:
    """Runs scripts of a folder. `ran` contains the text of each script that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.looks = 0
        self.before_look: Any = None
        """Called before each look at the file, with the number of the look."""
        (folder / "job.sh").write_text("echo hello\n", encoding="utf-8")

    def tool(self, **settings: Any) -> Tool:
        @dragoman.tool(requires_approval=True, **settings)
        def launch(script: str, times: int = 1) -> str:
            """Run a script."""
            self.ran.append((self.folder / script).read_text(encoding="utf-8"))
            return f"ran {script}"

        return replace(launch.__dragoman_tool__, inspect=self.inspect)

    def inspect(self, arguments: dict[str, Any], context: Any) -> Iterable[Operand]:
        self.looks += 1
        if self.before_look is not None:
            self.before_look(self.looks)
        path = self.folder / arguments["script"]
        real = path.resolve()
        if not real.exists():
            return [Operand("path", arguments["script"], "run", str(real))]
        stat = real.stat()
        digest = hashlib.sha256(real.read_bytes()).hexdigest()
        return [
            Operand(
                "path", arguments["script"], "run", str(real), identity=f"{stat.st_dev}:{stat.st_ino}", digest=digest
            )
        ]

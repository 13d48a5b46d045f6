"""A run continues after its process was killed: what ran before is not run again."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import dragoman
from dragoman.testing import ScriptedModel, call


@dragoman.tool
def send(to: str) -> str:
    """Send the letter."""
    with open(os.environ["OUTBOX"], "a", encoding="utf-8") as outbox:
        outbox.write(f"to {to}\n")
    return f"sent to {to}"


def make(script: list[Any]) -> dragoman.Agent:
    return dragoman.Agent(ScriptedModel(script), tools=[send], journal=os.environ["JOURNAL"])  # or "ollama:qwen3"


if sys.argv[1:] == ["child"]:
    # The process dies when it asks the model for the second time.
    make([call("send", to="Ada"), lambda request: os.kill(os.getpid(), signal.SIGKILL)]).run("Write.", run_id="letters")

with tempfile.TemporaryDirectory() as folder:
    os.environ |= {"JOURNAL": str(Path(folder) / "journal.db"), "OUTBOX": str(Path(folder) / "outbox")}
    killed = subprocess.run([sys.executable, __file__, "child"])
    print("killed by", signal.Signals(-killed.returncode).name)
    agent = make(["The letter is on its way."])
    print(agent.resume("letters").text)
    print(Path(os.environ["OUTBOX"]).read_text(encoding="utf-8"), end="")
    agent.close()

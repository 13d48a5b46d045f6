"""A coding helper: it reads on its own, and asks you before it edits a file or runs a command.

python examples/coding_helper.py                                    (a scripted model repairs a file in a new folder)
MODEL=ollama:qwen3 python examples/coding_helper.py ~/project "Make the tests pass"
"""

import os
import sys
import tempfile
from pathlib import Path

import dragoman
from dragoman import builtin
from dragoman.testing import ScriptedModel, call

BROKEN = "def add(a, b):\n    return a - b\n"
SCRIPT = (
    call("read", path="sums.py"),
    call("edit", path="sums.py", old="a - b", new="a + b"),
    call("bash", command="python3 -c 'import sums; print(sums.add(2, 3))'"),
    "add() subtracted; now it adds, and add(2, 3) is 5.",
)


def approve(request: dragoman.ApprovalRequest) -> dragoman.Approval | bool:
    """Show what would run, and wait for an answer. It holds for exactly this call."""
    print(f"\n{request.tool} wants to run: {request.why}")
    for name, value in request.arguments.items():
        print(f"  {name}: {value}")
    reply = input(f"[y]es, [n]o, [a]lways {request.suggestion}? ").strip().lower()
    if reply.startswith("a"):
        return dragoman.Approval(True, rule=request.suggestion)
    return reply.startswith("y")


def main() -> None:
    if len(sys.argv) == 3:
        folder, task = sys.argv[1:]
    else:
        folder, task = tempfile.mkdtemp(), "add() in sums.py gives wrong results. Repair it."
        Path(folder, "sums.py").write_text(BROKEN, encoding="utf-8")
    agent = dragoman.Agent(
        os.environ.get("MODEL") or ScriptedModel(SCRIPT),
        tools=[builtin.Read, builtin.Glob, builtin.Grep, builtin.Edit, builtin.Write, builtin.Bash],
        system="You are a careful programmer. Read before you edit, and run the tests afterwards.",
        base_url=os.environ.get("BASE_URL", ""),
        approve=approve,
        limits=dragoman.Limits(turns=30),
        safety=dragoman.Safety(workspace=folder),
    )
    result = agent.run(task)
    for ran in result.results:
        print(f"\n{ran.name}: {ran.content}")
    print(f"\n{result.text}")


if __name__ == "__main__":
    main()

"""A program that runs the code of pages. It loads the library once, and runs each page in a child of its own.

It reads one job per line: the folder to work in, the steps, and two files for what they print and for the answer: where
the output of each step ends, and the error of the last. A step is Python code or a command of the shell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from importlib import import_module
from types import ModuleType
from typing import Any

# To load what most pages use takes longer than most pages do.
COMMON = ("agent.agent", "client.client", "extraction", "formats", "testing", "wire.openai_chat")


def run_command(line: str, fails: bool) -> None:
    """Run a command, and print its output, or its message if it fails as the page says."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if bool(done.returncode) is not fails:
        raise SystemExit(f"{line}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    print(done.stderr if fails else done.stdout, end="")


def run_steps(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Run steps in order, in one namespace, until one raises."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    ends: list[int] = []
    for step in steps:
        try:
            if "file" in step:
                with open(step["file"], "w", encoding="utf-8") as file:
                    file.write(step["body"])
            elif "command" in step:
                run_command(step["command"], step["fails"])
            else:
                # Empty lines in front of the code, so that a traceback names the line of the page.
                exec(compile("\n" * (step["line"] - 1) + step["body"], step["page"], "exec"), module.__dict__)
        except BaseException:
            return {"ends": ends, "error": traceback.format_exc()}
        sys.stdout.flush()
        ends.append(os.fstat(1).st_size)
    return {"ends": ends, "error": ""}


def run_job(job: dict[str, Any]) -> None:
    """Run the steps of a page, with its own output and nothing to read."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.chdir(job["folder"])
    sys.path.insert(0, job["folder"])
    told = run_steps(job["steps"])
    with open(job["answer"], "w", encoding="utf-8") as file:
        json.dump(told, file)


def main() -> None:
    for name in COMMON:
        import_module(f"dragoman.{name}")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            # The child ends as a program does: what the page registered with `atexit` runs too.
            run_job(json.loads(line))
            return
        os.waitpid(child, 0)
        print("done", flush=True)


if __name__ == "__main__":
    main()

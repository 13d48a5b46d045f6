"""Runs command lines under the real bash, with every program replaced by a function that notes its arguments."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

# Each line is read up to a NUL, run with `eval`, and followed by an end mark. Programs are functions, so that nothing
# is started; a name that is none of them reaches `command_not_found_handle`, because PATH leads nowhere. What is noted
# goes to descriptor 9. Builtins that are not shadowed stay what they are: callers only pass lines that cannot write
# outside the folder they are run in.
_SCRIPT = r"""
exec 9>"$1" 8<"$2"; shift 2
for name in "$@"; do
  builtin eval "function $name { builtin printf '%s\0' call \$((\$# + 1)) '$name' \"\$@\" >&9; return $STATUS; }"
done
command_not_found_handle() { builtin printf '%s\0' call $# "$@" >&9; builtin return 127; }
PATH=/nowhere
"""
_LOOP = r"""
while IFS= builtin read -r -d '' line <&8; do
  builtin unset IFS A FOO
  BEFORE builtin eval -- "$line" AFTER </dev/null >/dev/null 2>&1
  builtin wait
  builtin printf '%s\0' end >&9
done
"""
# Programs that run others, as functions that do it the way the real ones do.
WRAPPING = r"""
sudo() { "$@"; }; nohup() { "$@"; }; timeout() { shift; "$@"; }
env() { while [[ $1 == *=* || $1 == -* ]]; do shift; done; "$@"; }
take() { IFS= builtin read -r -d '' taken; }
sh() {
  local taken
  if [[ $1 == -c ]]; then builtin eval -- "$2"
  elif [[ $# -gt 0 && $1 != -s ]]; then builtin source "./$1"
  else take; builtin eval -- "$taken"; fi
}
bash() { sh "$@"; }
cat() { local taken; if [[ $# -gt 0 ]]; then take <"$1"; else take; fi; builtin printf %s "$taken"; }
tee() { local taken; take; builtin printf %s "$taken" >"$1"; }
xargs() {
  local taken mark=
  if [[ $1 == -I* ]]; then mark=${1#-I}; shift; fi
  take; local IFS=$' \n'
  if [[ $mark ]]; then "${@//$mark/$taken}"; else "$@" $taken; fi
}
"""

Argv = tuple[str, ...]


def run_lines(
    lines: Sequence[str], programs: Iterable[str], folder: Path, status: int = 0, apart: str = ""
) -> list[list[Argv]]:
    """What bash runs for each line: the arguments, program first, of everything it started.

    With `apart`, which may define more functions, every line has a shell and a second of its own.
    """
    traces, inputs, place = folder / "traces", folder / "lines", folder / "place"
    place.mkdir(exist_ok=True)
    inputs.write_bytes(b"".join(line.encode() + b"\0" for line in lines))
    before, after = ("( ulimit -t 1;", ")") if apart else ("", "")
    script = _SCRIPT.replace("$STATUS", str(status)) + apart + _LOOP.replace("BEFORE", before).replace("AFTER", after)
    bash = shutil.which("bash") or "bash"
    process = subprocess.Popen(
        [bash, "--norc", "--noprofile", "-c", script, "bash", str(traces), str(inputs), *programs],
        cwd=place,
        env={"HOME": "/home/somebody", "LC_ALL": "C.UTF-8", "NAME": "-o"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    runs = _read_traces(traces.read_bytes())
    assert len(runs) == len(lines), f"bash stopped at {lines[len(runs)]!r}"
    return runs


def _read_traces(data: bytes) -> list[list[Argv]]:
    fields = iter(field.decode() for field in data.split(b"\0")[:-1])
    runs: list[list[Argv]] = []
    calls: list[Argv] = []
    for field in fields:
        if field == "end":
            runs.append(calls)
            calls = []
        else:
            count = int(next(fields))
            calls.append(tuple(next(fields) for _ in range(count)))
    return runs


def expected_calls(commands: Sequence[Argv], operators: Sequence[str]) -> list[Argv]:
    """What bash starts where every program succeeds: what follows `||` is left out, with its whole pipeline."""
    calls: list[Argv] = []
    is_skipped = False
    for index, words in enumerate(commands):
        operator = operators[index - 1] if index else ";"
        if operator != "|":
            is_skipped = operator == "||"
        if not is_skipped:
            calls.append(words)
    return calls

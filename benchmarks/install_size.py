"""What a plain install brings: distributions and megabytes, in an environment that is thrown away.

python benchmarks/install_size.py                   dragoman alone
python benchmarks/install_size.py openai litellm    others beside it
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_DISTRIBUTIONS = 15
MOST_MEGABYTES = 32
# They belong to the environment, not to what is installed into it.
_NOT_COUNTED = frozenset({"pip", "setuptools", "wheel"})
_COUNT = "import importlib.metadata as m, json; print(json.dumps(sorted({d.name.lower() for d in m.distributions()})))"


def measure(requirement: str) -> tuple[list[str], float]:
    """The distributions and the megabytes that installing something brings, compiled bytecode left out."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        before = _megabytes(Path(folder))
        install: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        install.append(requirement)
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        listed = subprocess.run([python, "-c", _COUNT], capture_output=True, text=True, check=True).stdout
        names = [name for name in json.loads(listed) if name not in _NOT_COUNTED]
        return names, _megabytes(Path(folder)) - before


def _megabytes(folder: Path) -> float:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc") / 1e6


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("others", nargs="*", help="requirements to measure beside dragoman")
    given = options.parse_args()
    names, megabytes = measure(str(ROOT))
    print(f"{'dragoman':<16} {len(names):>3} distributions {megabytes:>6.1f} MB  ({', '.join(names)})")
    for other in given.others:
        found, size = measure(other)
        print(f"{other:<16} {len(found):>3} distributions {size:>6.1f} MB")
    kept = len(names) <= MOST_DISTRIBUTIONS and megabytes <= MOST_MEGABYTES
    print(f"budget ({MOST_DISTRIBUTIONS} distributions, {MOST_MEGABYTES} MB): {'kept' if kept else 'EXCEEDED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure dragoman side by side with other programs, and write docs/benchmarks.md.

    python -m benchmarks.peers                     all groups
    python -m benchmarks.peers loops scanners      some of them; the page keeps the last results of the others
    python -m benchmarks.peers --quick             few repetitions: the figures are rough
    python -m benchmarks.peers --page              write the page again from the last results

The peers are installed into environments of their own below the user's cache, which the next run finds again. The
installation uses the network; the measurements use the loopback only. A peer that cannot be installed or started is a
row of the table with the reason. The files are written at the end, so an interrupted run changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers import gateways, loops, page, parsers, scanners
from benchmarks.peers.rows import ROOT
from benchmarks.peers.summary import update_readme
from benchmarks.support.environments import Environments, cache_folder
from benchmarks.support.progress import Progress

Measure = Callable[..., dict[str, Any]]
GROUPS: dict[str, Measure] = {
    "loops": loops.measure,
    "parsers": parsers.measure,
    "gateways": gateways.measure,
    "scanners": scanners.measure,
}
RESULTS = Path(__file__).with_name("results.json")


def describe_machine() -> dict[str, Any]:
    """The machine in general terms."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "system": f"{platform.system()} on {platform.machine()}",
        "python": platform.python_version(),
    }


def measure_groups(names: list[str], folder: Path, *, quick: bool) -> dict[str, Any]:
    """The results of the groups. A group that fails as a whole is left out, with its reason on standard error."""
    environments, progress = Environments(folder), Progress()
    found: dict[str, Any] = {}
    for name in names:
        started = time.monotonic()
        try:
            result = GROUPS[name](environments, progress, quick=quick)
        except Exception as error:
            # The other groups have taken minutes; they are not lost with this one.
            traceback.print_exception(error)
            progress.finish(f"{name}: not measured: {type(error).__name__}: {error}")
            continue
        seconds = time.monotonic() - started
        progress.finish(f"{name}: {seconds:.0f} s")
        today = datetime.now(UTC).date().isoformat()
        found[name] = {
            "date": today,
            "machine": describe_machine(),
            "quick": quick,
            "seconds": round(seconds),
            **result,
        }
    return found


def without_details(group: dict[str, Any]) -> dict[str, Any]:
    """The results of a group without the reasons of each verdict, which only `--json` writes."""
    for row in group.get("odd", []):
        for cells in row["verdicts"].values():
            for mode, cell in cells.items():
                cells[mode] = {"verdict": cell["verdict"]}
    return group


def write_whole(path: Path, text: str) -> None:
    """Write a file at once: whoever reads it finds the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def write_page(results: dict[str, Any]) -> None:
    """Write the page and its pictures, and the tables of the README."""
    for path, text in page.write(results).items():
        write_whole(ROOT / "docs" / path, text)
    readme = ROOT / "README.md"
    write_whole(readme, update_readme(readme.read_text(encoding="utf-8"), results))


def read_arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("groups", nargs="*", metavar="GROUP", help=f"one or more of: {', '.join(GROUPS)}")
    options.add_argument("--folder", type=Path, help="the folder of the environments (default: the user's cache)")
    options.add_argument("--quick", action="store_true", help="few repetitions")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md and the last results alone")
    options.add_argument("--page", action="store_true", help="measure nothing, write the page from the last results")
    given = options.parse_args()
    unknown = sorted(set(given.groups) - set(GROUPS))
    if unknown:
        options.error(f"unknown group {unknown[0]!r}; choose from {', '.join(GROUPS)}")
    return given


def main() -> int:
    given = read_arguments()
    known = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if given.page:
        write_page(known)
        return 0
    folder = (given.folder or cache_folder() / "peers").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = measure_groups(given.groups or list(GROUPS), folder, quick=given.quick)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing was written", file=sys.stderr)
        return 130
    if given.json:
        write_whole(given.json, json.dumps(found, indent=1) + "\n")
    if not given.no_page:
        results = {name: (known | found)[name] for name in GROUPS if name in known | found}
        results = {name: without_details(group) for name, group in results.items()}
        write_whole(RESULTS, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        write_page(results)
        print(f"wrote {page.PAGE} and {RESULTS.relative_to(ROOT)}", file=sys.stderr)
    return 0 if len(found) == len(given.groups or GROUPS) else 1


if __name__ == "__main__":
    sys.exit(main())

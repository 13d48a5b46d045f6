"""The packages of their authors read our streams for web front ends: the Vercel AI SDK, and AG-UI."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.support.environments import Environments
from tests.integrations.ui_runs import RUNS, write
from tests.peers.report import Report

from dragoman.integrations.ui_stream import Protocol

_SECONDS = 120.0
VERCEL = """
import { readFileSync } from 'node:fs';
import { parseJsonEventStream } from '@ai-sdk/provider-utils';
import { readUIMessageStream, uiMessageChunkSchema } from 'ai';

for (const path of process.argv.slice(2)) {
  const problems = [], errors = [];
  const body = new Response(readFileSync(path)).body;
  const chunks = parseJsonEventStream({ stream: body, schema: uiMessageChunkSchema }).pipeThrough(
    new TransformStream({ transform(part, out) {
      if (part.success) out.enqueue(part.value); else problems.push(String(part.error));
    } }));
  let last = { parts: [] };
  try {
    for await (const message of readUIMessageStream({ stream: chunks, onError: (e) => errors.push(e.message) }))
      last = message;
  } catch (error) { problems.push(String(error)); }
  console.log(JSON.stringify({ problems, errors, parts: last.parts.map((part) => [part.type, part.state ?? '']) }));
}
"""
AG_UI = """
import { readFileSync } from 'node:fs';
import { verifyEvents } from '@ag-ui/client';
import { from, lastValueFrom, toArray } from 'rxjs';

for (const path of process.argv.slice(2)) {
  const lines = readFileSync(path, 'utf8').split('\\n\\n').filter(Boolean);
  const problems = [];
  try {
    await lastValueFrom(from(lines.map((line) => JSON.parse(line.slice(6)))).pipe(verifyEvents(false), toArray()));
  } catch (error) { problems.push(String(error)); }
  console.log(JSON.stringify({ problems }));
}
"""
AG_UI_MODELS = """
import json, sys
from ag_ui.core import Event
from pydantic import TypeAdapter

for path in sys.argv[1:]:
    problems = []
    for line in filter(None, open(path, encoding="utf-8", newline="").read().split("\\n\\n")):
        sent = json.loads(line[6:])
        read = TypeAdapter(Event).validate_python(sent).model_dump(mode="json", by_alias=True, exclude_none=True)
        problems += [] if read == sent else [f"{sent} became {read}"]
    print(json.dumps({"problems": problems}))
"""
_FAILED = ("failure", "cut", "limit", "never", "without", "same ids", "no event")
"""Words in the names of runs that fail, which a front end has to show."""


def check(environments: Environments, report: Report) -> None:
    """Run all checks of these peers."""
    with report.check("Vercel AI SDK", "every run is a message without a problem"):
        modules = environments.node("ai", "ai").parent
        for name, told in _judge(["node"], modules.parent / "judge.mjs", VERCEL, "vercel").items():
            states = {state for kind, state in told["parts"] if kind != "step-start"}
            assert not told["problems"], f"{name}: {told['problems']}"
            assert not states & {"streaming", "input-streaming"}, f"{name}: {told['parts']}"
            assert bool(told["errors"]) is any(word in name for word in _FAILED), f"{name}: {told['errors']}"
    with report.check("AG-UI", "the client of TypeScript accepts the order of events"):
        modules = environments.node("ag-ui", "@ag-ui/client").parent
        for name, told in _judge(["node"], modules.parent / "judge.mjs", AG_UI, "ag_ui").items():
            assert not told["problems"], f"{name}: {told['problems']}"
    with report.check("AG-UI", "the models of Python know every field"):
        python = environments.python("ag-ui-python", "ag-ui-protocol") / "python"
        for name, told in _judge([str(python)], environments.folder / "judge.py", AG_UI_MODELS, "ag_ui").items():
            assert not told["problems"], f"{name}: {told['problems']}"


def _judge(program: list[str], script: Path, text: str, protocol: Protocol) -> dict[str, dict[str, Any]]:
    """Return what a script says about the stream of each run. It stands beside the packages that it imports."""
    script.write_text(text, encoding="utf-8")
    paths = [script.parent / f"stream-{number}" for number in range(len(RUNS))]
    for name, path in zip(RUNS, paths, strict=True):
        path.write_bytes(b"".join(write(name, protocol)))
    done = subprocess.run([*program, str(script), *map(str, paths)], capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stderr.strip()[-300:]
    return dict(zip(RUNS, map(json.loads, done.stdout.splitlines()), strict=True))

"""`dragoman doctor`: probe an endpoint, or the sandbox, and print and save what was found."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import typer

from dragoman.cli.endpoints import DoctorOptions, EndpointFinder, run_until_interrupted
from dragoman.cli.exit_codes import FATAL, NO_ANSWER
from dragoman.cli.options import with_options
from dragoman.cli.screen import Screen, count, print_line, print_warnings, write_json
from dragoman.client.facts import FileFacts, learned_file
from dragoman.config import load
from dragoman.doctor import (
    Finding,
    Prober,
    ProbeStarted,
    Report,
    admit,
    count_requests,
    examine,
)
from dragoman.errors import ConfigError, DragomanError
from dragoman.providers import Endpoint
from dragoman.sandbox.detection import Attempt, ProbeReport
from dragoman.secrets.exchanges import show_address

if TYPE_CHECKING:
    from dragoman.sandbox import Sandbox

# ---- sandbox report --------------------------------------------------------------------------------------------------

_TIER_DESCRIPTIONS = {
    "bubblewrap": "bubblewrap with seccomp and limits",
    "landlock": "Landlock with seccomp and limits",
    "none": "none: commands are not confined",
}


def sandbox_lines(report: ProbeReport, reasons: Sequence[str] = (), *, details: bool = False) -> list[str]:
    """The sandbox, whether it is effective, and the attempts that it did not stop; with `details`, all attempts.

    `reasons` are those of `why_not`: why a better sandbox is not used.
    """
    tried, stopped = len(report.attempts), sum(each.stopped for each in report.attempts)
    lines = [
        f"sandbox: {_TIER_DESCRIPTIONS[report.tier]}",
        f"tried to break out in {tried} ways: {stopped} were stopped",
    ]
    if details:
        lines += [_attempt_line(each) for each in report.attempts if each.stopped]
    lines += [_attempt_line(each) for each in report.attempts if not each.stopped]
    if report.holds:
        lines.append("it is effective: the mode `sandboxed` can be used")
    else:
        lines.append("it is not effective: the mode `sandboxed` asks before every command")
    lines += [f"not used: {reason}" for reason in reasons]
    if report.tier != "bubblewrap":
        lines.append("hint: the best sandbox needs bubblewrap; on Debian or Ubuntu: apt-get install bubblewrap")
    return lines


def _attempt_line(attempt: Attempt) -> str:
    words = attempt.name.replace("_", " ")
    if attempt.stopped:
        return f"  stopped: {words} ({attempt.how})"
    return f"  {'NOT STOPPED' if attempt.required else 'not stopped'}: {words} ({attempt.how})"


# ---- examining an endpoint -------------------------------------------------------------------------------------------

_TOKENS = 1024
_STYLES = {"works": "green", "handled": "cyan", "broken": "bold red", "absent": "yellow", "unknown": "dim"}
_WIDE = 72
"""The width below which a finding takes several lines."""


class DoctorRun:
    """One examination of an endpoint: finds the endpoint, probes it, prints and saves the findings."""

    def __init__(self, finder: EndpointFinder, options: DoctorOptions, environment: Mapping[str, str]) -> None:
        self._finder = finder
        self.options = options
        path = learned_file(environment)
        self._facts = FileFacts(path, "doctor") if path is not None else None
        self._screen = Screen()
        self._spinner = finder.spinner
        self.report: Report | None = None

    def run(self) -> int:
        """Examine the endpoint, and return the exit code."""
        return run_until_interrupted(
            self._examine, self._spinner, lambda: print("interrupted; nothing was saved", file=sys.stderr)
        )

    async def _examine(self) -> int:
        # Facts from earlier examinations are not used.
        endpoint = await self._finder.find(self._finder.target, next(iter(self.options.models), ""))
        if self.options.forget:
            return self._forget(endpoint)
        tokens = self.options.tokens or _TOKENS
        subject = admit(endpoint, quick=self.options.quick, tokens=tokens)
        if not self.options.as_json:
            name = f"{endpoint.provider.name}:{endpoint.model}"
            # The address of a model in this process is a name that no server has.
            is_inside = bool(endpoint.provider.transport)
            place = "in this process" if is_inside else f"at {show_address(endpoint.base_url)}"
            self._screen.line((name, "bold"), f" {place} ({endpoint.wire})")
            limit = count_requests(subject)
            self._screen.line(f"at most {limit} requests of at most {tokens} tokens each")
            self._screen.line()
        finder = self._finder
        transport = finder.open_transport(endpoint)
        prober = Prober(
            subject.endpoint,
            transport=transport,
            key=finder.key,
            environment=finder.environment,
            timeouts=finder.config.timeouts,
            tokens=tokens,
            seconds=self.options.seconds,
        )
        try:
            async for step in examine(subject, prober, finder.config.prices()):
                self._handle_step(step)
        finally:
            await prober.close()
            await transport.close()
        return self._finish(endpoint)

    # ---- printing ----------------------------------------------------------------------------------------------------

    def _handle_step(self, step: ProbeStarted | Finding | Report) -> None:
        if isinstance(step, ProbeStarted):
            self._spinner.show(f"{step.title} …")
        elif isinstance(step, Report):
            self.report = step
        elif not self.options.as_json:
            with self._spinner.paused():
                self._print_finding(step)

    def _print_finding(self, finding: Finding) -> None:
        verdict = (f"{finding.verdict:8}", _STYLES[finding.verdict])
        name, indent = finding.probe.replace("_", " "), " " * 32
        if self._screen.width is not None and self._screen.width < _WIDE:
            indent = " " * 4
            self._screen.line(verdict, f" {name}")
            self._screen.line(indent, finding.summary)
        else:
            self._screen.line("  ", verdict, f" {name:21}", finding.summary)
        if finding.verdict in ("handled", "broken", "absent") and finding.evidence:
            self._screen.line(indent, (finding.evidence, "dim"))
        if finding.fix:
            # What was not found out is nobody's task, unless nothing was found out at all.
            needs_fix = finding.verdict == "broken" or (finding.probe == "reachable" and finding.verdict != "works")
            self._screen.line(indent, ("fix: ", "bold") if needs_fix else ("note: ", "dim"), finding.fix)

    def _finish(self, endpoint: Endpoint) -> int:
        report = self.report
        assert report is not None
        answered = report.verdict("reachable") == "works"
        saved = answered and self._save(endpoint, report)
        if self.options.as_json:
            path = str(self._facts.path) if saved and self._facts is not None else None
            faults = [finding.probe for finding in report.faults]
            write_json(msgspec.to_builtins(report) | {"faults": faults, "saved": path})
        else:
            self._print_result(report, answered=answered, saved=saved)
        if not answered:
            return NO_ANSWER
        return FATAL if report.faults else 0

    def _print_result(self, report: Report, *, answered: bool, saved: bool) -> None:
        usage = report.usage
        spent = f"{count(report.requests, 'request')}, {usage.input_tokens} tokens in, {usage.output_tokens} out"
        cost = f", about ${report.cost:.4f}" if report.cost else ""
        number = len(report.faults)
        are = "is" if number == 1 else "are"
        faults = f"{count(number, 'thing')} {are} broken" if number else "nothing is broken"
        deviations = sum(finding.verdict == "handled" for finding in report.findings)
        faults += f"; dragoman handles {count(deviations, 'deviation')}" if deviations else ""
        self._spinner.hide()
        self._screen.line()
        self._screen.line((faults if answered else "it did not answer", "bold"), f" ({spent}{cost})")
        if saved and self._facts is not None:
            self._screen.line(f"saved in {self._facts.path}; dragoman run and dragoman chat use it")
        if answered and (self.options.base_url or "://" in (self.options.target or "")):
            self._screen.line(f'next: dragoman run -m {report.model} --base-url {report.url} "Hello"')

    # ---- saving facts ------------------------------------------------------------------------------------------------

    def _save(self, endpoint: Endpoint, report: Report) -> bool:
        if self.options.no_save or self._facts is None:
            return False
        self._facts.put(endpoint.base_url, endpoint.model, report.fact)
        print_warnings(self._facts.problems)
        return not self._facts.problems

    def _forget(self, endpoint: Endpoint) -> int:
        known = self._facts is not None and self._facts.forget(endpoint.base_url, endpoint.model)
        name = f"{endpoint.provider.name}:{endpoint.model} at {show_address(endpoint.base_url)}"
        self._screen.line(f"deleted: {name}" if known else f"nothing was saved about {name}")
        return 0


# ---- the command -----------------------------------------------------------------------------------------------------

HELP = """Test an endpoint: calls, streams, tool choice, results, reasoning, schemas, text formats, grammars.

The target is provider:model, a provider (the command uses its first model), or the URL of a server (the command detects
its kind). Without a target, the command examines the model of the settings. It prints the number of requests first.
Each request is small and uses temperature 0.

With --tools, the command compares models on your own tools: for each model, in how many cases it called the right
tool with the right arguments, the turns and the time of a case, and the cost. The tools do not run.

The findings are saved in `learned.toml` in the configuration folder. `dragoman run` and `dragoman chat` use them.

\b
Examples:
  dragoman doctor ollama:qwen3
  dragoman doctor http://127.0.0.1:8080          llama.cpp, vLLM, SGLang, Ollama, LM Studio or another server
  dragoman doctor http://box:8000 -m Qwen/Qwen3-8B --key-env BOX_KEY
  dragoman doctor groq:llama-3.3-70b-versatile --quick
  dragoman doctor local                          the embedded model
  dragoman doctor openai:gpt-5 --json | jq '.findings[] | select(.verdict == "broken")'
  dragoman doctor ollama:qwen3 --forget          delete the saved findings
  dragoman doctor --tools mine.py -m openai:gpt-5 -m ollama:qwen3 --cases cases.jsonl
  dragoman doctor --sandbox                      test the sandbox for commands on this machine

\b
Exit codes:
  0    nothing needs to be done: everything works, or dragoman handles it
  1    something is broken, and the output says what to do, or the sandbox is not effective
  2    usage error: unknown provider, missing key
  4    the endpoint did not answer, or no server is at that address; in a comparison: none answered
  130  interrupted by Ctrl-C; nothing was saved, and a comparison is partial
"""


app = typer.Typer(name="doctor", add_completion=False, rich_markup_mode=None)


@app.command("doctor", help=HELP)
@with_options(DoctorOptions)
def doctor(*, options: DoctorOptions) -> int:
    if options.sandbox:
        return _examine_sandbox(as_json=options.as_json)
    if options.cases and not options.tools:
        raise ConfigError("--cases is for a comparison", hint="also give your tools: --tools mine.py")
    if len(options.models) > 1 and not options.tools:
        raise ConfigError("one model is examined at a time", hint="--tools mine.py compares models on your tools")
    finder = EndpointFinder(options, os.environ)
    if not options.as_json:
        print_warnings(finder.warnings)
    if options.tools:
        from dragoman.cli.comparison import ComparisonRun

        return ComparisonRun(finder, options).run()
    return DoctorRun(finder, options, os.environ).run()


def _examine_sandbox(*, as_json: bool) -> int:
    """Try to break out of the sandbox for commands. This sends no request to a model."""
    from dragoman.sandbox import find_sandbox, probe, why_not

    name = load(environment=os.environ)["sandbox"]
    sandbox = find_sandbox(name)
    report, refused = probe(sandbox), _refused_here(sandbox)
    if as_json:
        found = {"holds": report.holds, "not_used": list(why_not(name)), "refused_here": refused}
        write_json({**msgspec.to_builtins(report), **found})
    else:
        lines = sandbox_lines(report, why_not(name), details=True)
        for line in [*lines, *([f"not in this folder: {refused}"] if refused else [])]:
            print_line(line)
    return 0 if report.holds else 1


def _refused_here(sandbox: Sandbox) -> str:
    """Why commands cannot run in the sandbox if the workspace is the current folder; empty if they can."""
    from dragoman.sandbox import Box

    try:
        sandbox.check(Box(os.getcwd()))
    except DragomanError as error:
        return str(error)
    return ""

"""What the probe of a sandbox found, as lines for a person."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.sandbox.detection import Attempt, ProbeReport

_WORDS = {
    "bubblewrap": "bubblewrap with seccomp and limits",
    "landlock": "Landlock with seccomp and limits",
    "none": "none: commands are not confined",
}


def sandbox_lines(report: ProbeReport, reasons: Sequence[str] = (), *, details: bool = False) -> list[str]:
    """Which sandbox it is, whether it holds, and what got through; with `details` what was stopped as well.

    `reasons` are those of `why_not`: what is in the way of a better sandbox.
    """
    tried, stopped = len(report.attempts), sum(each.stopped for each in report.attempts)
    lines = [f"sandbox: {_WORDS[report.tier]}", f"tried to break out in {tried} ways: {stopped} were stopped"]
    if details:
        lines += [_line(each) for each in report.attempts if each.stopped]
    lines += [_line(each) for each in report.attempts if not each.stopped]
    if report.holds:
        lines.append("it holds: the mode `sandboxed` can be used")
    else:
        lines.append("it does not hold: the mode `sandboxed` asks before every command")
    lines += [f"not used: {reason}" for reason in reasons]
    if report.tier != "bubblewrap":
        lines.append("hint: the best sandbox needs bubblewrap; on Debian or Ubuntu: apt-get install bubblewrap")
    return lines


def _line(attempt: Attempt) -> str:
    words = attempt.name.replace("_", " ")
    if attempt.stopped:
        return f"  stopped: {words} ({attempt.how})"
    return f"  {'NOT STOPPED' if attempt.required else 'not stopped'}: {words} ({attempt.how})"

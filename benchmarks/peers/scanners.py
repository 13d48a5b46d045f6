"""Group `scanners`: secrets in the output of tools, found by dragoman, detect-secrets and CredSweeper."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from benchmarks.peers.parser_data import SHARED
from benchmarks.peers.rows import OURS, ROOT, SCANNERS
from benchmarks.peers.team import Team
from benchmarks.scrubbing import make_log
from benchmarks.support.environments import Environments
from benchmarks.support.progress import Progress

NO_ROWS = "the labelled snippets are not beside this checkout (../shared/data)"
LOG_SIZE = 200_000
SCAN_SECONDS = 300.0
Figures = dict[str, Any]


class Snippet(NamedTuple):
    """An output of a tool with the secrets in it; none: it is harmless."""

    text: str
    secrets: list[str]


def measure(environments: Environments, progress: Progress, *, quick: bool) -> Figures:
    """All figures of the group."""
    sets = {"own": read_own_snippets(), "recorded": read_shared_snippets()}
    log = make_log(LOG_SIZE)
    with Team(environments, SCANNERS, progress) as team:
        for name in team.names:
            for kind, snippets in sets.items():
                progress.say(f"snippets: {name}")
                team.rows[name] |= {kind: counts} if snippets and (counts := scan(team, name, snippets)) else {}
        for _ in range(1 if quick else 3):
            for name in team.names:
                progress.say(f"time: {name}")
                answer = team.ask(name, SCAN_SECONDS, do="time", text=log)
                if answer is not None:
                    least = min(answer["seconds"] / LOG_SIZE * 1e6, team.rows[name].get("seconds_per_mb", 1e9))
                    team.rows[name]["seconds_per_mb"] = least
        return {"peers": team.rows, "snippets": "" if sets["recorded"] else NO_ROWS}


# ---- data ------------------------------------------------------------------------------------------------------------


def read_own_snippets() -> list[Snippet]:
    """The rows of `tests/data/redaction*.jsonl` in which no secret is registered or encoded.

    The invented credentials there hold the word FAKE, which scanners take for an example. Here other letters replace
    it.
    """
    lines = [
        line
        for path in sorted((ROOT / "tests/data").glob("redaction*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [fill(row) for row in rows if not row.get("registered") and not re.search("⟦\\w+:", row["text"])]


def fill(row: dict[str, Any]) -> Snippet:
    """A row with its secrets in their places."""
    text, secrets = row["text"], []
    for name, parts in row["secrets"].items():
        secrets.append(disguise("".join(parts)))
        text = text.replace(f"⟦{name}⟧", secrets[-1])
    return Snippet(text, secrets)


def disguise(secret: str) -> str:
    """A secret with other letters instead of the word that says that it is invented."""
    lots = random.Random(secret)
    # These fit keys in upper case, in base32 and in hexadecimal digits, too.
    letters = "".join(lots.choice("ABCDEF234567") for _ in range(4))
    return secret.replace("FAKE", letters).replace("fake", letters.lower())


def read_shared_snippets() -> list[Snippet]:
    """The labelled snippets beside the checkout in which no secret is registered. Empty if they are not there."""
    path = SHARED / "scrub_dev.jsonl.gz"
    if not path.is_file():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Snippet(row["text"], row["secrets"] if row["label"] == "secret" else [])
        for row in rows
        if not row["registered"]
    ]


# ---- judgement -------------------------------------------------------------------------------------------------------


def scan(team: Team, name: str, snippets: list[Snippet]) -> Figures:
    """How many snippets with secrets are found and can be redacted, and how many harmless ones give an alarm.

    Empty if the scanner fails.
    """
    texts = [snippet.text for snippet in snippets]
    counts = {"secrets": 0, "found": 0, "removed": 0, "harmless": 0, "alarms": 0}
    answer = team.ask(name, SCAN_SECONDS, do="redact" if name == OURS else "scan", texts=texts)
    if answer is None:
        return {}
    if name == OURS:
        outputs = answer["texts"]
        flagged = [out != text for out, text in zip(outputs, texts, strict=True)]
    else:
        findings = answer["findings"]
        outputs = [remove(text, (value for _, value in each)) for text, each in zip(texts, findings, strict=True)]
        flagged = [is_flagged(snippet, each) for snippet, each in zip(snippets, findings, strict=True)]
    for snippet, out, flag in zip(snippets, outputs, flagged, strict=True):
        if not snippet.secrets:
            counts["harmless"] += 1
            counts["alarms"] += flag
            continue
        is_gone = all(longest_left(secret, out) <= max(6, len(secret) // 3) for secret in snippet.secrets)
        counts["secrets"] += 1
        counts["removed"] += is_gone
        counts["found"] += is_gone if name == OURS else flag
    return counts


def is_flagged(snippet: Snippet, findings: list[list[Any]]) -> bool:
    """Whether a line of every secret is reported; in a harmless text, whether any line is."""
    reported = {line for line, _ in findings}
    if not snippet.secrets:
        return bool(reported)
    return all(reported & lines_of(snippet.text, secret) for secret in snippet.secrets)


def lines_of(text: str, secret: str) -> set[int]:
    at = text.find(secret)
    first = text.count("\n", 0, max(at, 0)) + 1
    return set(range(first, first + secret.count("\n") + 1)) if at >= 0 else set(range(1, text.count("\n") + 2))


def remove(text: str, values: Iterable[str]) -> str:
    """A text without the values that a scanner has found, the longest first."""
    for value in sorted(filter(None, values), key=len, reverse=True):
        text = text.replace(value, "[redacted]")
    return text


def longest_left(secret: str, text: str) -> int:
    """The length of the longest part of a secret that can still be read."""
    low, high = 0, len(secret)
    while low < high:
        middle = (low + high + 1) // 2
        if any(secret[at : at + middle] in text for at in range(len(secret) - middle + 1)):
            low = middle
        else:
            high = middle - 1
    return low

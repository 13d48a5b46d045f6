"""`dragoman scrub`: hide the secrets of a text."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from typing import IO, Annotated

import typer

from dragoman.characters import TextEscaper
from dragoman.cli.screen import count, print_line, read_bytes
from dragoman.config import keys_by_variable, load
from dragoman.secrets import Scrubber, known_secrets

HELP = """Hide the secrets of a text: API keys, tokens, passwords and private keys. JSON stays valid JSON.

The text goes from FILE, or from standard input, to standard output, and the report to standard error. The keys that
`dragoman keys` finds, and the variables that the setting `secrets` names, are hidden in every encoding. A secret that
looks like any other word is not found.

\b
Examples:
  dragoman scrub build.log > shared.log
  kubectl logs pod | dragoman scrub
  dragoman scrub --check *.env           exit code 1 if there is a secret; prints only the report
  dragoman scrub --style seed trace.txt  keep the first four characters of each secret
"""

app = typer.Typer(name="scrub", add_completion=False, rich_markup_mode=None)
_PIECE = 64 * 1024
_placeholders = re.compile(r"\[redacted:([\w.-]{1,80})\]|(\*\[REDACTED\])").findall


@app.command("scrub", help=HELP)
def scrub(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="The texts; - is standard input.")
    ] = None,
    style: Annotated[str, typer.Option("--style", metavar="kind|seed", help="How a secret is shown.")] = "kind",
    check: Annotated[bool, typer.Option("--check", help="Print no text; exit with 1 if there is a secret.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no report.")] = False,
) -> int:
    config = load(environment=os.environ)
    keys = keys_by_variable(config, None, os.environ, [])
    named = {name: os.environ.get(name, "") for name in config["secrets"]}
    secrets = known_secrets({**keys, **named})
    found: Counter[str] = Counter()
    for path in files or ["-"]:
        # Bytes that are not UTF-8 come out as they went in.
        text = read_bytes(path).decode("utf-8", "surrogateescape")
        scrubbed = _Counted(Scrubber(secrets, style), text)
        _write(scrubbed, None if check else sys.stdout)
        found += scrubbed.found
    if not quiet:
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(found.items()))
        print_line(f"{count(found.total(), 'secret')} hidden: {kinds}" if kinds else "no secret found", error=True)
    return 1 if check and found else 0


class _Counted:
    """The pieces of a scrubbed text, and the number of secrets of each kind that were hidden in them."""

    def __init__(self, scrubber: Scrubber, text: str) -> None:
        self._scrubber = scrubber
        self._text = text
        self.found: Counter[str] = Counter()

    def pieces(self) -> list[str]:
        text = self._text
        shown = [self._scrubber.feed(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE)]
        shown.append(self._scrubber.close())
        # A placeholder that was in the text before is not a secret.
        self.found = _count("".join(shown)) - _count(text)
        return shown


def _count(text: str) -> Counter[str]:
    return Counter(kind or "secret" for kind, _ in _placeholders(text))


def _write(scrubbed: _Counted, out: IO[str] | None) -> None:
    pieces = scrubbed.pieces()
    if out is None:
        return
    if out.isatty():
        escaper = TextEscaper()
        out.writelines([*map(escaper.feed, pieces), escaper.close()])
        return
    data = "".join(pieces).encode("utf-8", "surrogateescape")
    out.flush()
    if hasattr(out, "buffer"):
        out.buffer.write(data)
        out.buffer.flush()
    else:
        out.write(data.decode("utf-8", "replace"))

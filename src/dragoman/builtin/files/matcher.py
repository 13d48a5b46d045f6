"""Search files for a pattern, line by line, if ripgrep is not installed or does not support the pattern.

It runs as a process of its own, because a pattern can keep Python busy for ever, and nothing but an end of the process
stops it. So it is a script that needs nothing but the standard library: the request comes as JSON on standard input,
and what is found goes out in the form of `rg --json`.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, Any

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def search(request: dict[str, Any], longest: int | None = None) -> Iterator[dict[str, Any]]:
    """The messages for all files of a request; lines longer than `longest` characters are not looked at."""
    pattern = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    for path in request["paths"]:
        try:
            with _open(path) as lines:
                yield from _search_file(lines, path, pattern, request, longest)
        except OSError:  # It cannot be read; the others can.
            continue


def _open(path: str) -> IO[str]:
    with open(path, "rb") as file:
        head = file.read(2)
    encoding, errors = ("utf-16", "replace") if head in _UTF16 else ("utf-8-sig", "surrogateescape")
    return open(path, encoding=encoding, errors=errors, newline="\n")


def _search_file(
    lines: Iterable[str], path: str, pattern: re.Pattern[str], request: dict[str, Any], longest: int | None
) -> Iterator[dict[str, Any]]:
    around, most = request["context"], request["most"]
    before: deque[tuple[int, str]] = deque(maxlen=around)
    after = found = 0
    for number, line in enumerate(lines, 1):
        text = line.removesuffix("\n").removesuffix("\r")
        match = pattern.search(text) if longest is None or len(text) <= longest else None
        if match is not None and (most is None or found < most):
            for earlier in before:
                yield _message("context", path, *earlier)
            before.clear()
            yield _message("match", path, number, text, match.start())
            found += 1
            after = around
        elif after:
            yield _message("context", path, number, text)
            after -= 1
        elif most is not None and found >= most:
            return
        else:
            before.append((number, text))


def _message(kind: str, path: str, number: int, text: str, start: int | None = None) -> dict[str, Any]:
    data: dict[str, Any] = {"path": {"text": path}, "lines": _text(text), "line_number": number, "submatches": []}
    if start is not None:
        data["submatches"] = [{"start": len(text[:start].encode("utf-8", "surrogateescape"))}]
    return {"type": kind, "data": data}


def _text(text: str) -> dict[str, str]:
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"bytes": b64encode(text.encode("utf-8", "surrogateescape")).decode()}
    return {"text": text}


if __name__ == "__main__":
    # The request is our own, and msgspec is not there in a bare interpreter.
    for message in search(json.load(sys.stdin)):  # noqa: TID251
        sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")

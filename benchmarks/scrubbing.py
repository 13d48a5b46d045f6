"""How fast secrets are hidden: megabytes per second on logs, on code, in pieces, and with registered secrets.

The texts are made here: `log` is dense with what looks like a secret and is none, `prose` has next to nothing to look
at. The time is that of the processor.
"""

from __future__ import annotations

import argparse
import random
import string
from collections.abc import Callable
from time import process_time

from dragoman.secrets import Scrubber, Secrets

LINES = (
    "commit {hex40}",
    "docker.io/library/redis@sha256:{hex64}",
    "traceparent: 00-{hex32}-{hex16}-01",
    "const token = process.env.TOKEN;",
    'password: "{{{{ secrets.PASSWORD }}}}"',
    "error: invalid token: unexpected end of input at line 3",
    "2026-03-02T10:15:04Z INFO http.client request sent url=/v1/items status=200 took=81ms",
    '{{"region": "eu-west-1", "retries": 3, "apiKey": null, "debug": false}}',
    "See task-management-system-overview-document.md in the docs folder",
    "{base64}",
)
SECRETS = ("DB_PASSWORD={word16}", '{{"api_key": "{word40}"}}', "Authorization: Bearer {word40}")
PROSE = "the quick brown fox jumps over the lazy dog and runs into the forest where nobody sees it again\n"


def make_log(size: int, seed: int = 1) -> str:
    """A log in which one line of fifty holds a secret."""
    lots = random.Random(seed)

    def draw(count: int, alphabet: str) -> str:
        return "".join(lots.choice(alphabet) for _ in range(count))

    lines: list[str] = []
    total = 0
    while total < size:
        form = lots.choice(SECRETS) if lots.random() < 0.02 else lots.choice(LINES)
        line = form.format(
            hex40=draw(40, "0123456789abcdef"),
            hex64=draw(64, "0123456789abcdef"),
            hex32=draw(32, "0123456789abcdef"),
            hex16=draw(16, "0123456789abcdef"),
            word16=draw(16, string.ascii_letters + string.digits),
            word40=draw(40, string.ascii_letters + string.digits),
            base64=draw(64, string.ascii_letters + string.digits + "+/"),
        )
        lines.append(line)
        total += len(line) + 1
    return "\n".join(lines)


def measure(text: str, make: Callable[[], Scrubber], piece: int) -> float:
    """Megabytes per second, the best of three."""
    best = float("inf")
    for _ in range(3):
        scrubber = make()
        began = process_time()
        for at in range(0, len(text), piece):
            scrubber.feed(text[at : at + piece])
        scrubber.close()
        best = min(best, process_time() - began)
    return len(text) / 1e6 / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=4_000_000, help="characters of each text")
    arguments = parser.parse_args()
    log = make_log(arguments.size)
    prose = PROSE * (arguments.size // len(PROSE))
    secrets = Secrets([f"zz-{number}-" + "k" * 3 + string.ascii_letters for number in range(5)])
    rows = (
        ("log, whole", log, Scrubber, len(log)),
        ("log, 4,096 characters at a time", log, Scrubber, 4096),
        ("log, 64 characters at a time", log[: arguments.size // 4], Scrubber, 64),
        ("log, one character at a time", log[: arguments.size // 40], Scrubber, 1),
        ("log, 5 registered secrets", log, lambda: Scrubber(secrets), len(log)),
        ("one line of 4 MB", log.replace("\n", " "), Scrubber, len(log)),
        ("prose, whole", prose, Scrubber, len(prose)),
    )
    for name, text, make, piece in rows:
        print(f"{name:<34} {measure(text, make, piece):7.1f} MB/s")


if __name__ == "__main__":
    main()

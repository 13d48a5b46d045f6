"""Our own rows: invented credentials are hidden, everything else stays, in pieces as whole, and twice as once."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from tests.rows import DATA, Row, known_failures, read_rows
from tests.secrets.fakes import feed_all, longest_left, outline

from dragoman.secrets import Scrubber, scrub

ROWS = read_rows("redaction")
KNOWN = known_failures("redaction")
KINDS = sorted({row["id"].partition("/")[0] for row in ROWS})
CHUNKINGS = (1, 7, 33)

FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64url": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "hex": lambda value: value.encode().hex(),
    "hex-upper": lambda value: value.encode().hex().upper(),
    "percent": lambda value: quote(value, safe=""),
    "form": quote_plus,
    "json": json.dumps,
    "html": html.escape,
    "reversed": lambda value: value[::-1],
}
_MARK = re.compile("⟦(\\w+)(?::([\\w-]+))?⟧")

every_kind = pytest.mark.parametrize("kind", KINDS)


def rows_of(kind: str) -> list[Row]:
    return [row for row in ROWS if row["id"].startswith(f"{kind}/")]


def values_of(row: Row) -> dict[str, str]:
    return {name: "".join(parts) for name, parts in row["secrets"].items()}


def registered_in(row: Row) -> list[str]:
    return [values_of(row)[name] for name in row.get("registered", [])]


def fill(row: Row) -> tuple[str, list[str]]:
    """The text of a row with its credentials in place, and the credentials as they are written in it."""
    values = values_of(row)
    written: list[str] = []

    def put(mark: re.Match[str]) -> str:
        written.append(FORMS[mark[2] or "plain"](values[mark[1]]))
        return written[-1]

    return _MARK.sub(put, row["text"]), written


def is_json(text: str) -> bool:
    if not text.startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def faults_of(row: Row) -> list[str]:
    text, written = fill(row)
    out = scrub(text, secrets=registered_in(row))
    if not written:
        return [] if out == text else [f"changed: {out!r}"]
    faults = [f"{part!r} is gone from {out!r}" for part in row.get("stays", []) if part not in out]
    if any(longest_left(form, out) > max(6, len(form) // 3) for form in written):
        faults.append(f"can be read: {out!r}")
    if is_json(text) and not (is_json(out) and outline(out) == outline(text)):
        faults.append(f"no JSON of the same structure: {out!r}")
    return faults


@every_kind
def test_credentials_go_and_the_rest_stays(kind: str) -> None:
    faults = {row["id"]: faults_of(row) for row in rows_of(kind)}
    known = faults.keys() & KNOWN.keys()
    assert {identity: found for identity, found in faults.items() if found and identity not in known} == {}
    assert {identity for identity in known if not faults[identity]} == set(), "right by now: edit known.toml"


@every_kind
def test_twice_is_as_once(kind: str) -> None:
    for row in rows_of(kind):
        once = scrub(fill(row)[0], secrets=registered_in(row))
        assert scrub(once, secrets=registered_in(row)) == once, row["id"]


@pytest.mark.parametrize("size", CHUNKINGS)
@every_kind
def test_any_cutting_gives_the_same(kind: str, size: int) -> None:
    for row in rows_of(kind):
        text, _ = fill(row)
        secrets = registered_in(row)
        assert feed_all(Scrubber(secrets), text, size) == scrub(text, secrets=secrets), row["id"]


def test_tokens_are_stored_in_pieces() -> None:
    stored = "".join(path.read_text(encoding="utf-8") for path in DATA.glob("redaction*.jsonl"))
    for row in (*rows_of("token"), *rows_of("vendor")):
        assert not any(value in stored for value in values_of(row).values()), row["id"]


def test_there_are_enough_rows() -> None:
    assert len(ROWS) >= 200


def test_known_failures_name_a_row_and_a_reason() -> None:
    assert KNOWN.keys() <= {row["id"] for row in ROWS}
    assert all(reason.strip() for reason in KNOWN.values())

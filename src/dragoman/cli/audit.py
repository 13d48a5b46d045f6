"""`dragoman audit`: verify and show the audit log."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from dragoman.cli.options import Json, command_group
from dragoman.cli.screen import Screen, Table, count, one_line, write_json

if TYPE_CHECKING:
    from dragoman.journal.verification import AuditReport

HELP = """Verify and show the audit log: decisions, approvals and executed calls.

Every record contains the hash of the record before it, so `verify` detects changed, removed, moved and inserted
records. The file audit.jsonl.head contains the hash of the last record, so it also detects a truncated log.

A person who can write both files can forge both. To detect that, keep the head in another place: copy the hash that
`verify` prints, and pass it with --head the next time.

\b
Examples:
  dragoman audit verify                      verify the log of your own runs
  dragoman audit verify other/audit.jsonl    verify another log
  dragoman audit verify --head 5f0c...       also check that the log contains this record
  dragoman audit show                        show the last records, the newest last
  dragoman audit show --run run_1a2b -n 0    show all records of one run
"""

app = command_group("audit", HELP)
INVALID = 1
_DEFAULT_COUNT = 50
_COMMON_FIELDS = ("n", "at", "kind", "run", "call", "prev", "hash", "damaged")
_is_digest = re.compile(r"[0-9a-f]{64}").fullmatch

LogArgument = Annotated[
    str | None, typer.Argument(metavar="[PATH]", help="The log, if not the default one.", show_default=False)
]


@app.command(short_help="Verify the log.")
def verify(
    path: LogArgument = None,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="HASH", help="The hash that an earlier `verify` printed.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Verify that no record was changed, removed, moved or inserted. The exit code is 1 if one was.

    The command also verifies rotated files (audit.jsonl.1, ...). Without --head and without the file audit.jsonl.head,
    it cannot detect records that were removed at the end. A person who can write both files can forge a log that
    verifies; only a --head from another place reveals that.
    """
    from dragoman.journal.verification import verify as verify_log

    log_path = find_log(path)
    report = verify_log(log_path, head=head)
    if as_json:
        write_json(msgspec.to_builtins(report) | {"path": str(log_path)})
    else:
        _draw_report(Screen(), log_path, report)
    return 0 if report.ok else INVALID


@app.command(short_help="Show the records.")
def show(
    path: LogArgument = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Only the records of this run.", show_default=False)
    ] = None,
    number: Annotated[
        int, typer.Option("-n", metavar="N", min=0, help="The last N records; 0 is all.")
    ] = _DEFAULT_COUNT,
    as_json: Json = False,
) -> None:
    """Show the records, the newest last. The log contains digests of arguments, not the arguments.

    The command does not verify the log, but it marks records that do not match their own hash.
    """
    from dragoman.journal.verification import read_records

    log_path = find_log(path)
    records = read_records(log_path, run=run, last=number or None)
    if as_json:
        write_json(records)
    else:
        _draw_records(Screen(), log_path, records, run)


def find_log(path: str | None) -> Path:
    """The given path, or the path of the log beside the journal of the settings."""
    if path is not None:
        return Path(path).expanduser()
    from dragoman.cli.context import find_audit_log, find_journal

    return find_audit_log(find_journal(None))


# ---- printing --------------------------------------------------------------------------------------------------------


def _draw_report(screen: Screen, log_path: Path, report: AuditReport) -> None:
    files = f" in {report.files} files" if report.files > 1 else ""
    if report.ok:
        screen.line(("sound", "bold green"), f": {count(report.records, 'record')}{files}, {log_path}")
    else:
        # The fault may be in a rotated file.
        name = log_path.with_name(report.file)
        screen.line(("not sound", "bold red"), f": {name}, line {report.first_fault}: {report.what}")
        screen.line(f"before it: {count(report.records, 'sound record')}{files}")
    if report.head_number:
        screen.line(("head: ", "yellow"), f"{report.head_hash} (record {report.head_number})")
    for note in report.notes:
        screen.line(("note: ", "yellow"), note)
    if report.hint:
        screen.line(("hint: ", "yellow"), report.hint)


def _draw_records(screen: Screen, log_path: Path, records: list[dict[str, Any]], run: str | None) -> None:
    if not records:
        screen.line(f"no records{f' of run {one_line(run)}' if run else ''} in {log_path}")
        return
    rows = [[one_line(cell) for cell in _cells(record)] for record in records]
    table = Table(screen, ("record", "time", "kind", "run", "call", ""), rows, ["call"])
    table.heads()
    for record, row in zip(records, rows, strict=True):
        style = "bold red" if record.get("damaged") else ""
        table.row(row, *[style] * (len(row) - 1), "dim")


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    details = " ".join(f"{name}={_short(value)}" for name, value in record.items() if name not in _COMMON_FIELDS)
    if record.get("damaged"):
        details = f"NOT AS IT WAS WRITTEN {details}"
    at = record.get("at")
    texts = [str(record.get(name, "-") or "-") for name in ("kind", "run", "call")]
    return str(record.get("n", "-")), _format_time(at), *texts, details


def _format_time(at: object) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(at)))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return "-"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")
    digest = text.removeprefix("sha256:")
    return digest[:12] if _is_digest(digest) else text

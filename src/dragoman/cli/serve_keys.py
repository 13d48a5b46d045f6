"""`dragoman serve keys`: the keys of the clients of a gateway."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dragoman.cli.options import Expires, Json, KeysFile, command_group
from dragoman.cli.screen import GAP, Screen, format_time, pad_columns, print_line, write_json
from dragoman.errors import ConfigError
from dragoman.server.access import find_keys_file
from dragoman.server.keys import ClientKey, KeyLimits, add_key, read_keys, revoke_key

HELP = """Manage the keys of the clients of a gateway.

As soon as there is a key, every client of `dragoman serve` needs one, and the gateway may listen at other addresses
than those of this machine. A running gateway notices new and revoked keys with the next request.

\b
Examples:
  dragoman serve keys add laptop                         make a key, and show it once
  dragoman serve keys add ci --expires 30d --dollars-per-day 5 --max-concurrent 4
  dragoman serve keys list
  dragoman serve keys revoke laptop
"""

group = command_group("keys", HELP)
_read_period = re.compile(r"([1-9][0-9]{0,5})([mhdw])").fullmatch
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _limit(help: str) -> Any:
    return typer.Option(help=help, show_default=False, metavar="NUMBER")


@group.command(short_help="Make a key, and show it once.")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses the key.")],
    expires: Expires = None,
    requests_per_minute: Annotated[int | None, _limit("Requests in any minute.")] = None,
    tokens_per_minute: Annotated[int | None, _limit("Tokens in any minute.")] = None,
    max_concurrent: Annotated[int | None, _limit("Requests at the same time.")] = None,
    tokens_per_day: Annotated[int | None, _limit("Tokens on one day (UTC).")] = None,
    dollars_per_day: Annotated[float | None, _limit("US dollars on one day (UTC).")] = None,
    keys: KeysFile = None,
    as_json: Json = False,
) -> int:
    """Make a random key, and show it once. Only its digest is stored."""
    given = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "max_concurrent": max_concurrent,
        "tokens_per_day": tokens_per_day,
        "dollars_per_day": dollars_per_day,
    }
    try:
        limits = msgspec.convert(given, KeyLimits)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the limit is not possible: {error}", hint="give a number above zero") from None
    return create_key(_find_file(keys), name, limits, expires, as_json)


def create_key(path: Path, name: str, limits: KeyLimits, expires: str | None, as_json: bool) -> int:
    """Make a key, and print it."""
    now = datetime.now(UTC)
    key = add_key(path, name, limits, _read_end(expires, now) if expires else None, now)
    if as_json:
        write_json({"name": name, "key": key})
    else:
        # The key alone is on standard output, so that a script can keep it.
        print(key)
        print_line("this key is shown only now; clients send it as their API key", error=True)
    return 0


@group.command("list", short_help="List the keys.")
def list_keys(keys: KeysFile = None, as_json: Json = False) -> int:
    """List the names of the keys, their limits, and when they end. The keys themselves are stored nowhere."""
    return print_keys(_find_file(keys), "dragoman serve keys add NAME", as_json)


def print_keys(path: Path, command: str, as_json: bool) -> int:
    """Print the keys of a file; `command` makes one."""
    found = read_keys(path)
    if as_json:
        rows = [msgspec.to_builtins(key) for key in found]
        write_json([{name: value for name, value in row.items() if name != "digest"} for row in rows])
        return 0
    if not found:
        print_line(f"no keys; `{command}` makes one")
        return 0
    now = datetime.now(UTC)
    screen = Screen()
    for row in pad_columns([("NAME", "MADE", "ENDS", "LIMITS"), *(_describe(key, now) for key in found)]):
        screen.line(GAP.join(row).rstrip())
    return 0


@group.command(short_help="Revoke a key.")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME")], keys: KeysFile = None) -> int:
    """Revoke a key. Gateways refuse it from the next request on; a request that has begun is finished."""
    revoke_key(_find_file(keys), name)
    print_line(f"revoked {name}")
    return 0


def _find_file(named: str | None) -> Path:
    path = find_keys_file(named or True, os.environ)
    assert path is not None
    return path


def _read_end(text: str, now: datetime) -> datetime:
    """Return the time that a period or a date means."""
    period = _read_period(text)
    if period is not None:
        return now + timedelta(**{_UNITS[period[2]]: int(period[1])})
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a time", hint="write 12h, 30d, 8w, or a date such as 2030-12-31") from None
    return end if end.tzinfo is not None else end.replace(tzinfo=UTC)


def _describe(key: ClientKey, now: datetime) -> tuple[str, ...]:
    end = format_time(key.expires.timestamp()) if key.expires is not None else "never"
    limits = [f"{value:g} {name.replace('_', ' ')}" for name, value in msgspec.to_builtins(key.limits).items()]
    shown = f"{end} (expired)" if key.has_expired(now) else end
    return key.name, format_time(key.created.timestamp()), shown, ", ".join(limits) or "none"

"""`dragoman approvals serve` and `dragoman approvals keys`: approvals in a browser and over HTTP."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from dragoman.agent.review import user_name
from dragoman.cli.context import JournalPlace, describe_journal, find_audit_log, find_journal, make_sink
from dragoman.cli.options import Expires, JournalPath, Json, KeysFile, command_group
from dragoman.cli.screen import Screen, print_line
from dragoman.journal import Journal, open_journal
from dragoman.journal.audit import AuditLog
from dragoman.paths import require_folder, state_folder

if TYPE_CHECKING:
    from dragoman.server.approvals.app import ApprovalServer
    from dragoman.server.settings import ServerSettings

# The other commands of `dragoman approvals` do not load the server.

KEYS_HELP = """Manage the keys of the people who may answer approvals over HTTP.

The name of a key is the name of its person: the journal and the audit log record it with each answer, and the model
reads it. These are other keys than those of the gateway, because agents use the gateway, and an agent must not approve
its own calls. A running server notices new and revoked keys with the next request.

\b
Examples:
  dragoman approvals keys add anna --expires 90d      make a key, and show it once
  dragoman approvals keys list
  dragoman approvals keys revoke anna
"""

keys_app = command_group("keys", KEYS_HELP)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The person with the key.")]


@keys_app.command("add", short_help="Make a key, and show it once.")
def add_person(name: Name, expires: Expires = None, keys: KeysFile = None, as_json: Json = False) -> int:
    """Make a random key, and show it once. Only its digest is stored."""
    from dragoman.cli.serve_keys import create_key
    from dragoman.server.keys import KeyLimits

    return create_key(find_people(keys), name, KeyLimits(), expires, as_json)


@keys_app.command("list", short_help="List the keys.")
def list_people(keys: KeysFile = None, as_json: Json = False) -> int:
    """List the people with a key, and when their keys end. The keys themselves are stored nowhere."""
    from dragoman.cli.serve_keys import print_keys

    return print_keys(find_people(keys), "dragoman approvals keys add NAME", as_json)


@keys_app.command("revoke", short_help="Revoke a key.")
def revoke_person(name: Name, keys: KeysFile = None) -> int:
    """Revoke a key. The server refuses it, and the browsers that gave it, from the next request on."""
    from dragoman.server.keys import revoke_key

    revoke_key(find_people(keys), name)
    print_line(f"revoked {name}")
    return 0


def find_people(named: str | None) -> Path:
    """The file with the keys of the people."""
    from dragoman.server.access import find_keys_file
    from dragoman.server.approvals.app import KEYS_FILE

    if named is not None:
        path = find_keys_file(named, os.environ)
        assert path is not None
        return path
    return require_folder(state_folder(os.environ), "XDG_STATE_HOME") / KEYS_FILE


# ---- `dragoman approvals serve` --------------------------------------------------------------------------------------


def serve(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="The address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", metavar="N", help="0 chooses a free one.")] = 4001,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="NAME", help="A further name of this server, as browsers see it."),
    ] = None,
    keys: KeysFile = None,
    journal: JournalPath = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log only errors.")] = False,
) -> int:
    """Serve pages and an API where people see what waits, with the diff or the command, and answer.

    Open the link that is printed in a browser of this machine; it works once, and a visit prints another one. At
    another address, everybody needs a key of `dragoman approvals keys`, and so does every program that uses the API.
    An answer counts once, for exactly the call that was shown.
    """
    from dragoman.cli.serve import install_log, run_loop
    from dragoman.server.settings import ServerSettings

    logging.getLogger("dragoman.server").setLevel(logging.ERROR if quiet else logging.INFO)
    install_log()
    settings = ServerSettings(host=host, port=port, hosts=names or [], grace=2.0)
    return run_loop(_serve(settings, find_people(keys), find_journal(journal, of_engine=True), as_json))


async def _serve(settings: ServerSettings, keys: Path, place: JournalPlace, as_json: bool) -> int:
    from dragoman.server.approvals.app import ApprovalServer, open_access
    from dragoman.server.approvals.requests import PendingRequests
    from dragoman.server.process import GatewayServer, address_of, handle_signals, open_socket

    access, sink = open_access(settings, keys), make_sink()
    pending = PendingRequests(_open_journal(place), AuditLog(find_audit_log(place), sink=sink), sink)
    try:
        # A journal that cannot be read is told here, and not to the first visitor.
        await pending.list_open()
        app = ApprovalServer(pending, settings, access, owner=user_name(), announce=_announce)
        listener = open_socket(settings.host, settings.port)
        server = GatewayServer(app, listener, load=None)
    except BaseException:
        pending.close()
        raise
    handle_signals(server, None)
    _print_start(app, address_of(listener), describe_journal(place), as_json)
    await server.run()
    return 0


def _open_journal(place: JournalPlace) -> Journal:
    if isinstance(place, Path):
        # The first run that waits may come later.
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    journal = open_journal(place)
    assert journal is not None
    return journal


def _announce(link: str) -> None:
    print(f"approvals: {link}", file=sys.stderr, flush=True)


def _print_start(app: ApprovalServer, url: str, journal: str, as_json: bool) -> None:
    link = app.open_pages(url)
    if as_json:
        # One line, so that a program can read it while the server runs.
        print(msgspec.json.encode({"url": url, **({"link": link} if link else {})}).decode(), flush=True)
        return
    screen = Screen()
    screen.line(("approvals ", "bold"), (url, "bold green"), f"   of {journal}")
    if link:
        screen.line("open: ", link, "   works once")
    else:
        screen.line("people log in with a key of `dragoman approvals keys add NAME`")
    screen.line("API: ", f"{url}/approvals", "   with a key of `dragoman approvals keys add NAME`   Ctrl-C stops")
    sys.stdout.flush()

"""`dragoman mcp`: add, list, test and remove MCP servers, and log in at them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.characters import quote_value
from dragoman.cli.config import own_file
from dragoman.cli.context import read_server_options
from dragoman.cli.options import Json, command_group
from dragoman.cli.screen import GAP, Screen, pad_columns, print_error, print_line, print_warnings, write_json
from dragoman.cli.server_login import pins_file, terminal_login, tokens_file
from dragoman.config import Config, load, mask
from dragoman.config.edits import add_table, read_table, remove_table
from dragoman.errors import ConfigError, did_you_mean
from dragoman.secrets import scrub

if TYPE_CHECKING:
    from dragoman.mcp import BrowserLogin, HttpServer, Resource, Server, ServerPrompt, TokenStore, Toolbox
    from dragoman.types import Message

HELP = """Add, list, test and remove MCP servers, and log in at them.

A server is a program that dragoman starts, or a URL. Its tools are offered in `dragoman run` and `dragoman chat`. A
call of such a tool needs your approval, unless a rule such as mcp:NAME/* allows it.

\b
Examples:
  dragoman mcp add time -- uvx mcp-server-time            a program; -- ends the options of dragoman
  dragoman mcp add tickets https://example.org/mcp        a URL
  dragoman mcp add hub https://example.org/mcp --header 'Authorization=Bearer ${HUB_TOKEN}'
  dragoman mcp list
  dragoman mcp test time                                  start it, and show its tools, resources and prompts
  dragoman mcp login tickets                              log in with your browser (OAuth)
  dragoman mcp remove time
  dragoman run "What time is it?" --mcp 'uvx mcp-server-time'     a server for one command
"""

app = command_group("mcp", HELP)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the server.", show_default=False)]
NameOrUrl = Annotated[
    str, typer.Argument(metavar="NAME|URL", help="A server of your settings, or a URL.", show_default=False)
]


# ---- add and remove --------------------------------------------------------------------------------------------------


# The options of a command are unknown here, and belong to it.
@app.command(short_help="Add a server to your settings.", context_settings={"ignore_unknown_options": True})
def add(
    name: Name,
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="URL|COMMAND...",
            help="A URL, or a command with its arguments; write -- before a command that has options.",
            show_default=False,
        ),
    ],
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME=VALUE", help="A header, for a URL. May be repeated.", show_default=False
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="NAME=VALUE", help="A variable, for a program. May be repeated.", show_default=False
        ),
    ] = None,
    cwd: Annotated[
        str | None, typer.Option("--cwd", metavar="DIR", help="The folder of a program.", show_default=False)
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help="A scope to ask for in a login. May be repeated.", show_default=False
        ),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option(
            "--client-id", metavar="ID", help="A client that is registered for logins already.", show_default=False
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a server of the same name.")] = False,
) -> None:
    """Add a server to your settings file. The rest of the file stays as it is.

    Write ${NAME} in a value of --header and --env, and it is taken from that variable whenever the server is used.
    """
    path = own_file()
    row = _make_row(target, _read_pairs(header, "--header"), _read_pairs(env, "--env"), cwd, scope or [], client_id)
    _check(name, row)
    if name in read_table(path, "mcp") and not force:
        raise ConfigError(f"there is a server {name!r} already", hint="--force replaces it")
    add_table(path, "mcp", name, row)
    print_line(f"added {quote_value(name)} to {quote_value(str(path))}")
    for option, values in (("--header", row.get("headers", {})), ("--env", row.get("env", {}))):
        for key in [key for key, value in values.items() if "${" not in value]:
            print_line(
                f"note: the value of {option} {quote_value(key)} is saved as it is; ${{NAME}} would take it from a "
                "variable",
                error=True,
            )
    print_line(f"try it: dragoman mcp test {quote_value(name)}")


def _make_row(
    target: list[str],
    headers: dict[str, str],
    env: dict[str, str],
    cwd: str | None,
    scopes: list[str],
    client_id: str | None,
) -> dict[str, Any]:
    oauth: dict[str, Any] = {
        **({"client_id": client_id} if client_id else {}),
        **({"scopes": scopes} if scopes else {}),
    }
    if "://" in target[0]:
        if len(target) > 1:
            raise ConfigError(
                f"{target[1]!r} after the URL is not known"[:200], hint="a URL takes --header and --scope"
            )
        if env or cwd:
            raise ConfigError("--env and --cwd are for a program", hint="a URL takes --header")
        return {
            "url": target[0],
            **({"headers": headers} if headers else {}),
            **({"oauth": oauth} if oauth else {}),
        }
    if headers or oauth:
        raise ConfigError("--header, --scope and --client-id are for a URL", hint="a program takes --env")
    try:
        words = shlex.split(target[0]) if len(target) == 1 else target
    except ValueError as problem:
        raise ConfigError(f"the command cannot be read: {problem}", hint="check its quotes") from None
    # Where the command is used is not known, so a file beside it has to be named in full.
    return {"command": words, **({"env": env} if env else {}), **({"cwd": str(Path(cwd).resolve())} if cwd else {})}


def _read_pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for each in given or []:
        name, sign, value = each.partition("=")
        if not sign or not name.strip():
            raise ConfigError(
                f"{option} {each!r} is not NAME=VALUE"[:200], hint=f"for example {option} 'NAME=${{NAME}}'"
            )
        pairs[name.strip()] = value
    return pairs


def _check(name: str, row: Mapping[str, Any]) -> Server:
    """Read a row as a run will, whatever the variables are."""
    from dragoman.mcp import read_servers

    (server,) = read_servers({name: row}, _AnyVariable())
    return server


class _AnyVariable(dict[str, str]):
    """Has a value for every variable."""

    def get(self, name: str, default: Any = None) -> str:
        return os.environ.get(name) or "x"


@app.command(short_help="Remove a server from your settings.")
def remove(name: Name) -> None:
    """Remove a server from your settings file, and the tokens of its login."""
    path = own_file()
    rows = read_table(path, "mcp")
    if name not in rows:
        known = load()["mcp"]
        where = " in your own file" if name in known else did_you_mean(name, known)
        raise ConfigError(f"there is no server {name!r}{where}", hint="`dragoman mcp list` shows the servers")
    remove_table(path, "mcp", name)
    print_line(f"removed {quote_value(name)} from {quote_value(str(path))}")
    url = rows[name].get("url") if isinstance(rows[name], dict) else None
    others = [row.get("url") for row in read_table(path, "mcp").values() if isinstance(row, dict)]
    if isinstance(url, str) and url not in others and _store().remove(url):
        print_line("removed the tokens of its login")


# ---- list ------------------------------------------------------------------------------------------------------------


@app.command("list", short_help="List the servers of your settings.")
def list_servers(as_json: Json = False) -> None:
    """List the servers of your settings, and whether you are logged in."""
    config = load()
    warnings = list(config.warnings)
    found = [_as_data(name, row, warnings) for name, row in config["mcp"].items()]
    if as_json:
        write_json(found)
        return
    if not found:
        print("there are no MCP servers; to add one:")
        print("    dragoman mcp add NAME URL")
        print("    dragoman mcp add NAME -- COMMAND")
    screen = Screen()
    cells = pad_columns([(quote_value(each["name"]), each["state"], "") for each in found])
    for each, (name, state, _) in zip(found, cells, strict=True):
        shown = screen.fit(each["url"] or each["command"], len(name) + len(state) + 2 * len(GAP))
        screen.line((name, "green"), GAP, (state, "dim"), GAP, shown)
    print_warnings(warnings)


def _as_data(name: str, row: Mapping[str, Any], warnings: list[str]) -> dict[str, Any]:
    from dragoman.mcp import HttpServer

    command, url = row.get("command", []), mask("mcp", {name: row})[name].get("url")
    words = [*([command] if isinstance(command, str) else command), *row.get("args", [])]
    # A command may contain a key, and its other words tell which server it is.
    data = {"name": name, "url": url, "command": scrub(shlex.join(map(str, words))) if words else None, "state": "on"}
    if row.get("disabled") is True or row.get("enabled") is False:
        return {**data, "state": "off"}
    try:
        server = _check(name, row)
        if isinstance(server, HttpServer) and server.may_log_in:
            data["state"] = _login_state(server)
    except ConfigError as problem:
        warnings.append(str(problem))
        data["state"] = "broken"
    return data


def _login_state(server: HttpServer) -> str:
    grant = _store().find(server.url)
    if grant is None or not (grant.access or grant.refresh):
        return "on"
    is_over = not grant.refresh and grant.is_stale(time.time(), 0.0)
    return "login expired" if is_over else "logged in"


# ---- test ------------------------------------------------------------------------------------------------------------


@app.command(short_help="Connect to a server, and show what it offers.")
def test(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|URL|COMMAND",
            help="A server of your settings, a URL, or a command in quotes.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> int:
    """Connect to a server and show its tools, resources and prompts. Exit code 1 if it cannot be used.

    The tools are compared with the definitions that were saved, and their list is saved for the next run.
    """
    data = _examine(_find_server(name), None if as_json else terminal_login())
    if as_json:
        write_json(data)
    else:
        _draw_test(Screen(), data)
    return 0 if data["protocol"] else 1


def _examine(server: Server, user: BrowserLogin | None) -> dict[str, Any]:
    """Connect to a server, and return what it offers as data."""
    from dragoman.mcp import MCPError

    resources: list[Resource] = []
    prompts: list[ServerPrompt] = []
    with _open(server, user) as box:
        problems, protocol, tools = box.problems, box.versions.get(server.name), _tools_as_data(box)
        try:
            if protocol:
                resources, prompts = box.resources(), box.prompts()
        except MCPError as problem:
            problems.append(str(problem))
    return {
        "name": server.name,
        "protocol": protocol,
        "tools": tools,
        "resources": [
            {"uri": each.uri, "name": each.name, "media_type": each.media_type, "template": each.is_template}
            for each in resources
        ],
        "prompts": [
            {
                "name": each.name,
                "description": each.description,
                "arguments": [{"name": row.name, "required": row.required} for row in each.arguments],
            }
            for each in prompts
        ],
        "problems": problems,
    }


def _open(server: Server, user: BrowserLogin | None) -> Toolbox:
    from dragoman.mcp import connect

    return connect([server], pins=pins_file(os.environ), tokens=tokens_file(os.environ), login=user)


def _tools_as_data(box: Toolbox) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.metadata["mcp_tool"],
            "description": tool.description,
            "state": tool.metadata["pin"],
            "rule": f"{tool.metadata['origin']}/{tool.metadata['mcp_tool']}",
        }
        for tool in box.tools
    ]


_NOT_USABLE = "`dragoman mcp list` shows its command or address; dragoman mcp add --force replaces it"


def _draw_test(screen: Screen, data: dict[str, Any]) -> None:
    if data["protocol"]:
        screen.line((quote_value(data["name"]), "bold green"), f"  works, protocol {data['protocol']}")
    for title, rows in (
        ("tools", [(each["name"], each["state"], each["description"]) for each in data["tools"]]),
        ("resources", [(each["uri"], each["media_type"] or "-", each["name"]) for each in data["resources"]]),
        ("prompts", [(each["name"], _arguments(each["arguments"]), each["description"]) for each in data["prompts"]]),
    ):
        if not rows:
            continue
        screen.heading(title)
        cells = pad_columns([(quote_value(name), quote_value(note), "") for name, note, _ in rows])
        for (name, note, _), (_, _, about) in zip(cells, rows, strict=True):
            first = about.strip().split("\n")[0]
            shown = screen.fit(first, len(name) + len(note) + 2 * len(GAP) + 2)
            screen.line("  ", (name, "green"), GAP, (note, "dim"), GAP, shown)
    for problem in data["problems"]:
        print_error(problem, "" if data["protocol"] else _NOT_USABLE)


def _arguments(rows: list[dict[str, Any]]) -> str:
    return " ".join(row["name"] if row["required"] else f"[{row['name']}]" for row in rows) or "-"


# ---- prompts ---------------------------------------------------------------------------------------------------------

PROMPT = "mcp:"
"""The beginning of the name of a server's prompt: `mcp:SERVER/PROMPT`."""


def read_prompt(name: str, values: Mapping[str, str], task: str, more: Sequence[str] = ()) -> list[Message]:
    """The messages of a prompt of a server, with its arguments, and the task after them. `more` are those of --mcp."""
    from dragoman.types import Message

    place, slash, prompt = name.removeprefix(PROMPT).partition("/")
    if not slash or not prompt:
        raise ConfigError(f"{name!r} does not name a prompt of a server", hint="write it as mcp:SERVER/PROMPT")
    server = _find_server(place, more)
    with _open(server, terminal_login()) as box:
        if not box.versions:
            raise ConfigError(box.problems[0], hint=f"`dragoman mcp test {place}` tries the server")
        known = {each.name: each for each in box.prompts()}
        if prompt not in known:
            raise ConfigError(
                f"the server {place!r} has no prompt {prompt!r}{did_you_mean(prompt, known)}",
                hint=f"its prompts are {', '.join(known)}" if known else "it has no prompts",
            )
        names = [row.name for row in known[prompt].arguments]
        if unknown := next((each for each in values if each not in names), None):
            hint = f"its placeholders are {', '.join(names)}" if names else "it has none"
            raise ConfigError(
                f"the prompt {name} has no placeholder {unknown!r}{did_you_mean(unknown, names)}", hint=hint
            )
        missing = [row.name for row in known[prompt].arguments if row.required and row.name not in values]
        if missing:
            options = " ".join(f"--fill {each}=..." for each in missing)
            raise ConfigError(f"the prompt {name} needs {', '.join(missing)}", hint=f"add {options}")
        messages = box.get_prompt(server.name, prompt, values)
    return [*messages, *([Message.user(task)] if task else [])]


# ---- login -----------------------------------------------------------------------------------------------------------


@app.command(short_help="Log in at a server with your browser.")
def login(
    name: NameOrUrl,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help="A scope to ask for. May be repeated.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before the browser opens.")] = False,
) -> int:
    """Log in at a server with OAuth. Your browser opens a page of its authorization server.

    The tokens are saved in a file that only you can read, and are refreshed when they expire. They are sent to this
    server only.
    """
    import asyncio

    from dragoman.mcp import log_in
    from dragoman.mcp.oauth import Challenge, LoginFault

    server = _require_http(name)
    user = terminal_login(is_confirmed=yes)
    if user is None:
        raise ConfigError("a login has to be confirmed, and this is no terminal", hint="--yes confirms it")
    try:
        challenge = asyncio.run(_ask_for_challenge(server, tuple(scope or ())))
        grant = asyncio.run(log_in(server, _store(), user, challenge or Challenge()))
    except LoginFault as fault:
        print_error(f"{server.name}: {fault}")
        return 1
    scopes = f", for: {' '.join(grant.scopes)}" if grant.scopes else ""
    print_line(f"logged in at {quote_value(server.name)}{scopes}")
    return 0


async def _ask_for_challenge(server: HttpServer, scopes: tuple[str, ...]) -> Any:
    """What the server says to somebody without a token: where its metadata are, and which scopes it needs."""
    from msgspec.structs import replace

    from dragoman.mcp.tokens import fetch_challenge

    challenge = await fetch_challenge(server)
    return replace(challenge, scopes=scopes) if scopes else challenge


@app.command(short_help="Remove the tokens of a login.")
def logout(name: NameOrUrl) -> int:
    """Remove the tokens of a login from this machine. They stay valid at the server until they expire."""
    server = _require_http(name)
    if not _store().remove(server.url):
        print_error(f"you are not logged in at {quote_value(server.name)}")
        return 1
    print_line(f"removed the tokens for {quote_value(server.name)}")
    return 0


# ---- servers ---------------------------------------------------------------------------------------------------------


def _find_server(name: str, more: Sequence[str] = ()) -> Server:
    """A server of the settings or of `more` by its name; or one that is written as for `--mcp`."""
    from dragoman.mcp import read_servers

    config: Config = load()
    known = {**config["mcp"], **read_server_options(more)}
    row = known.get(name)
    if row is None and not any(sign in name for sign in ("://", " ", ".json")):
        raise ConfigError(
            f"there is no MCP server {name!r}{did_you_mean(name, known)}",
            hint="`dragoman mcp list` shows the servers; a URL, or a command in quotes, works too",
        )
    rows = read_server_options([name]) if row is None else {name: {**row, "disabled": False, "enabled": True}}
    servers = read_servers(rows)
    if len(servers) != 1:
        raise ConfigError(f"{name} has {len(servers)} servers", hint="name one of them: NAME=FILE")
    return servers[0]


def _require_http(name: str) -> HttpServer:
    from dragoman.mcp import HttpServer

    server = _find_server(name)
    if not isinstance(server, HttpServer):
        raise ConfigError(f"{name!r} is a program, which has no login", hint="give it a key with --env")
    return server


def _store() -> TokenStore:
    from dragoman.mcp import TokenStore

    path = tokens_file(os.environ)
    if path is None:
        raise ConfigError("there is no configuration folder for the tokens of logins", hint="set HOME")
    return TokenStore(path)

"""`dragoman providers`: list the known providers, or show one of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from dragoman.cli.screen import GAP, Screen, Table, read_text, write_json
from dragoman.errors import ConfigError
from dragoman.providers import WIRES, Endpoint, Provider, Registry
from dragoman.providers.provider import OWN, UNKNOWN
from dragoman.providers.registry import changed_quirks, quirk_defaults, quirk_meanings

HELP = """List the known providers, or show one of them.

NAME is a provider, an alias or a wire. For provider:model the command also shows what is known about the model. It
looks for keys in the environment and never shows them.

\b
Examples:
  dragoman providers                        list all providers, and whether a key is set
  dragoman providers groq                   show its URL, key, wires, and quirks with their meaning
  dragoman providers ollama:qwen3           also show the wire, format and capabilities of this model
  dragoman providers --wire anthropic       list the providers with this wire
  dragoman providers --native no            list the providers without native calls
  dragoman providers mine                   show a row of your settings: [providers.mine] base_url = "..."
  dragoman providers --config my.toml mine  show a row of another file
  dragoman providers --json | jq length     print JSON
"""

Native = Literal["yes", "no", "per_model", "learned"]
if TYPE_CHECKING:
    Wire = str
else:
    # Typer shows the members as the choices of the option.
    Wire = Literal[(*WIRES, OWN)]
GROUPS = {
    "first_party": "Vendors of models",
    "host": "Hosts",
    "router": "Routers and gateways",
    "local": "Servers on this machine",
    "custom": "Your own",
}
NATIVE = {
    "yes": "yes",
    "no": "no: calls are sent as text",
    "per_model": "depends on the model profile",
    "learned": "off until the endpoint is known to accept them; tried first at a server of your own",
}


app = typer.Typer(name="providers", add_completion=False, rich_markup_mode=None)


@app.command("providers", help=HELP)
def providers(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One provider, or provider:model.", show_default=False)
    ] = None,
    wire: Annotated[Wire | None, typer.Option(help="Only providers with this wire.", show_default=False)] = None,
    native: Annotated[
        Native | None, typer.Option(help="Only providers with this support of native calls.", show_default=False)
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", "-c", metavar="FILE", help="A TOML file with your own rows.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    registry = _registry(config)
    if name is not None:
        _explain(registry, name, wire or "", as_json=as_json)
        return
    listed = [
        row for row in registry if (wire is None or wire in row.wires) and (native is None or row.native == native)
    ]
    if as_json:
        write_json([as_data(row) for row in listed])
    else:
        _list(Screen(), listed, registry.problems)


def as_data(row: Provider) -> dict[str, Any]:
    """One row as JSON, and where its key was found; never the key."""
    data: dict[str, Any] = msgspec.to_builtins(row)
    return data | {"speakable": row.speakable, "key_set": _key_variable(row)}


def endpoint_as_data(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "provider": endpoint.provider.name,
        "model": endpoint.model,
        "wire": endpoint.wire,
        "base_url": endpoint.base_url,
        "missing": list(endpoint.missing),
        "key": list(endpoint.key_names),
        "key_set": _key_variable(endpoint.provider),
        "profile": msgspec.to_builtins(endpoint.profile),
        "prompt_format": endpoint.prompt_format,
        "formats": list(endpoint.formats),
        "quirks": changed_quirks(endpoint.quirks),
        "capabilities": msgspec.to_builtins(endpoint.capabilities),
        "body": endpoint.body,
    }


def _registry(config: str | None) -> Registry:
    """The known providers, with the rows of the user's settings and of the file that was named."""
    from dragoman.config import load

    registry = load(environment=os.environ).registry(Registry.default())
    return registry if config is None else registry.with_rows(read_text(config))


def _key_variable(row: Provider) -> str | None:
    """The first environment variable that holds a key."""
    return next((name for name in row.key if os.environ.get(name)), None)


# ---- list ------------------------------------------------------------------------------------------------------------


def _list(screen: Screen, listed: list[Provider], problems: tuple[str, ...]) -> None:
    heads = ("name", "provider", "wire", "native", "key", "base URL")
    cells = [_cells(row) for row in listed]
    table = Table(screen, heads, cells, ["base URL", "provider", "native"])
    table.heads()
    for group, title in GROUPS.items():
        members = [(row, each) for row, each in zip(listed, cells, strict=True) if row.group == group]
        if members:
            screen.line((f"# {title}", "bold cyan"))
        for row, each in members:
            table.row(each, "green", "", "", "", "green" if _key_variable(row) else "dim", "dim")
    screen.line()
    for problem in problems:
        screen.line(("problem: ", "red"), problem)
    screen.line(f"{len(listed)} providers; dragoman providers NAME shows one")


def _cells(row: Provider) -> tuple[str, ...]:
    found = _key_variable(row)
    key = f"{found} (set)" if found else (row.key[0] if row.key else "-")
    return row.name, row.title, ",".join(row.wires[:1]), row.native, key, row.base_url or "-"


# ---- one provider ----------------------------------------------------------------------------------------------------


def _explain(registry: Registry, name: str, wire: str, *, as_json: bool) -> None:
    is_word = not any(sign in name for sign in ":/ ") and registry.profile(name).name == UNKNOWN.name
    # A word that no family of models begins with was meant as a provider.
    known, model = (name, "") if is_word and not registry.suggest_model(name) else registry.split(name)
    row = registry.get(known.partition("@")[0])
    if not model:
        if wire and wire not in row.wires:
            raise ConfigError(f"{row.name} does not have the wire {wire}", hint=f"its wires are {', '.join(row.wires)}")
        if as_json:
            write_json(as_data(row))
        else:
            _show(Screen(), row)
        return
    endpoint = registry.resolve(name, wire=wire, variables=_variables(row))
    if as_json:
        write_json(endpoint_as_data(endpoint))
        return
    screen = Screen()
    _show(screen, row)
    _show_model(screen, endpoint)


def _variables(row: Provider) -> dict[str, str]:
    """The values of the variables in the address, from the environment."""
    found = {
        variable: next(filter(None, map(os.environ.get, names)), None) for variable, names in row.variables.items()
    }
    return {variable: value for variable, value in found.items() if value is not None}


def _show(screen: Screen, row: Provider) -> None:
    screen.line((row.title or row.name, "bold green"), (f"  {row.name}, {GROUPS[row.group].lower()}", "dim"))
    facts = [
        ("also known as", ", ".join(row.aliases)),
        ("base URL", row.base_url or "you have to give it"),
        *((f"base URL, {place}", url) for place, url in row.urls.items()),
        *((f"base URL of {wire}", url) for wire, url in row.wire_urls.items()),
        *((f"{{{variable}}}", _with_state(names)) for variable, names in row.variables.items()),
        ("key", _with_state(row.key)),
        ("sent as", row.auth_meaning),
        ("headers", ", ".join(f"{header}: {value}" for header, value in row.headers.items())),
        ("wires", ", ".join(row.wires) if row.speakable else "none that dragoman supports"),
        ("native tools", NATIVE[row.native]),
        ("text format", ", ".join(dict.fromkeys((row.format, *row.formats)))),
    ]
    screen.facts(facts)
    _show_quirks(screen, "Quirks", row.quirks)
    for wire, quirks in row.wire_quirks.items():
        if wire in row.wires:
            _show_quirks(screen, f"Quirks on {wire}", quirks)
    for wire, fields in row.body.items():
        screen.heading(f"Sent with every request on {wire}")
        for field, value in fields.items():
            screen.line(GAP, f"{field} = {_to_json(value)}")
    if row.notes:
        screen.heading("Notes")
        screen.block(row.notes)


def _show_model(screen: Screen, endpoint: Endpoint) -> None:
    profile = endpoint.profile
    screen.heading(f"{endpoint.model}: profile {profile.name}")
    facts = [
        ("wire", endpoint.wire),
        ("base URL", endpoint.base_url),
        ("missing variables", ", ".join(endpoint.missing)),
        ("native tools", "yes" if endpoint.capabilities.native_tool_calls else "no: calls are sent as text"),
        ("format in the prompt", "" if endpoint.capabilities.native_tool_calls else endpoint.prompt_format),
        ("accepted text formats", ", ".join(endpoint.formats)),
        ("schemas", profile.schema),
        ("notes", profile.notes),
    ]
    screen.facts(facts)
    screen.heading("Capabilities")
    for name, value in msgspec.to_builtins(endpoint.capabilities).items():
        screen.line(GAP, f"{name} = {_to_json(value)}")
    _show_quirks(screen, "Quirks of the endpoint", changed_quirks(endpoint.quirks))


def _show_quirks(screen: Screen, title: str, quirks: dict[str, Any]) -> None:
    if not quirks:
        return
    meanings, defaults = quirk_meanings(), quirk_defaults()
    screen.heading(title)
    for name, value in quirks.items():
        screen.line(GAP, (name, "green"), f" = {_to_json(value)}", (f"  (usually {_to_json(defaults[name])})", "dim"))
        screen.line(GAP * 2, meanings.get(name, ""))


def _with_state(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} ({'set' if os.environ.get(name) else 'not set'})" for name in names)


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

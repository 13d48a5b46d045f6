"""The tools of MCP servers, ready for any number of agents."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import inspect
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dragoman.client.portal import Portal, blocking
from dragoman.errors import ConfigError, DragomanError, did_you_mean
from dragoman.mcp.connection import Connection, Setup
from dragoman.mcp.content import (
    Part,
    Resource,
    ServerPrompt,
    read_contents,
    read_messages,
    read_prompts,
    read_resources,
    read_result,
)
from dragoman.mcp.definitions import Definition, Pin, Pins
from dragoman.mcp.elicitation import Ask
from dragoman.mcp.login import BrowserLogin
from dragoman.mcp.protocol import ErrorReply, Limits, RequestNotSent, ServerFault
from dragoman.mcp.servers import HttpServer, Server, StdioServer, check_servers
from dragoman.mcp.tokens import TokenStore
from dragoman.tools import Error, ToolContext, tool_from_schema
from dragoman.toolset import fold
from dragoman.types import JsonObject, Message, Tool, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# The names of tools for the model: `mcp__SERVER__TOOL`, always unique.
#
# A server cannot use the name of a built-in tool or of another server's tool. Names that would be cut, changed or
# ambiguous end with a part of a hash, which depends only on the server and the tool.

LONGEST = 64
_not_allowed = re.compile(r"[^A-Za-z0-9_-]").sub
_HASH = 8


def wire_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the name on the wire of each pair of a server and a tool."""
    wanted = {pair: "mcp__{}__{}".format(*pair) for pair in tools}
    plain = {pair: _not_allowed("_", name)[:LONGEST] for pair, name in wanted.items()}
    # Parsers ignore case, dashes and underscores in names, so such names count as the same.
    sharing = Counter(fold(name) for name in plain.values())
    return {
        pair: name if sharing[fold(name)] == 1 and name == wanted[pair] else _hashed_name(name, *pair)
        for pair, name in plain.items()
    }


def rule_name(server: str, tool: str) -> str:
    """Return the name of a tool in rules of the policy."""
    return f"mcp:{server}/{tool}"


def _hashed_name(name: str, server: str, tool: str) -> str:
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}_{digest}"


# --------------------------------------------------------------------------------------------------------------------
# The tools of several servers, for any number of agents, in any thread and event loop.
#
# One background thread of the process communicates with all servers. A call in any thread waits for it, and a
# cancellation of the call reaches the server.

T = TypeVar("T")
_UNKNOWN = " It is not known whether the call was carried out."
_portal = Portal()


class MCPError(DragomanError):
    """A server did not return a resource, a prompt or a list."""

    hint = "`dragoman mcp test NAME` shows what a server offers, and its problems"


class Toolbox:
    """Servers and their tools. Close it when the tools are no longer needed."""

    def __init__(self, servers: list[Server], setup: Setup) -> None:
        check_servers(servers)
        self._connections = [Connection(each, setup) for each in servers]
        self._limits = setup.limits
        self._pid = os.getpid()
        self._is_closed = False
        self._is_ready = False
        self._opening = asyncio.Lock()
        self._made: dict[tuple[str, str], Tool] = {}
        self._made_at = -1

    @property
    def tools(self) -> list[Tool]:
        """The tools that the servers offered when they were last asked. The definition of a tool never changes: if its
        server sends another one, the tool is disabled."""
        revision = self.revision
        if revision != self._made_at:
            self._make_tools()
            self._made_at = revision
        pairs = [(each.server, each.name) for connection in self._connections for each in connection.offered]
        return [self._made[pair] for pair in pairs if pair in self._made]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    @property
    def revision(self) -> int:
        """Grows whenever a server lists its tools again. The next run of an agent uses the new list."""
        return sum(connection.revision for connection in self._connections)

    @property
    def is_ready(self) -> bool:
        """Whether the tools are known and can be called. Servers that were given to an agent are asked in a run."""
        return self._is_ready and not self._is_closed

    @property
    def problems(self) -> list[str]:
        """Messages for the user: servers that did not start, tools that are ignored or disabled."""
        return [problem for connection in self._connections for problem in connection.problems]

    @property
    def versions(self) -> dict[str, str]:
        """The protocol version of each running server."""
        return {each.server.name: each.version for each in self._connections if each.version}

    @property
    def pins(self) -> list[Pin]:
        """The pin of each tool at the time of the connection."""
        return [pin for connection in self._connections for pin in connection.pins.values()]

    def untrusted_texts(self) -> list[str]:
        """The texts of the definitions, which are untrusted and which a model reads."""
        texts = [text for each in self._connections for definition in each.definitions for text in definition.texts()]
        return list(dict.fromkeys(texts))

    def secrets(self) -> list[str]:
        """The values of the servers' headers and variables, and the tokens of logins, for redaction."""
        return [secret for connection in self._connections for secret in connection.secrets()]

    async def aready(self) -> None:
        """Ask the servers for their tools, all at once, unless that is done. Raises ConfigError if one cannot be used.

        The next call tries such a server again. Only a toolbox that an agent made of servers has to be asked: `connect`
        returns one that is ready.
        """
        if self._is_closed:
            # Servers that start now would never be ended.
            raise ConfigError("the MCP servers of this agent were closed with it", hint="create another agent")
        if self._is_ready:
            return
        if failures := await _bridge(self._open(needs_all=True)):
            raise ConfigError(
                f"the MCP server {failures[0]}",
                hint="to go on without it, connect first: tools=dragoman.mcp.connect([...]), and print its problems",
            )

    async def _open(self, lazy: Container[str] = (), *, needs_all: bool = False) -> list[str]:
        """Connect to the servers that are not connected, and return why some cannot be used."""
        async with self._opening:
            if self._is_ready:
                return []
            # After the background thread has registered its own end: what is registered last is called first.
            atexit.unregister(self.close)
            atexit.register(self.close)
            await asyncio.gather(*(self._open_one(each, lazy) for each in self._connections if not each.version))
            failures = [each.failure for each in self._connections if each.failure]
            self._is_ready = not (failures and needs_all)
            return failures

    async def _open_one(self, connection: Connection, lazy: Container[str]) -> None:
        if connection.server.name not in lazy or not await connection.recall():
            await connection.open()

    # ---- resources and prompts -------------------------------------------------------------------------------------

    async def aresources(self, server: str | None = None) -> list[Resource]:
        """Return the resources and the templates of all servers, or of one. Raises MCPError."""
        found: list[Resource] = []
        for each in self._find(server):
            for kind in ("resources", "resourceTemplates"):
                listed = await self._do(each, each.fetch_list(kind))
                found += read_resources(each.server.name, listed, self._limits)
        return found

    async def aread_resource(self, server: str, uri: str, *, ask: Ask | None = None) -> list[Part]:
        """Return the parts of a resource. They are untrusted content. Raises MCPError."""
        (connection,) = self._find(server)
        request = connection.request("resources/read", {"uri": uri}, self._limits.call_seconds, ask=_outside(ask))
        return read_contents(await self._do(connection, request), self._limits)

    async def aprompts(self, server: str | None = None) -> list[ServerPrompt]:
        """Return the prompts of all servers, or of one. Raises MCPError."""
        found: list[ServerPrompt] = []
        for each in self._find(server):
            found += read_prompts(each.server.name, await self._do(each, each.fetch_list("prompts")), self._limits)
        return found

    async def aget_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None, *, ask: Ask | None = None
    ) -> list[Message]:
        """Return the messages of a prompt, for `agent.run`. They are marked as untrusted content. Raises MCPError."""
        (connection,) = self._find(server)
        params = {"name": name, "arguments": dict(arguments or {})}
        request = connection.request("prompts/get", params, self._limits.call_seconds, ask=_outside(ask))
        return read_messages(await self._do(connection, request), self._limits)

    resources = blocking(aresources, "resources", "The same as `aresources`, in blocking code.")
    read_resource = blocking(aread_resource, "read_resource", "The same as `aread_resource`, in blocking code.")
    prompts = blocking(aprompts, "prompts", "The same as `aprompts`, in blocking code.")
    get_prompt = blocking(aget_prompt, "get_prompt", "The same as `aget_prompt`, in blocking code.")

    def _find(self, server: str | None) -> list[Connection]:
        known = {each.server.name: each for each in self._connections}
        if server is None:
            return list(known.values())
        if server not in known:
            raise ConfigError(f"there is no MCP server {server!r}{did_you_mean(server, known)}")
        return [known[server]]

    async def _do(self, connection: Connection, work: Coroutine[Any, Any, T]) -> T:
        if self._pid != os.getpid() or self._is_closed:
            work.close()
            raise MCPError(f"the MCP server {connection.server.name!r} is no longer connected")
        try:
            return await _bridge(work)
        except ServerFault as fault:
            raise MCPError(f"the MCP server {connection.server.name!r}: {fault}") from None

    def close(self) -> None:
        """End all servers and connections. May be called twice."""
        if self._may_close():
            _portal.run(self._close())

    async def aclose(self) -> None:
        """Like `close`, for async code."""
        if self._may_close():
            await _bridge(self._close())

    def _may_close(self) -> bool:
        # After a fork the servers belong to the parent process.
        may = not self._is_closed and self._pid == os.getpid()
        self._is_closed = True
        if may:
            atexit.unregister(self.close)
        return may

    async def _close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections))

    def __enter__(self) -> Toolbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Toolbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # ---- tools -----------------------------------------------------------------------------------------------------

    def _make_tools(self) -> None:
        """Make the tools of new definitions. Those that were made before stay, with their names."""
        pairs = [(each, definition) for each in self._connections for definition in each.definitions]
        names = wire_names((definition.server, definition.name) for _, definition in pairs)
        taken = {fold(tool.name) for tool in self._made.values()}
        for connection, definition in pairs:
            pair = (definition.server, definition.name)
            if pair not in self._made:
                name = names[pair] if fold(names[pair]) not in taken else _hashed_name(names[pair], *pair)
                self._made[pair] = self._make_tool(connection, definition, name)

    def _make_tool(self, connection: Connection, definition: Definition, name: str) -> Tool:
        pin = connection.pins[definition.key]
        # A server may declare its tools read-only; that counts after a user approved them.
        is_trusted = pin.state == "approved"
        read_only = is_trusted and definition.hints.get("readOnlyHint") is True
        metadata: dict[str, Any] = {
            "origin": f"mcp:{definition.server}",
            "mcp_tool": definition.name,
            "pin": pin.state,
            "digest": definition.digest,
            "annotations": definition.hints,
        }
        if not read_only:
            metadata["exec"] = True
        schema, description = definition.parameters, definition.description
        if pin.state == "changed":
            # The new description is not shown: an attack may only need the model to read it.
            schema = {"type": "object"}
            description = "This tool is off, because its definition has changed and nobody has approved that."
        return tool_from_schema(
            name,
            schema,
            self._make_runner(connection, definition, read_only),
            unpack=False,
            description=description,
            read_only=read_only,
            repeatable=read_only or (is_trusted and definition.hints.get("idempotentHint") is True),
            metadata=metadata,
        )

    def _make_runner(
        self, connection: Connection, definition: Definition, read_only: bool
    ) -> Callable[[JsonObject, ToolContext], Awaitable[ToolResult]]:
        place = f"the MCP server {definition.server!r}"

        async def run(arguments: JsonObject, context: ToolContext) -> ToolResult:
            if self._pid != os.getpid() or self._is_closed:
                raise Error(f"{place} is no longer connected")
            seconds = self._limits.call_seconds
            if context.deadline is not None:
                seconds = max(0.0, min(seconds, context.deadline - time.monotonic()))
            report, ask = _from_outside(context.progress), _outside(context.ask)
            try:
                result = await _bridge(connection.call(definition, arguments, seconds, report, ask))
                return read_result(result, self._limits)
            except ErrorReply as refusal:
                raise Error(f"{place} refused the call: {refusal}") from None
            except RequestNotSent as fault:
                raise Error(f"{place}: {fault}. Nothing was run.") from None
            except ServerFault as fault:
                raise Error(f"{place}: {fault}.{'' if read_only else _UNKNOWN}") from None

        return run


def _from_outside(progress: Callable[..., None]) -> Callable[[str, float | None], None]:
    """Pass progress from another thread to the loop of the call."""
    loop = asyncio.get_running_loop()

    def report(message: str, fraction: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(progress, message, fraction)

    return report


def _outside(ask: Callable[..., Any] | None) -> Ask | None:
    """Return a function that asks the user in the loop of the caller, for the background thread."""
    if ask is None:
        return None
    loop = asyncio.get_running_loop()

    async def put(question: str, choices: list[str]) -> Any:
        given = ask(question, choices)
        return await given if inspect.isawaitable(given) else given

    async def ask_there(question: str, choices: list[str]) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(put(question, choices), loop))

    return ask_there


async def _bridge(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background thread, and wait for it; a cancellation is passed on."""
    try:
        loop = _portal.loop()
    except BaseException:
        work.close()
        raise
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


# ---- connecting ----------------------------------------------------------------------------------------------------


async def aconnect(
    servers: Iterable[Server],
    *,
    pins: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
    tokens: str | os.PathLike[str] | None = None,
    login: BrowserLogin | None = None,
    lazy: bool | Iterable[str] = False,
) -> Toolbox:
    """Like `connect`, for async code."""
    made = unopened(servers, pins=pins, limits=limits, environment=environment, tokens=tokens, login=login)
    known = [each.server.name for each in made._connections]
    names = frozenset(known if lazy is True else lazy or ())
    if unknown := next((each for each in names if each not in known), None):
        raise ConfigError(
            f"lazy: there is no MCP server {unknown!r}{did_you_mean(unknown, known)}", hint="name one of the servers"
        )
    try:
        await _bridge(_ask(made, names))
    except BaseException:
        await made.aclose()
        raise
    return made


async def _ask(toolbox: Toolbox, lazy: Container[str]) -> None:
    await toolbox._open(lazy)


connect = blocking(
    aconnect,
    "connect",
    """Start or connect to all servers concurrently, and list their tools. Blocks; `aconnect` is for async code.

    A server that does not start is listed in `problems`, and does not affect the others. `pins` is the file for the
    definitions; without one, they are kept in memory until the toolbox is closed. Servers inherit a few variables of
    `environment`, by default that of this process. Raises ConfigError for invalid rows and for an unreadable file of
    pins.

    `tokens` is the file for the tokens of logins, which only its owner can read. A server that needs a login is a
    problem, unless there are tokens for it or `login` confirms it. The servers that `lazy` names (True: all of them)
    start with the first call, if their tools are in the file of pins and not older than a day.
    """,
)


def unopened(
    servers: Iterable[Server],
    *,
    pins: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
    tokens: str | os.PathLike[str] | None = None,
    login: BrowserLogin | None = None,
) -> Toolbox:
    """Return a toolbox whose servers have not been started. `aready` does that."""
    given: Any = servers
    if isinstance(given, Mapping | str | StdioServer | HttpServer):
        hint = (
            "for rows, write connect(read_servers(rows))" if isinstance(given, Mapping) else "write connect([server])"
        )
        raise ConfigError(f"the servers are a list, not {type(given).__name__}", hint=hint)
    store = Pins(pins)
    store.read()
    inherited = dict(os.environ if environment is None else environment)
    return Toolbox(list(servers), Setup(limits or Limits(), store, TokenStore(tokens), inherited, login))

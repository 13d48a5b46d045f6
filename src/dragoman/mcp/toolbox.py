"""The tools of MCP servers, ready for any number of agents."""

from __future__ import annotations

import asyncio
import atexit
import binascii
import contextlib
import hashlib
import os
import re
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from dragoman.client.portal import Portal
from dragoman.mcp.definitions import Definition, Pin, Pins
from dragoman.mcp.protocol import Channel, ErrorReply, Limits, Receive, RequestNotSent, ServerFault, clean_line
from dragoman.mcp.servers import HttpServer, Server, check_servers
from dragoman.mcp.session import Connection
from dragoman.tools import Error, ToolContext, tool_from_schema
from dragoman.tools.json_values import whole
from dragoman.toolset import fold
from dragoman.types import File, Image, JsonObject, Text, Tool, ToolResult

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
# Conversion of a result. Every part of it is shown in some form.

Part = Text | Image | File
_is_media_type = re.compile(r"[a-z]+/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}").fullmatch


def read_result(result: JsonObject, limits: Limits) -> ToolResult:
    """Convert the result of a call: `content` is for the model, `structuredContent` is data for the caller."""
    if result.get("resultType", "complete") != "complete":
        raise ServerFault("the server requests input from a user, which this client does not support")
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    parts = [_part_of(block) for block in blocks[: limits.result_parts]]
    if len(blocks) > limits.result_parts:
        parts.append(Text(f"[{len(blocks) - limits.result_parts} more parts left out]"))
    data = result.get("structuredContent")
    if not parts and data is not None:
        parts.append(Text(msgspec.json.encode(data).decode()))
    texts = [part.text for part in parts if isinstance(part, Text)]
    shown = "\n".join(texts) if len(texts) == len(parts) else parts
    return ToolResult("", content=shown, is_error=result.get("isError") is True, data=data)


def _part_of(block: Any) -> Part:
    if not isinstance(block, dict):
        return Text("[a part that is no object, left out]")
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(whole(text))
        case {"type": "image" | "audio" as kind}:
            return _media(kind, block.get("data"), block.get("mimeType"))
        case {"type": "resource_link"}:
            # A link is shown and not followed: the server chose the URL.
            words = [clean_line(block.get(key), 200) for key in ("name", "uri", "mimeType", "description")]
            return Text(f"[link to a resource: {', '.join(filter(None, words))}]")
        case {"type": "resource", "resource": dict(resource)}:
            return _resource(resource)
    return Text(f"[a part of the unknown kind {clean_line(block.get('type'), 40)!r}, left out]")


def _media(kind: str, data: Any, media_type: Any) -> Part:
    if not _is_base64(data) or not _is_type(media_type, kind):
        return Text(f"[an {kind} that cannot be read, left out]")
    if kind == "image":
        return Image(data=data, media_type=media_type)
    return File(f"audio.{media_type.partition('/')[2]}", data, media_type=media_type)


def _resource(resource: JsonObject) -> Part:
    text, blob, media_type = resource.get("text"), resource.get("blob"), resource.get("mimeType")
    name = clean_line(resource.get("uri"), 200) or "resource"
    if isinstance(text, str):
        return Text(whole(text))
    if not _is_base64(blob):
        return Text(f"[the resource {name} cannot be read, left out]")
    if _is_type(media_type, "image"):
        return Image(data=blob, media_type=media_type)
    is_known = isinstance(media_type, str) and _is_media_type(media_type) is not None
    return File(name, blob, media_type=media_type if is_known else None)


def _is_base64(data: Any) -> bool:
    try:
        return isinstance(data, str) and bool(b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_type(media_type: Any, kind: str) -> bool:
    return isinstance(media_type, str) and media_type.startswith(f"{kind}/") and _is_media_type(media_type) is not None


# --------------------------------------------------------------------------------------------------------------------
# The tools of several servers, for any number of agents, in any thread and event loop.
#
# One background thread of the process communicates with all servers. A call in any thread waits for it, and a
# cancellation of the call reaches the server.

T = TypeVar("T")
_UNKNOWN = " It is not known whether the call was carried out."
_portal = Portal()


class Toolbox:
    """Running servers and their tools. Close it when the tools are no longer needed."""

    def __init__(self, connections: list[Connection], limits: Limits) -> None:
        self._connections = connections
        self._limits = limits
        self._pid = os.getpid()
        self._is_closed = False
        self._tools = self._make_tools()

    @property
    def tools(self) -> list[Tool]:
        """The tools at the time of the connection. They never change; a tool can only become disabled."""
        return list(self._tools)

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
        """The values of the servers' headers and variables, for redaction."""
        return [secret for connection in self._connections for secret in connection.server.secrets()]

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

    def _make_tools(self) -> list[Tool]:
        pairs = [(each, definition) for each in self._connections for definition in each.definitions]
        names = wire_names((definition.server, definition.name) for _, definition in pairs)
        return [
            self._make_tool(each, definition, names[definition.server, definition.name]) for each, definition in pairs
        ]

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
            report = _from_outside(context.progress)
            try:
                result = await _bridge(connection.call(definition, arguments, seconds, report))
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


async def _bridge(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background thread, and wait for it; a cancellation is passed on."""
    try:
        loop = _portal.loop()
    except BaseException:
        work.close()
        raise
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


# ---- connecting ----------------------------------------------------------------------------------------------------


def connect(
    servers: Iterable[Server],
    *,
    pins: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
) -> Toolbox:
    """Start or connect to all servers concurrently, and list their tools. Blocks; `aconnect` is for async code.

    A server that does not start is listed in `problems`, and does not affect the others. `pins` is the file for the
    definitions; without one, they are kept in memory until the toolbox is closed. Servers inherit a few variables of
    `environment`, by default that of this process. Raises ConfigError for invalid rows and for an unreadable file of
    pins.
    """
    return _portal.run(_open(list(servers), pins, limits or Limits(), environment))


async def aconnect(
    servers: Iterable[Server],
    *,
    pins: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    environment: Mapping[str, str] | None = None,
) -> Toolbox:
    """Like `connect`, for async code."""
    return await _bridge(_open(list(servers), pins, limits or Limits(), environment))


async def _open(
    servers: list[Server], path: str | os.PathLike[str] | None, limits: Limits, environment: Mapping[str, str] | None
) -> Toolbox:
    check_servers(servers)
    pins = Pins(path)
    await asyncio.to_thread(pins.read)
    inherited = dict(os.environ if environment is None else environment)
    connections = [Connection(each, limits, pins, _channels_of(each, limits, inherited)) for each in servers]
    try:
        await asyncio.gather(*(connection.open() for connection in connections))
        toolbox = Toolbox(connections, limits)
    except BaseException:
        await asyncio.gather(*(connection.close() for connection in connections), return_exceptions=True)
        raise
    atexit.register(toolbox.close)
    return toolbox


def _channels_of(server: Server, limits: Limits, inherited: Mapping[str, str]) -> Callable[[Receive], Channel]:
    def make(receive: Receive) -> Channel:
        # Imported late, because most toolboxes need only one of the two.
        if isinstance(server, HttpServer):
            from dragoman.mcp.http import HttpChannel

            return HttpChannel(server, limits, receive)
        from dragoman.mcp.stdio import StdioChannel

        return StdioChannel(server, limits, receive, inherited)

    return make

"""The reference servers of MCP, over stdio and HTTP, with kills and restarts. The official client is the judge."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.support.environments import Environments, Unavailable, end, free_port, running
from tests.peers.report import Report

from dragoman.mcp import HttpServer, Limits, Server, StdioServer, Toolbox, connect
from dragoman.tools import answer_sync, bind
from dragoman.types import Tool, ToolCall, ToolResult

NODE = "@modelcontextprotocol/"
LIMITS = Limits(restart_delays=(0.0, 0.0, 0.0), close_seconds=5.0)
HERE = Path(__file__).parent
RESTARTED = "the server answers 400, not 404, to a session that it lost, and the client does not open a new one"


class Peer(NamedTuple):
    """A server, and a call that has the same result every time."""

    name: str
    command: list[str]
    call: tuple[str, dict[str, Any]]


def find_peers(environments: Environments, page: str, report: Report) -> Iterator[Peer]:
    """The servers that are installed; the others are reported as unavailable."""
    place = environments.folder
    files = place / "files"
    files.mkdir(exist_ok=True)
    (files / "note.txt").write_text("snow: ☃\n", encoding="utf-8")
    repository = place / "repository"
    if not repository.exists():
        subprocess.run(["git", "init", "--quiet", str(repository)], check=True, capture_output=True)
    try:
        npm = environments.node(
            "mcp-node", *(NODE + name for name in ("server-everything", "server-filesystem", "server-memory"))
        )
        node = "node"
        programs = {
            name: str((npm / f"mcp-server-{name}").resolve()) for name in ("everything", "filesystem", "memory")
        }
        yield Peer("everything", [node, programs["everything"]], ("echo", {"message": "snow ☃"}))
        yield Peer(
            "filesystem",
            [node, programs["filesystem"], str(files)],
            ("read_text_file", {"path": str(files / "note.txt")}),
        )
        yield Peer("memory", [node, programs["memory"]], ("read_graph", {}))
    except Unavailable as reason:
        report.leave_out("MCP servers of npm", str(reason))
    for name, call in {
        "time": ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
        "fetch": ("fetch", {"url": page, "raw": True}),
        "git": ("git_status", {"repo_path": str(repository)}),
    }.items():
        try:
            programs_folder = environments.python(f"mcp-{name}", f"mcp-server-{name}")
            more = ["--allow-private-ips"] if name == "fetch" else []
            yield Peer(name, [str(programs_folder / f"mcp-server-{name}"), *more], call)
        except Unavailable as reason:
            report.leave_out(f"MCP {name}", str(reason))


def check(environments: Environments, report: Report) -> None:
    """Run all checks of these peers."""
    with serve_page() as page:
        everything: Peer | None = None
        for peer in find_peers(environments, page, report):
            everything = peer if peer.name == "everything" else everything
            check_stdio(peer, report)
    if everything is not None:
        check_http(everything, environments, report)


# ---- stdio -----------------------------------------------------------------------------------------------------------


def check_stdio(peer: Peer, report: Report) -> None:
    name, server = f"MCP {peer.name}, stdio", StdioServer(peer.name, peer.command)
    with report.check(name, "tools and a result as the official client sees them"):
        compare(server, peer.call, {"command": peer.command})
    with report.check(name, "a killed server is started again"), opened(server) as box:
        before = call(box, *peer.call)
        assert not before.is_error, before.content
        for _ in range(2):
            started = children_of(os.getpid(), peer.command)
            assert started, "its process is not found"
            for process in started:
                os.kill(process, signal.SIGKILL)
            again = until_answered(box, *peer.call)
            assert again.content == before.content, again.content
    with report.check(name, "a server that is killed during a call gives one error"), opened(server) as box:
        (process,) = children_of(os.getpid(), peer.command)
        os.kill(process, signal.SIGSTOP)
        results: list[ToolResult] = []
        thread = threading.Thread(target=lambda: results.append(call(box, *peer.call)))
        thread.start()
        time.sleep(0.3)
        os.kill(process, signal.SIGKILL)
        thread.join(60)
        assert len(results) == 1 and results[0].is_error, results
        assert not until_answered(box, *peer.call).is_error
    with report.check(name, "nothing is left after the end"):
        with opened(server) as box:
            assert not call(box, *peer.call).is_error
            started = children_of(os.getpid(), peer.command)
            assert started
        assert not [process for process in started if is_alive(process)]


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def check_http(peer: Peer, environments: Environments, report: Report) -> None:
    name, port = f"MCP {peer.name}, HTTP", free_port()
    command = [*peer.command, "streamableHttp"]
    server = HttpServer(peer.name, f"http://127.0.0.1:{port}/mcp")
    log, variables = environments.folder / "everything.log", {"PORT": str(port)}

    def serving() -> Any:
        return running(command, log, server.url, variables)

    with serving():
        with report.check(name, "tools and a result as the official client sees them"):
            compare(server, peer.call, {"url": server.url})
        with report.check(name, "many calls over one session"), opened(server) as box:
            results = [call(box, "echo", {"message": str(number)}) for number in range(20)]
            assert [str(result.content) for result in results] == [f"Echo: {number}" for number in range(20)]
    with report.check(name, "a server that is down is an error, and a new start helps"):
        with serving() as process, opened(server) as box:
            end(process)
            down = call(box, *peer.call)
            assert down.is_error
        with serving(), opened(server) as box:
            assert not call(box, *peer.call).is_error
    with report.check(name, "an open session survives a restart of the server", known=RESTARTED):
        with serving() as process:
            box = connect([server], limits=LIMITS)
            end(process)
        with box, serving():
            assert not until_answered(box, *peer.call).is_error


# ---- helpers ---------------------------------------------------------------------------------------------------------


@contextmanager
def opened(server: Server) -> Iterator[Toolbox]:
    with connect([server], limits=LIMITS) as box:
        assert box.problems == [], box.problems
        yield box


def find(box: Toolbox, name: str) -> Tool:
    (tool,) = (each for each in box.tools if each.metadata["mcp_tool"] == name)
    return tool


def call(box: Toolbox, name: str, arguments: dict[str, Any]) -> ToolResult:
    tool = find(box, name)
    return answer_sync(bind(tool, arguments), ToolCall("1", tool.name, arguments), wait=asyncio.run).result


def until_answered(box: Toolbox, name: str, arguments: dict[str, Any]) -> ToolResult:
    """Call a few times: the first call after a kill may be the one that notices it."""
    for _ in range(3):
        result = call(box, name, arguments)
        if not result.is_error:
            break
    return result


def compare(server: Server, made: tuple[str, dict[str, Any]], given: dict[str, Any]) -> None:
    judge = [sys.executable, str(HERE / "official_client.py"), json.dumps(given), json.dumps(made)]
    done = subprocess.run(judge, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"the official client failed: {done.stderr.strip().splitlines()[-1:]}"
    official = json.loads(done.stdout)
    with opened(server) as box:
        ours = {tool.metadata["mcp_tool"]: tool for tool in box.tools}
        theirs = {tool["name"]: tool for tool in official["tools"]}
        assert sorted(ours) == sorted(theirs), sorted(ours.keys() ^ theirs.keys())
        for name, tool in ours.items():
            schema = theirs[name]["inputSchema"]
            assert tool.parameters.get("properties", {}).keys() == schema.get("properties", {}).keys(), name
            assert sorted(tool.parameters.get("required", [])) == sorted(schema.get("required", [])), name
        result = call(box, *made)
        assert not result.is_error, result.content
        texts = (
            [result.content]
            if isinstance(result.content, str)
            else [getattr(part, "text", "") for part in result.content]
        )
        assert "\n".join(texts) == "\n".join(official["texts"]), f"{texts} != {official['texts']}"


def children_of(parent: int, command: list[str]) -> list[int]:
    """The processes that we started ourselves, directly or not, with this command line.

    An interpreter precedes a script, and a name without a path is replaced by its path.
    """
    words = command if "/" in command[0] else command[1:]
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parents[int(name)] = int(
                Path("/proc", name, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
        except (OSError, ValueError, IndexError):
            continue

    def is_ours(process: int) -> bool:
        while process in parents and process != parent:
            process = parents[process]
        return process == parent

    return [
        process
        for process in parents
        if process != parent and is_ours(process) and command_of(process)[-len(words) :] == words
    ]


def command_of(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def serve_page() -> Iterator[str]:
    """A page on this machine, for the server that fetches."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path == "/page.txt"
            self.send_response(200 if is_page else 404)
            self.send_header("content-type", "text/plain; charset=utf-8")
            self.end_headers()
            self.wfile.write("snow ☃".encode() if is_page else b"")

        log_message: Callable[..., None] = lambda *_: None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/page.txt"
    finally:
        server.shutdown()
        server.server_close()

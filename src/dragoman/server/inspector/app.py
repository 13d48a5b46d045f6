"""A gateway with the inspector: it records its exchanges, and answers the paths below `/inspector`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman import wire as wires
from dragoman.characters import escape_message
from dragoman.client.transport import Transport
from dragoman.errors import ConfigError, DragomanError
from dragoman.pipeline.report import Report
from dragoman.server.access import Access, is_loopback
from dragoman.server.asgi import (
    BodyTooLarge,
    BodyTooSlow,
    ClientDisconnected,
    HttpCall,
    Receive,
    Scope,
    Send,
    UnreadableBody,
    run_until_disconnect,
)
from dragoman.server.gateway import Gateway
from dragoman.server.inspector import copies, detail, pages
from dragoman.server.inspector.capture import CURRENT, Arrival, ObservedTransport, Recording
from dragoman.server.inspector.redaction import Redactor, known_keys
from dragoman.server.inspector.store import FILTERS, Entry, Filter, RecordFile, Store
from dragoman.server.inspector.trial import (
    AUTO,
    MOST_TEXT,
    TrialError,
    check_choice,
    read_tools,
    replay_reply,
    try_text,
)
from dragoman.server.paths import GENERATE, find_gemini
from dragoman.server.router import Chosen, Router, find_row_key
from dragoman.server.web.answers import (
    PAGE_HEADERS,
    PAGE_METHODS,
    SECONDS_BETWEEN_BEATS,
    TEXT,
    answer_html,
    answer_static,
    answer_text,
    send_event,
    write_policy,
)
from dragoman.server.web.markup import Html
from dragoman.server.web.session import Sessions
from dragoman.types import Message, Request, TrustName
from dragoman.wire.codec import Codec
from dragoman.wire.values import parse

log = logging.getLogger("dragoman.server")

_MOST_PENDING = 64 * 1024 * 1024
"""Bytes of exchanges that wait for their redaction. Further ones are not kept."""
_MOST_OF_A_REQUEST = 2 * MOST_TEXT + 64 * 1024
_LONGEST_SEARCH = 200
_STATIC = frozenset({"inspector.js", "keys.js", "playground.js"})
ROOT = "/inspector"
OPEN = f"{ROOT}/open"


def open_inspector(
    record: Path | None = None, announce: Callable[[str], object] | None = None
) -> Callable[[Router, Access | None], InspectedGateway]:
    """Return what makes the gateway. Raises ConfigError if `record` cannot be used."""
    file = RecordFile(record) if record is not None else None
    return lambda router, access: InspectedGateway(router, access=access, file=file, announce=announce)


class InspectedGateway(Gateway):
    """Records every exchange, and shows the last ones to its owner."""

    def __init__(
        self,
        router: Router,
        *,
        secret: bytes | None = None,
        access: Access | None = None,
        file: RecordFile | None = None,
        announce: Callable[[str], object] | None = None,
    ) -> None:
        host = router.settings.gateway.host
        if not is_loopback(host):
            hint = "use --host 127.0.0.1, or leave out --inspector"
            raise ConfigError(f"the inspector is for this machine only, and others reach {host}", hint=hint)
        super().__init__(router, secret=secret, access=access)
        self.store = Store(file=file)
        self.sessions = Sessions("inspector", ROOT, announce)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="inspector")
        self._is_closed = False
        self._pending = 0
        self._number = 0
        self._redactor = Redactor()
        self._routes_of_pages: dict[tuple[str, str], Callable[[HttpCall], Any]] = {
            ("GET", ROOT): self._show_list,
            ("GET", f"{ROOT}/rows"): self._show_rows,
            ("GET", f"{ROOT}/events"): self._stream,
            ("GET", f"{ROOT}/playground"): self._show_playground,
            ("POST", f"{ROOT}/playground"): self._play,
            ("POST", f"{ROOT}/replay"): self._replay,
        }
        self.use(router)

    def use(self, router: Router) -> None:
        super().use(router)
        router.observe = _observe
        keys = known_keys(os.environ, map(find_row_key, router.settings.endpoints.values()))
        self._redactor = Redactor(keys, self.access.quotas.prices)

    def open_pages(self, url: str) -> str:
        self.sessions.address = url
        return self.sessions.link

    def end(self) -> None:
        self.store.close()

    def close(self) -> None:
        # Only a file needs the exchanges that still wait for their redaction.
        self._is_closed = True
        self._worker.shutdown(wait=True, cancel_futures=not self.store.has_file)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == ROOT or path.startswith(f"{ROOT}/")):
            await self._guard(HttpCall(scope, receive, send))
        else:
            await super().__call__(scope, receive, send)

    # ---- recording --------------------------------------------------------------------------------------------------

    async def _run(
        self, call: HttpCall, codec: Codec, request: Request, chosen: Chosen, data: bytes, report: Report
    ) -> None:
        raw_query = call.scope.get("query_string", b"").decode("latin-1")
        arrival = Arrival(call.method, call.path, call.query, call.scope["headers"], data, raw_query)
        recording = self._open(arrival, request, report, chosen)
        token = CURRENT.set(recording)
        try:
            await super()._run(call, codec, request, chosen, data, report)
        finally:
            CURRENT.reset(token)
            self._close(recording)

    def _open_exchange(self, *given: Any, **more: Any) -> Any:
        recording = CURRENT.get()
        return super()._open_exchange(*given, **more, watch=recording.judge if recording is not None else None)

    def _open(
        self, arrival: Arrival, request: Request, report: Report, chosen: Chosen, replay_of: str = ""
    ) -> Recording:
        self._number += 1
        recording = Recording(self._number, arrival, request, report, chosen.route.settings.profile, replay_of)
        recording.candidates = chosen.candidates()
        self.store.put(self._redactor.open(recording))
        return recording

    def _close(self, recording: Recording) -> None:
        recording.end()
        # The report is complete when the request has ended, which happens before the loop goes on.
        asyncio.get_running_loop().call_soon(self._redact, recording)

    def _redact(self, recording: Recording) -> None:
        if self._is_closed:
            return
        size = recording.size
        if self._pending + size > _MOST_PENDING and self._pending:
            self.store.dropped += 1
            self.store.remove(recording.report.id)
            return
        self._pending += size
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._worker, self._make_entry, self._redactor, recording)
        work.add_done_callback(lambda done: self._keep(done, recording, size))

    def _make_entry(self, redactor: Redactor, recording: Recording) -> Entry:
        entry = redactor.close(recording)
        self.store.write(entry)
        return entry

    def _keep(self, done: asyncio.Future[Entry], recording: Recording, size: int) -> None:
        self._pending -= size
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            # What cannot be redacted is not kept.
            self.store.remove(recording.report.id)
            log.error("an exchange cannot be shown: %s", recording.report.id, exc_info=error)
            return
        self.store.put(done.result())

    # ---- requests for pages -----------------------------------------------------------------------------------------

    async def _guard(self, call: HttpCall) -> None:
        """Answer a request below `/inspector` if its browser may see the inspector."""
        call.added = {**PAGE_HEADERS, "content-security-policy": write_policy("", ROOT, "inspector")}
        failure = self.access.check_page(call, PAGE_METHODS)
        if failure is not None:
            said = escape_message(failure.message)
            log.info("refused %s %s: %s", call.method, escape_message(call.path[:200]), said)
            await answer_text(call, failure.status or 403, failure.message)
            return
        call.added["content-security-policy"] = write_policy(call.headers["host"], ROOT, "inspector")
        if call.path == OPEN:
            await self._open_session(call)
        elif self.sessions.find(call) is None:
            if call.method == "GET" and call.path == ROOT:
                self.sessions.renew()
            await answer_text(call, 401, "Open the link that the terminal of the gateway shows. Each link works once.")
        else:
            await self._serve_page(call)

    async def _open_session(self, call: HttpCall) -> None:
        cookie = self.sessions.open(call)
        if cookie is None:
            if call.method == "GET":
                self.sessions.renew()
            await answer_text(call, 403, "This link was used before. The terminal of the gateway shows another one.")
        else:
            await call.answer(303, b"", {"location": ROOT, "set-cookie": cookie}, kind=TEXT)

    async def _serve_page(self, call: HttpCall) -> None:
        try:
            method = "GET" if call.method == "HEAD" else call.method
            handler = self._routes_of_pages.get((method, call.path))
            if handler is not None:
                await handler(call)
            elif method == "GET" and call.path.startswith(f"{ROOT}/static/"):
                await answer_static(call, ROOT, __package__, _STATIC)
            elif method == "GET" and call.path.startswith(f"{ROOT}/exchanges/"):
                await self._show_exchange_page(call)
            else:
                await answer_text(call, 404, "There is no such page.")
        except (BodyTooLarge, BodyTooSlow, UnreadableBody):
            await answer_text(call, 413, "The request is too large, too slow, or cannot be read.")
        except ClientDisconnected:
            return
        except asyncio.CancelledError:
            # The server ends.
            return
        except Exception:
            log.exception("an error of the inspector")
            if not call.has_begun:
                await answer_text(call, 500, "An error of the inspector itself; the log of the gateway has details.")

    # ---- the list ---------------------------------------------------------------------------------------------------

    async def _show_list(self, call: HttpCall) -> None:
        show, words = _read_search(call)
        await self._show_page(call, show, words, pages.write_welcome(not len(self.store)), "Exchanges")

    async def _show_page(
        self, call: HttpCall, show: Filter, words: str, content: Html, title: str, chosen: str = "", status: int = 200
    ) -> None:
        entries = await self._search(show, words)
        body = pages.write_exchanges(entries, show, words, content, chosen=chosen, dropped=self.store.dropped)
        await answer_html(call, pages.write_page(title, "exchanges", body), status)

    async def _search(self, show: Filter, words: str) -> list[Entry]:
        if not words:
            return self.store.list(show)
        # All bodies are searched, which can take longer than a stream may wait.
        entries = self.store.list(show)
        return await asyncio.to_thread(lambda: [entry for entry in entries if entry.fits(show, words)])

    async def _show_rows(self, call: HttpCall) -> None:
        show, words = _read_search(call)
        entries = await self._search(show, words)
        said = pages.say_count(len(entries), show, words, self.store.dropped)
        await call.answer_json(200, {"rows": str(pages.write_rows(entries)), "count": said})

    async def _stream(self, call: HttpCall) -> None:
        """Send each changed row as an event, until the browser leaves."""
        show, words = _read_search(call)
        queue = self.store.subscribe() if call.method == "GET" else None
        if queue is None:
            await answer_text(call, 503, "Too many pages of the inspector are open.")
            return
        try:
            await call.begin(200, {"content-type": "text/event-stream", "x-accel-buffering": "no"})
            await call.send(b"retry: 1000\nevent: ready\ndata: {}\n\n")
            await run_until_disconnect(call, self._send_changes(call, queue, show, words))
        finally:
            self.store.unsubscribe(queue)

    async def _send_changes(self, call: HttpCall, queue: asyncio.Queue[Any], show: Filter, words: str) -> None:
        while True:
            try:
                change = await asyncio.wait_for(queue.get(), SECONDS_BETWEEN_BEATS)
            except TimeoutError:
                await call.send(b": alive\n\n")
                continue
            if change is None:
                await call.send(b"", more=False)
                return
            what, entry = change
            data = {"id": entry.id, "state": entry.state, "model": entry.report.model or entry.report.requested_model}
            if what == "changed" and await self._fits(entry, show, words):
                data["row"] = str(pages.write_row(entry))
            await send_event(call, what, data)

    async def _fits(self, entry: Entry, show: Filter, words: str) -> bool:
        return await asyncio.to_thread(entry.fits, show, words) if words else entry.fits(show)

    # ---- one exchange -----------------------------------------------------------------------------------------------

    async def _show_exchange_page(self, call: HttpCall) -> None:
        id, _, kind = call.path.removeprefix(f"{ROOT}/exchanges/").partition("/")
        entry = self.store.find(id)
        if entry is None:
            content = pages.write_error("No such exchange", "It is no longer kept, or it never was.")
            await self._show_page(call, "all", "", content, "No such exchange", status=404)
            return
        writers: Mapping[str, Callable[[Entry], str]] = {
            "curl": lambda entry: copies.write_curl(entry, self.sessions.address),
            "test": lambda entry: copies.write_test(entry, _read_messages(entry)),
            "report": copies.write_report,
        }
        if kind in writers:
            text = await asyncio.to_thread(writers[kind], entry)
            await call.answer(200, text.encode("utf-8", "replace"), kind=TEXT)
        elif kind:
            await answer_text(call, 404, "There is no such copy.")
        else:
            content = await asyncio.to_thread(detail.write_detail, entry, list(self.router.targets))
            if "part" in parse_qs(call.query, keep_blank_values=True):
                await answer_html(call, content)
            else:
                await self._show_page(call, *_read_search(call), content, entry.report.model or "Exchange", entry.id)

    # ---- replay and playground --------------------------------------------------------------------------------------

    async def _show_playground(self, call: HttpCall) -> None:
        text, tools = pages.example()
        trial = await asyncio.to_thread(try_text, text, read_tools(tools))
        body = pages.write_playground(detail.write_trial(trial))
        await answer_html(call, pages.write_page("Playground", "playground", body))

    async def _play(self, call: HttpCall) -> None:
        try:
            asked = await _read_form(call, _Play)
            tools = read_tools(asked.tools)
            trial = await asyncio.to_thread(try_text, asked.text, tools, asked.format, asked.trust, asked.piece)
        except (TrialError, DragomanError) as error:
            await answer_html(call, detail.write_problem(str(error)), 400)
            return
        await answer_html(call, detail.write_trial(trial))

    async def _replay(self, call: HttpCall) -> None:
        try:
            asked = await _read_form(call, _Replay)
            entry = self.store.find(asked.id)
            if entry is None or entry.running:
                raise TrialError("this exchange is no longer kept, or not over yet")
            check_choice(asked.format, asked.trust)
            if asked.endpoint:
                id = await self._send_again(call, entry, asked)
                await call.answer_json(200, {"id": id})
                return
            trial = await asyncio.to_thread(replay_reply, entry, asked.format, asked.trust, _read_messages(entry))
        except (TrialError, DragomanError) as error:
            await call.answer_json(400, {"html": str(detail.write_problem(str(error)))})
            return
        await call.answer_json(200, {"html": str(detail.write_trial(trial, is_replay=True))})

    async def _send_again(self, call: HttpCall, entry: Entry, asked: _Replay) -> str:
        """Send the request of an exchange to an endpoint, and return the id of the new exchange."""
        target = self.router.targets.get(asked.endpoint)
        if target is None or entry.sent.is_cut:
            raise TrialError("there is no such endpoint, or the request is larger than the inspector keeps")
        request = _decode(entry)
        chosen = self.router.choose(request)
        chosen = replace(chosen, targets=[target])
        report = Report(f"ex_{os.urandom(12).hex()}", entry.report.wire, request.model, client=entry.report.client)
        arrival = Arrival("POST", entry.sent.url, "", [], entry.sent.body.encode())
        recording = self._open(arrival, request, report, chosen, entry.id)
        recording.profile = asked.trust
        token = CURRENT.set(recording)
        self.records.open(report)
        try:
            backend = replace(chosen.backends()[0], trust=asked.trust)
            if asked.format != AUTO:
                endpoint = backend.client.endpoint
                profile = replace(endpoint.profile, format=asked.format, prompt_format=asked.format)
                client = self.router.open_client(
                    replace(endpoint, profile=profile), target.settings, None, target.settings.headers
                )
                backend = replace(backend, client=client, tool_mode="text")
            sent = replace(request, model="", options={**request.options, "stream": False})
            exchange = self._open_exchange(sent, [backend], report)
            await run_until_disconnect(call, _forget(exchange.ask()))
        except DragomanError as error:
            report.failure = str(error)
        finally:
            CURRENT.reset(token)
            self.records.close(report)
            self._close(recording)
        return report.id


class _Play(Struct, frozen=True):
    text: str = ""
    tools: str = ""
    format: str = AUTO
    trust: str = "default"
    piece: int = 0


class _Replay(Struct, frozen=True):
    id: str
    endpoint: str = ""
    format: str = AUTO
    trust: TrustName = "compat"


async def _read_form(call: HttpCall, kind: type[Any]) -> Any:
    """Return the JSON of a request. A form of another page cannot send this type."""
    if call.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise TrialError("the request is not JSON")
    try:
        return msgspec.json.decode(await call.read_body(_MOST_OF_A_REQUEST), type=kind)
    except msgspec.DecodeError as error:
        raise TrialError(f"the request cannot be read: {error}") from None


async def _forget(work: Any) -> None:
    await work


def _decode(entry: Entry) -> Request:
    """Return the recorded request of the client."""
    body = parse(entry.sent.body.encode())
    if not isinstance(body, dict):
        raise TrialError("the request of the client cannot be read again")
    found = find_gemini(entry.sent.url.partition("?")[0])
    if found is None:
        return wires.get(entry.report.wire).decode_request(body)
    return wires.get("gemini").decode_request(body, model=found["model"], stream=GENERATE.get(found["verb"]))


def _read_messages(entry: Entry) -> list[Message]:
    """Return the recorded conversation, as far as it can be read."""
    try:
        return _decode(entry).messages
    except TrialError:
        return []


def _observe(transport: Transport, wire: str) -> Transport:
    return ObservedTransport(transport, wire)


def _read_search(call: HttpCall) -> tuple[Filter, str]:
    fields = parse_qs(call.query)
    asked = fields.get("show", ["all"])[0]
    show: Filter = next((name for name in FILTERS if name == asked), "all")
    return show, fields.get("q", [""])[0].strip()[:_LONGEST_SEARCH]

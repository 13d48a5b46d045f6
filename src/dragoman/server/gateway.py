"""The gateway as an ASGI application: it reads requests of any wire, and answers with repaired replies."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman import wire as wires
from dragoman.characters import escape_message
from dragoman.client.transport import EXHAUSTED, TransportFault
from dragoman.errors import DragomanError, UnknownModel
from dragoman.pipeline.report import Report
from dragoman.pipeline.requests import find_gap, find_state, offer_custom_tools
from dragoman.server import models
from dragoman.server.access import METHODS, Access
from dragoman.server.answers import StreamAnswer, WholeAnswer, answer_failure
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
from dragoman.server.keys import find_login
from dragoman.server.passthrough import pass_through, relay
from dragoman.server.paths import (
    GENERATE,
    TRANSLATED,
    VERBS,
    find_gemini,
    is_passed,
    refuse_path,
    tidy_path,
    wire_of,
)
from dragoman.server.quotas import Sent
from dragoman.server.records import Records
from dragoman.server.router import BETAS, Chosen, Router
from dragoman.server.settings import ServerSettings
from dragoman.types import Failure, JsonObject, Request
from dragoman.wire.codec import Codec
from dragoman.wire.values import BROKEN, parse

if TYPE_CHECKING:
    from dragoman.extraction.leaks import TurnMemory
    from dragoman.pipeline import Backend, Exchange
    from dragoman.telemetry.exchanges import Spans

log = logging.getLogger("dragoman.server")

Handler = Callable[[HttpCall], Awaitable[None]]


class _Asked(Struct, frozen=True):
    """A request as it came: its wire, and what its path says."""

    wire: str
    model: str = ""
    stream: bool | None = None


_ASKED = {wire: _Asked(wire) for wire in TRANSLATED.values()}


class Gateway:
    """An ASGI application. `router` may be replaced while it runs; requests that have begun keep the old one."""

    def __init__(self, router: Router, *, secret: bytes | None = None, access: Access | None = None) -> None:
        """`secret` makes the boundaries of results unpredictable; several processes of one gateway share it.

        `access` decides who may use the gateway; without it, no client needs a key.
        """
        self.router = router
        self.access = access or Access(router.settings.gateway)
        self.spans = _open_spans() if router.settings.gateway.telemetry else None
        self.records = Records(router.settings.gateway.kept_reports)
        self.loading: asyncio.Future[None] | None = None
        """Set while the process loads what exchanges need. They wait for it."""
        self._secret = secret or secrets.token_bytes(32)
        self._turns: TurnMemory | None = None
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "/"): self._say_hello,
            ("GET", "/healthz"): self._say_hello,
            ("GET", "/readyz"): self._say_ready,
            ("GET", "/metrics"): self._show_metrics,
            ("GET", "/api/version"): self._show_version,
            ("POST", "/api/show"): self._show_model,
            ("POST", "/v1/messages/count_tokens"): self._count_for_anthropic,
            ("GET", "/dragoman/exchanges"): self._list_exchanges,
        }

    @property
    def settings(self) -> ServerSettings:
        return self.router.settings.gateway

    def use(self, router: Router) -> None:
        """Use another router for the requests that follow."""
        self.router = router

    def open_pages(self, url: str) -> str:
        """Return the link to the pages for the owner of the gateway, which listens at `url`; empty without pages."""
        return ""

    def end(self) -> None:
        """The server begins to end: answers without an end of their own end now."""

    def close(self) -> None:
        """The server has ended."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(HttpCall(scope, receive, send))

    async def _handle(self, call: HttpCall) -> None:
        if "origin" in call.headers and await self._greet_page(call):
            return
        permit = self.access.admit(call)
        if isinstance(permit, Failure):
            await self._refuse(call, permit)
            return
        call.permit = permit
        try:
            if permit.is_shared:
                await self._dispatch_shared(call)
            else:
                await self._dispatch(call)
        except (BodyTooLarge, BodyTooSlow, UnreadableBody) as error:
            headers = None if isinstance(error, UnreadableBody) else _CLOSE
            await answer_failure(call, _codec_of(call.path), self._explain_body(error), headers)
        except ClientDisconnected:
            return
        except DragomanError as error:
            # A missing key, or an incomplete URL: the operator has to fix it, and the client has to know.
            if call.has_begun:
                raise
            unknown = Failure("not_found", str(error), 404, "model_not_found")
            failure = unknown if isinstance(error, UnknownModel) else Failure("server_error", str(error), 500)
            await answer_failure(call, _codec_of(call.path), failure)
        except TransportFault as fault:
            await _end_passed(call, fault)
        except asyncio.CancelledError:
            # Only the end of the process cancels a request.
            log.warning("%s %s was cut off: the gateway ends", call.method, escape_message(call.path))
            await _cut_off(call)
        except Exception as error:
            failure = _blame(call, error)
            if call.has_begun:
                raise
            await answer_failure(call, _codec_of(call.path), failure)
        finally:
            permit.close()

    def _explain_body(self, error: BodyTooLarge | BodyTooSlow | UnreadableBody) -> Failure:
        if isinstance(error, UnreadableBody):
            return Failure("bad_request", str(error), error.status)
        if isinstance(error, BodyTooSlow):
            return Failure("bad_request", "the request did not arrive in time", 408, "request_timeout")
        limit = self.router.settings.gateway.most_of_a_request
        # The kind `too_large` means the answer of an endpoint.
        return Failure("bad_request", f"the request is larger than {limit} bytes", 413)

    async def _greet_page(self, call: HttpCall) -> bool:
        """Let an allowed page read the answer. Return whether its browser only asked if it may, and was told."""
        origin = call.headers["origin"]
        if not self.access.is_allowed(origin):
            return False
        call.added = {"access-control-allow-origin": origin, "vary": "origin", **_EXPOSED}
        allowed = self.access.answer_preflight(call)
        if isinstance(allowed, Failure):
            await self._refuse(call, allowed)
        elif allowed is not None:
            await call.answer(204, b"", allowed)
        return allowed is not None

    async def refuse_excess(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request on a connection above the limit."""
        call = HttpCall(scope, receive, send)
        failure = Failure("overloaded", "the gateway has too many connections", 503, "too_many_connections", 1.0)
        await answer_failure(call, _codec_of(call.path), failure, _CLOSE)

    async def _refuse(self, call: HttpCall, failure: Failure) -> None:
        """Answer a request that is not admitted. The server skips its body."""
        who = f"{call.permit.name}: " if call.permit.name else ""
        said = escape_message(failure.message)
        log.info("refused %s%s %s: %s", who, call.method, escape_message(call.path[:200]), said)
        headers = {"allow": ", ".join(METHODS)} if failure.status == 405 else None
        await answer_failure(call, _codec_of(call.path), failure, headers)

    async def _dispatch_shared(self, call: HttpCall) -> None:
        """Go on if the other processes agree that the client may send a request."""
        failure = await call.permit.settle()
        if failure is not None:
            await self._refuse(call, failure)
        else:
            await self._dispatch(call)

    async def _dispatch(self, call: HttpCall) -> None:
        wire = TRANSLATED.get(call.path)
        if wire is not None and call.method == "POST":
            await self._exchange(call, _ASKED[wire])
            return
        if (path := tidy_path(call.path)) != call.path:
            call.path = path
            await self._dispatch(call)
            return
        # The body of an answer to HEAD is left out where it is sent.
        method = "GET" if call.method == "HEAD" else call.method
        handler = self._routes.get((method, call.path))
        if handler is not None:
            await handler(call)
            return
        if call.path.startswith("/dragoman/exchanges/") and method == "GET":
            await self._show_exchange(call)
            return
        found = find_gemini(call.path)
        if found is not None and call.method == "POST" and found["verb"] in VERBS:
            await self._handle_gemini(call, found["model"], found["verb"])
        elif call.method == "POST" and is_passed(call.path):
            await self._pass_through(call)
        elif method == "GET" and (listing := models.find_list(call.path, call.headers)) is not None:
            await call.answer_json(200, listing(self._models()))
        elif method == "GET" and found is None and (name := models.find_name(call.path)) is not None:
            await self._describe_model(call, name)
        else:
            await self._refuse_path(call)

    async def _refuse_path(self, call: HttpCall) -> None:
        """Answer a request whose path, or whose method, no route has."""
        allowed = [method for method, path in self._routes if path == call.path]
        if call.path in TRANSLATED or is_passed(call.path) or find_gemini(call.path):
            allowed.append("POST")
        elif models.find_list(call.path, call.headers) is not None or (
            # A colon may also be that of a verb which is not known here.
            models.find_name(call.path) is not None and ":" not in call.path
        ):
            allowed.append("GET")
        failure = refuse_path(call.method, call.path, call.headers, allowed)
        codec = wires.get(wire_of(call.path, call.headers))
        await answer_failure(call, codec, failure, {"allow": ", ".join(allowed)} if allowed else None)

    # ---- exchanges --------------------------------------------------------------------------------------------------

    async def _handle_gemini(self, call: HttpCall, model: str, verb: str) -> None:
        if verb in GENERATE:
            await self._exchange(call, _Asked("gemini", model, GENERATE[verb]))
        else:
            await self._count(call, _Asked("gemini", model), "totalTokens")

    async def _exchange(self, call: HttpCall, asked: _Asked) -> None:
        codec = _get_codec(asked.wire)
        body, data = await self._read(call, codec)
        if body is None:
            return
        if self.loading is not None:
            await asyncio.shield(self.loading)
        request = codec.decode_request(body, model=asked.model, stream=asked.stream)
        if asked.wire == "ollama" and "stream" not in body:
            # The only wire that streams unless it is told not to.
            request = replace(request, options={**request.options, "stream": True})
        router = self.router
        router.look_again()
        chosen = router.choose(request, len(data))
        if not request.messages and chosen.route.settings.profile != "passthrough":
            if asked.wire == "ollama" and not body.get("messages"):
                # Its clients load a model in this way before they need it.
                await call.answer_json(200, models.describe_load(request.model))
                return
            if gap := find_gap(asked.wire, body):
                await answer_failure(call, codec, Failure("bad_request", gap, 400))
                return
        if asked.wire == "openai_responses" and (missing := find_state(body)) is not None:
            chosen = chosen.only(asked.wire)
            if not chosen.targets:
                await call.answer_json(400 if missing["error"]["code"] else 404, missing)
                return
        failure = call.permit.reserve(request, chosen.candidates)
        if failure is None and call.permit.is_shared:
            failure = await call.permit.settle()
        if failure is not None:
            await self._refuse(call, failure)
            return
        await self._serve(call, codec, request, chosen, data)

    async def _serve(self, call: HttpCall, codec: Codec, request: Request, chosen: Chosen, data: bytes) -> None:
        """Answer a request by the chosen endpoints, and keep the report."""
        report = Report(f"ex_{os.urandom(12).hex()}", codec.name, request.model, slot=chosen.slot)
        report.client = call.permit.name
        end_span = self.spans.start(report, call.headers) if self.spans is not None else None
        self.records.open(report)
        try:
            await self._run(call, codec, request, chosen, data, report)
        except DragomanError as error:
            report.failure = str(error)
            raise
        finally:
            self.records.close(report)
            if end_span is not None:
                end_span()
            call.permit.charge(Sent(len(data), call.sent, call.status), report, chosen.candidates)
            if log.isEnabledFor(logging.INFO):
                log.info("%s %s", report.id, escape_message(report.summarise()))

    async def _run(
        self, call: HttpCall, codec: Codec, request: Request, chosen: Chosen, data: bytes, report: Report
    ) -> None:
        if chosen.route.settings.profile == "passthrough":
            await run_until_disconnect(call, relay(call, data, codec, chosen, report))
            return
        betas = call.headers.get(BETAS, "") if codec.name == "anthropic" else ""
        backends = chosen.backends(find_login(call.headers), betas)
        exchange = self._open_exchange(replace(request, model=""), backends, report)
        if codec.name == "openai_responses":
            # A call of a custom tool arrives as one, also from an endpoint to which the tool was a function.
            request = replace(request, tools=offer_custom_tools(request).tools)
        await self._answer(call, codec, request, exchange)

    def _open_exchange(self, request: Request, backends: list[Backend], report: Report, **more: Any) -> Exchange:
        from dragoman.pipeline.exchange import Exchange

        if self._turns is None:
            from dragoman.extraction.leaks import TurnMemory

            self._turns = TurnMemory()
        return Exchange(request, backends, report, secret=self._secret, memory=self._turns, **more)

    async def _count(self, call: HttpCall, asked: _Asked, field: str) -> None:
        """Answer with the number of tokens of a request: as the endpoint counts them, else an estimate."""
        codec = _get_codec(asked.wire)
        body, data = await self._read(call, codec)
        if body is None:
            return
        nested = body.get("generateContentRequest")
        request = codec.decode_request(nested if isinstance(nested, dict) else body, model=asked.model)
        target = self.router.choose(request, len(data)).targets[0]
        counted = await target.count(request, asked.wire, find_login(call.headers))
        await call.answer_json(200, {field: max(1, counted.tokens)}, _ESTIMATED if counted.is_estimate else {})

    async def _answer(self, call: HttpCall, codec: Codec, request: Request, exchange: Exchange) -> None:
        if request.options.get("stream"):
            interval = self.router.settings.gateway.keep_alive
            answer: StreamAnswer | WholeAnswer = StreamAnswer(call, codec, request, exchange, keep_alive=interval)
        else:
            answer = WholeAnswer(call, codec, request, exchange)
        if not await run_until_disconnect(call, answer.send()):
            exchange.report.notes.append("the client disconnected; the request to the endpoint was cancelled")

    async def _read(self, call: HttpCall, codec: Codec) -> tuple[JsonObject | None, bytes]:
        """Return the body of a request, and its bytes. A body that is not an object is answered with an error."""
        data = await call.read_body(self.router.settings.gateway.most_of_a_request)
        body = parse(data)
        if isinstance(body, dict):
            return body, data
        what = "is not JSON" if body is BROKEN else "is not a JSON object"
        await answer_failure(call, codec, Failure("bad_request", f"the body {what}", 400))
        return None, data

    async def _pass_through(self, call: HttpCall) -> None:
        wire = wire_of(call.path)
        if b"%" in call.scope.get("raw_path", b""):
            # Two servers may decode it differently, and a proxy in front may have allowed another path.
            encoded = Failure("not_found", f"{call.path[:200]} has to be written without encoded characters", 404)
            await answer_failure(call, wires.get(wire), encoded)
            return
        if (failure := call.permit.refuse_unmeasured(call.path)) is not None:
            await self._refuse(call, failure)
            return
        body = await call.read_body(self.router.settings.gateway.most_of_a_request)
        if not await pass_through(call, body, wire, self.router):
            message = f"{call.path} is not translated, and no endpoint of this gateway speaks {wire}"
            await answer_failure(call, wires.get(wire), Failure("not_found", message, 404))

    # ---- small answers ----------------------------------------------------------------------------------------------

    def _models(self) -> list[models.ModelEntry]:
        return self.router.models()

    async def _say_hello(self, call: HttpCall) -> None:
        await call.answer_json(200, {"status": "ok"})

    async def _say_ready(self, call: HttpCall) -> None:
        resting = self.router.resting()
        is_ready = self.loading is None and len(resting) < len(self.router.targets)
        unready = "no endpoint is healthy" if self.loading is None else "starting"
        body: JsonObject = {"status": "ready" if is_ready else unready}
        if not self.access.needs_keys:
            # Without a key, this path answers everybody.
            body["resting"] = resting
        await call.answer_json(200 if is_ready else 503, body)

    async def _show_metrics(self, call: HttpCall) -> None:
        await call.answer(200, self.records.write_metrics().encode(), kind="text/plain; version=0.0.4")

    async def _show_version(self, call: HttpCall) -> None:
        await call.answer_json(200, models.describe_version())

    async def _show_model(self, call: HttpCall) -> None:
        body, _ = await self._read(call, wires.get("ollama"))
        if body is None:
            return
        name = body.get("model") or body.get("name")
        model = self._find_model(name)
        if model is None:
            failure = Failure("not_found", f"model {str(name)[:200]!r} not found", 404)
            await answer_failure(call, wires.get("ollama"), failure)
            return
        await call.answer_json(200, models.show_ollama(model))

    async def _describe_model(self, call: HttpCall, name: str) -> None:
        model = self._find_model(name)
        if model is None:
            failure = Failure("not_found", f"The model '{name[:200]}' does not exist.", 404, "model_not_found")
            await answer_failure(call, _codec_of(call.path), failure)
        else:
            await call.answer_json(200, models.describe_model(call.path, call.headers, model))

    def _find_model(self, name: object) -> models.ModelEntry | None:
        """Return a model that a client can name: a listed one, or one whose name a route accepts."""
        model = next((each for each in self._models() if each.name == name), None)
        if model is None and isinstance(name, str) and any(route.matches(name) for route in self.router.routes):
            model = models.ModelEntry(name)
        return model

    async def _count_for_anthropic(self, call: HttpCall) -> None:
        await self._count(call, _Asked("anthropic"), "input_tokens")

    async def _list_exchanges(self, call: HttpCall) -> None:
        await call.answer_json(200, {"exchanges": self.records.list(call.permit.name)[:100]})

    async def _show_exchange(self, call: HttpCall) -> None:
        report = self.records.find(call.path.rpartition("/")[2])
        if report is None or report.client != call.permit.name:
            await call.answer_json(404, {"error": {"message": "there is no such exchange, or it is no longer kept"}})
        else:
            await call.answer_json(200, report)


_CLOSE = {"connection": "close"}
_EXPOSED = {"access-control-expose-headers": "x-dragoman-exchange, x-dragoman-estimated, retry-after"}
_ESTIMATED = {"x-dragoman-estimated": "true"}
"""Marks a number of tokens that is not counted, but estimated from the size of the request."""


def _open_spans() -> Spans:
    # It imports the agent loop, which a gateway without telemetry does not need.
    from dragoman.telemetry.exchanges import Spans

    return Spans()


@lru_cache
def _get_codec(wire: str) -> Codec:
    """Return the codec of a client. The gateway changes no request in place."""
    codec = wires.get(wire)
    codec.is_shared = True
    return codec


def _blame(call: HttpCall, error: Exception) -> Failure:
    """Log an error of the gateway itself, and return what the client is told."""
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        log.error("%s %s failed: %s", call.method, escape_message(call.path), error.strerror)
        return Failure("overloaded", f"the gateway has no room: {error.strerror}", 503, "pool")
    log.exception("an error of the gateway itself, in %s %s", call.method, escape_message(call.path))
    return Failure("server_error", "an error of the gateway itself; its log has the details", 500)


async def _end_passed(call: HttpCall, fault: TransportFault) -> None:
    """The bytes of an endpoint are passed on, and it failed.

    An answer that has begun ends without its last chunk, like the one of the endpoint.
    """
    log.warning("%s %s was cut off: %s", call.method, escape_message(call.path), escape_message(fault.message))
    if not call.has_begun:
        await answer_failure(call, _codec_of(call.path), Failure(fault.kind, fault.message, 504, fault.code))


async def _cut_off(call: HttpCall) -> None:
    """Tell a client that the gateway ends. A stream whose bytes are passed on unchanged ends without a last chunk."""
    failure = Failure("overloaded", "the gateway shuts down; send the request again", 503, "server_shutdown")
    if not call.has_begun:
        await answer_failure(call, _codec_of(call.path), failure, _CLOSE)
    elif call.cut_off is not None:
        await call.cut_off(failure)


def _codec_of(path: str) -> Codec:
    return wires.get(wire_of(path))


async def _run_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return

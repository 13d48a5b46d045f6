"""The embedded model as a transport."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.client.transport import HttpRequest, Timeouts, TransportFault
from dragoman.errors import DragomanError
from dragoman.local.engine import Engine, borrow, give_back, import_llama, log
from dragoman.local.likelihood import decide
from dragoman.local.store import Store
from dragoman.types import JsonObject
from dragoman.wire.values import as_dict, dicts

# --------------------------------------------------------------------------------------------------------------------
# A whole completion from the pieces of a stream.

_TEXTS = ("content", "reasoning_content")


class CompletionBuilder:
    """Builds one completion from chunks of the chat wire."""

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, JsonObject] = {}
        self._finish: Any = None

    def add(self, chunk: JsonObject) -> None:
        self._head |= {name: chunk[name] for name in ("id", "created", "model", "usage") if chunk.get(name)}
        for choice in dicts(chunk.get("choices")):
            self._finish = choice.get("finish_reason") or self._finish
            delta = as_dict(choice.get("delta"))
            for name in _TEXTS:
                if isinstance(delta.get(name), str):
                    self._texts.setdefault(name, []).append(delta[name])
            for call in dicts(delta.get("tool_calls")):
                self._add_call(call)

    def _add_call(self, piece: JsonObject) -> None:
        call = self._calls.setdefault(
            int(piece.get("index") or 0), {"type": "function", "function": {"name": "", "arguments": ""}}
        )
        if piece.get("id"):
            call["id"] = piece["id"]
        for name, value in as_dict(piece.get("function")).items():
            if isinstance(value, str):
                call["function"][name] = call["function"].get(name, "") + value

    def whole(self) -> JsonObject:
        """Return the completion as a server without streams would send it."""
        message: JsonObject = {"role": "assistant", "content": None}
        message |= {name: "".join(parts) for name, parts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"object": "chat.completion", **self._head, "choices": [choice]}


# --------------------------------------------------------------------------------------------------------------------
# The transport of the embedded model: requests are answered in this process.

_END = None
_DONE = b"data: [DONE]\n\n"


class EmbeddedTransport:
    """Passes requests of the chat wire to models in this process. Any number of models and event loops may share it."""

    def __init__(self, store: Store | None = None, *, context: int = 0) -> None:
        self._store = store or Store()
        self._context = context
        self._engines: dict[Path, Engine] = {}
        self._lock = threading.Lock()

    def check(self, model: str) -> None:
        """Raise ConfigError before the first request if llama.cpp or the model is missing."""
        import_llama()
        self._store.path(model)

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> EmbeddedResponse:
        """Answer a request. The first request for a model loads it."""
        if not request.url.partition("?")[0].endswith("/chat/completions"):
            return _refuse(404, f"the embedded model has no {request.url}")
        body = _read(request.body)
        if body is None:
            return _refuse(400, "the request is not a JSON object")
        try:
            engine = await asyncio.to_thread(self._engine, str(body.get("model") or ""))
        except DragomanError as error:
            return _refuse(404, error.explain())
        streams = bool(body.get("stream"))
        # Always requested as a stream, because a stream can be cancelled.
        body |= {"stream": True, "return_progress": True, "stream_options": {"include_usage": True}}
        job = Job(engine, body)
        job.start()
        try:
            first = await job.first(timeouts.first_byte)
        except BaseException:
            job.cancel()
            raise
        if "error" in first:
            told = first["error"] if isinstance(first["error"], dict) else {"message": str(first["error"])}
            return EmbeddedResponse(int(told.get("code") or 500), body=msgspec.json.encode({"error": told}))
        return EmbeddedResponse(200, job=job, first=first, streams=streams, idle=timeouts.idle)

    def _engine(self, model: str) -> Engine:
        path = self._store.path(model)
        with self._lock:
            if path not in self._engines:
                self._engines[path] = borrow(path, name=self._store.name_of(path), context=self._context)
            return self._engines[path]

    async def close(self) -> None:
        """Release the models; those without other users are unloaded."""
        with self._lock:
            engines, self._engines = list(self._engines.values()), {}
        for engine in engines:
            await asyncio.to_thread(give_back, engine)


class Job:
    """One request in its own thread, which passes the pieces to the waiting event loop."""

    def __init__(self, engine: Engine, body: JsonObject) -> None:
        self._engine = engine
        self._body = body
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[JsonObject | None] = asyncio.Queue()
        self._cancelled = False

    def start(self) -> None:
        # A daemon thread: the end of the program does not wait for the model.
        threading.Thread(target=self._run, name="dragoman-local", daemon=True).start()

    def cancel(self) -> None:
        """Stop at the next token, or at the next batch of the prompt."""
        self._cancelled = True

    def _run(self) -> None:
        try:
            decision = decide(self._body, self._collect)
            for chunk in decision.chunks:
                self._hand_over(chunk)
            if not decision.chunks and not self._cancelled:
                self._complete(decision.body, self._hand_over)
        except Exception as error:
            # The library raises an exception where a server would answer with 400.
            self._hand_over({"error": {"code": 400, "message": str(error), "type": "invalid_request_error"}})
        finally:
            self._hand_over(_END)

    def _complete(self, body: JsonObject, use: Callable[[JsonObject], object]) -> None:
        """Let the engine answer, and pass on every piece but those about its progress."""

        def receive(piece: str) -> bool:
            found = None if self._cancelled else msgspec.json.decode(piece)
            if isinstance(found, dict) and "prompt_progress" not in found:
                use(found)
            return self._cancelled

        self._engine.complete(msgspec.json.encode(body).decode(), receive)

    def _collect(self, body: JsonObject) -> list[JsonObject]:
        """Return all pieces of an answer; none if it failed or was cancelled."""
        pieces: list[JsonObject] = []
        try:
            if not self._cancelled:
                self._complete(body, pieces.append)
        except Exception as error:
            log.debug("an alternative was not weighed: %s", error)
            return []
        return [] if self._cancelled or any("error" in piece for piece in pieces) else pieces

    def _hand_over(self, piece: JsonObject | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
        except RuntimeError:
            # The loop is closed, so no caller waits.
            self._cancelled = True

    async def first(self, patience: float) -> JsonObject:
        piece = await self._next(patience, "first_byte", "the embedded model did not start to answer")
        return piece or {"error": {"code": 500, "message": "the embedded model returned nothing"}}

    async def next(self, patience: float) -> JsonObject | None:
        return await self._next(patience, "idle", "the embedded model sent no data")

    async def _next(self, patience: float, code: str, words: str) -> JsonObject | None:
        try:
            async with asyncio.timeout(patience):
                return await self._pieces.get()
        except TimeoutError:
            self.cancel()
            raise TransportFault("timed_out", f"{words} for {patience:.0f} s", code=code) from None


class EmbeddedResponse(Struct, eq=False):
    """The answer of an embedded model in the form of HTTP: a body, or the pieces of the job."""

    status: int
    body: bytes = b""
    job: Job | None = None
    first: JsonObject | None = None
    streams: bool = False
    idle: float = 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        return {"content-type": "text/event-stream" if self.streams else "application/json"}

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.job is None:
            yield self.body
            return
        gathering = CompletionBuilder()
        piece = self.first
        while piece is not None:
            if "error" in piece:
                raise TransportFault("stream_cut", f"the embedded model failed: {_words(piece['error'])}")
            if self.streams:
                yield b"data: %s\n\n" % msgspec.json.encode(piece)
            else:
                gathering.add(piece)
            piece = await self.job.next(self.idle)
        yield _DONE if self.streams else msgspec.json.encode(gathering.whole())

    async def close(self) -> None:
        if self.job is not None:
            self.job.cancel()


def _read(data: bytes) -> JsonObject | None:
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return body if isinstance(body, dict) else None


def _refuse(status: int, message: str) -> EmbeddedResponse:
    return EmbeddedResponse(status, body=msgspec.json.encode({"error": {"code": status, "message": message}}))


def _words(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)

"""GenerateContentResponse read: chunks and whole bodies to events."""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.types import JsonObject, StopReason
from dragoman.wire.assembly import ReplyBuilder
from dragoman.wire.codec import Prepared, Reader
from dragoman.wire.gemini.failures import read_failure
from dragoman.wire.gemini.partial import PartialCall
from dragoman.wire.gemini.parts import WIRE, kind_of, read_media, read_own, tell
from dragoman.wire.gemini.words import STOPS, camel, read_usage
from dragoman.wire.sse import SseBroken
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, parse

_WORDS = {"text"}
_CHUNK = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
_READ = frozenset({"content", "finishReason", "finishMessage", "index", "tokenCount"})


class GeminiReader(Reader):
    """Reads one reply. Only the first candidate counts: a conversation goes on from one."""

    def __init__(self, sent: Prepared | None) -> None:
        self._builder = ReplyBuilder(WIRE, sent)
        self._kind = ""  # of the open part: text or thinking
        self._stop: StopReason = "unknown"
        self._finished = False
        self._over = False
        self._own: JsonObject = {}  # what the candidate says beside its content
        self._usage: JsonObject = {}
        self._pending: PartialCall | None = None
        self._named: JsonObject = {}  # id, name and signature of the pending call

    def read(self, frame: Any) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        if type(frame) is SseBroken:
            builder.fail(read_failure(None, {"message": "a frame of the stream was too large"}))
            self._end()
        elif not frame.data.startswith("[DONE]"):
            chunk = parse(frame.data)
            if chunk is not BROKEN:
                self._read_chunk(chunk)
            elif frame.complete and frame.data.strip():  # without data it only keeps the connection alive
                builder.fail(read_failure(None, {"message": f"a frame is not JSON: {frame.data[:200]}"}))
                self._end()
        return builder.take()

    def read_whole(self, body: Any) -> list[Event]:
        for chunk in body if isinstance(body, list) else [body]:
            self._read_chunk(chunk)
        self._builder.terminate()
        self._end()
        return self._builder.take()

    def close(self) -> list[Event]:
        # Not before: the counts may come behind the chunk that has the finish reason.
        self._end()
        return self._builder.take()

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def _read_chunk(self, given: Any) -> None:
        builder = self._builder
        # An error may come wrapped in a list.
        chunk = as_dict(given[0] if isinstance(given, list) and given else given)
        if not _CHUNK.issuperset(chunk):
            chunk = camel(chunk)
        if builder.ended:
            return
        if chunk.get("error"):
            builder.fail(read_failure(None, chunk))
            self._end()
            return
        if not builder.started:
            builder.start(chunk.get("modelVersion"), chunk.get("responseId"))
        if "promptFeedback" in chunk:
            self._read_feedback(camel(as_dict(chunk["promptFeedback"])))
        for candidate in as_list(chunk.get("candidates")):
            if isinstance(candidate, dict) and candidate.get("index") in (0, None):
                self._read_candidate(candidate if _READ.issuperset(candidate) else camel(candidate))
        usage = chunk.get("usageMetadata")
        if isinstance(usage, dict) and usage:
            # It comes with every chunk, and only the last one counts: it is read at the end.
            self._usage = usage

    def _read_feedback(self, feedback: JsonObject) -> None:
        reason = feedback.get("blockReason")
        if isinstance(reason, str) and reason:
            self._stop = "refusal"
            self._builder.stop("refusal", {"reason": reason, "prompt_feedback": feedback})
            self._builder.terminate()

    def _read_candidate(self, candidate: JsonObject) -> None:
        reason = as_text(candidate.get("finishReason"))
        parts = as_dict(candidate.get("content")).get("parts")
        if self._finished and parts and not reason:
            # Some servers say the reason in every chunk; but behind the last one that does, nothing belongs here.
            self._over = True
        if self._over:
            return
        for part in as_list(parts):
            if not isinstance(part, dict):
                continue
            if part.keys() == _WORDS and self._kind == "text" and isinstance(part["text"], str):
                # By far the most: the next words of the open text.
                self._builder.text(part["text"])
            else:
                self._read_part(part, camel(part))
        if not _READ.issuperset(candidate):
            self._own.update({name: value for name, value in candidate.items() if name not in _READ})
        if reason:
            message = as_text(candidate.get("finishMessage"))
            self._stop = STOPS.get(reason, "unknown")
            self._builder.stop(self._stop, {"reason": reason, **({"message": message} if message else {})})
            self._builder.terminate()
            self._finished = True

    def _read_part(self, given: JsonObject, part: JsonObject) -> None:
        kind = kind_of(part)
        own = read_own(part)
        if kind == "functionCall":
            self._end_part()
            self._read_call(camel(as_dict(part["functionCall"])), own)
        elif kind == "text":
            self._finish_pending()
            self._read_text(as_text(part.get("text")), own)
        elif kind in ("inlineData", "fileData"):
            self._end_part()
            self._builder.part(read_media(part))
        else:
            self._end_part()
            self._builder.end_part("text", {"part": given})

    def _read_text(self, text: str, own: JsonObject) -> None:
        kind = "thinking" if own.get("thought") else "text"
        # What carries a signature goes back as the part it was: neither with what came before nor with what follows.
        signed = bool(own.keys() - {"thought"})
        if self._kind != kind or signed:
            self._end_part()
        if text:
            self._kind = kind
            (self._builder.thinking if kind == "thinking" else self._builder.text)(text)
        if signed:
            self._kind = ""
            self._builder.end_part(kind, own)

    def _end_part(self) -> None:
        if self._kind:
            self._builder.end_part(self._kind, {"thought": True} if self._kind == "thinking" else None)
            self._kind = ""

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _read_call(self, call: JsonObject, own: JsonObject) -> None:
        streams = call.get("partialArgs") is not None or call.get("willContinue") is True
        continues = self._pending is not None and not call.get("name")
        if not streams and not continues:
            self._finish_pending()
            self._builder.whole_call(call.get("id"), call.get("name"), call.get("args"), own)
            return
        if not continues:
            self._finish_pending()
            self._pending = PartialCall(call.get("args"))
            self._named = {"id": call.get("id"), "name": call.get("name"), "own": {}}
        assert self._pending is not None
        self._named["own"].update(own)
        self._pending.add(call.get("partialArgs"))
        if call.get("willContinue") is not True:
            self._close_pending(complete=True)

    def _finish_pending(self, *, over: bool = False) -> None:
        """The model went on to something else, or the reply is over, and the pending call was not said to be done."""
        if self._pending is not None:
            self._close_pending(complete=not over and not self._pending.is_growing)

    def _close_pending(self, *, complete: bool) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        arguments: Any = pending.finish()
        if not complete or not pending.sound:
            # An object that is open behind a comma: nobody can take it for all that was meant.
            arguments = tell(arguments)[:-1] + ("," if arguments else "")
        self._builder.whole_call(self._named.get("id"), self._named.get("name"), arguments, self._named.get("own"))

    def _end(self) -> None:
        if self._builder.ended:
            return
        self._end_part()
        self._finish_pending(over=True)
        if self._own:
            self._builder.stop(self._stop, {"candidate": self._own})
        usage = read_usage(self._usage)
        if usage is not None:
            self._builder.usage(usage)
        self._builder.end()

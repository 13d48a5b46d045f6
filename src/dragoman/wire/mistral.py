"""The wire `mistral`: chat completions with stricter rules for ids and order, and with reasoning in the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from dragoman.events import Event, PartEnded, ReplyEnded
from dragoman.stage import Stage
from dragoman.types import Failure, InvalidCall, JsonObject, Reply, Text, Thinking, ToolCall
from dragoman.wire.aliases import Identifier, IdRule
from dragoman.wire.codec import Draft
from dragoman.wire.event_order import describe_invalid
from dragoman.wire.failures import fail, status_of
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_chat import OpenAIChat
from dragoman.wire.openai_chat import parts as chat
from dragoman.wire.openai_chat.client import Dialect
from dragoman.wire.openai_chat.parts import thinking_block, write_call, write_usage
from dragoman.wire.openai_chat.server import ChunkWriter, finish_of
from dragoman.wire.options import SAMPLING, OptionTable
from dragoman.wire.values import as_dict, as_text, dicts

# --------------------------------------------------------------------------------------------------------------------
# Mistral's errors: flat objects, and lists of details for fields that it does not know.


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    fields = as_dict(body)
    details = [as_text(entry.get("msg")) for entry in dicts(fields.get("detail"))]
    if details:
        return fail("; ".join(filter(None, details)), status=status or 422, body=body, headers=headers)
    if fields.get("object") == "error":
        code = fields.get("code") or fields.get("type")
        return fail(fields.get("message"), status=status, code=code, body=body, headers=headers)
    return chat.read_failure(status, body, headers)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    message = failure.message or failure.kind.replace("_", " ")
    body = {"object": "error", "message": message, "type": failure.kind, "param": None, "code": failure.code or None}
    return status_of(failure), body


# --------------------------------------------------------------------------------------------------------------------
# Replies written as Mistral writes them: thinking as a block of the content, usage in the last chunk.

_WIRE = "mistral"


def write_completion(reply: Reply, ids: IdRule, created: int) -> JsonObject:
    """A whole reply as Mistral's completion."""
    identifier = Identifier(ids)
    blocks: list[JsonObject] = []
    calls: list[JsonObject] = []
    for part in reply.message.parts:
        if isinstance(part, ToolCall):
            calls.append(write_call(identifier.rename(part), _WIRE))
        elif isinstance(part, Thinking):
            blocks.append(thinking_block(part.text, as_dict(part.extra.get(_WIRE))))
        elif isinstance(part, Text) and "block" in as_dict(part.extra.get(_WIRE)):
            blocks += [{"type": "text", "text": part.text}] if part.text else []
            blocks.append(part.extra[_WIRE]["block"])
        elif isinstance(part, Text | InvalidCall):
            text = part.text if isinstance(part, Text) else describe_invalid(part)
            blocks.append({"type": "text", "text": text})
    plain = all(block["type"] == "text" for block in blocks)
    content: Any = "".join(block["text"] for block in blocks) if plain else blocks
    message: JsonObject = {"role": "assistant", "content": content, "tool_calls": calls or None, "prefix": False}
    finish = finish_of(reply.stop, reply.extra, _WIRE)
    return {
        "id": reply.id or "cmpl-0",
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": write_usage(reply.usage),
    }


class MistralWriter(ChunkWriter):
    """A Stage from events to the bytes of Mistral's stream."""

    has_refusals = False

    def _write_thinking(self, text: str) -> JsonObject:
        return {"content": [thinking_block(text, {})]}

    def _end_part(self, event: PartEnded) -> list[JsonObject | str]:
        own = as_dict(event.extra.get(_WIRE))
        if event.kind == "thinking" and "signature" in own:
            return [self._chunk({"content": [thinking_block("", own)]})]
        return [self._chunk({"content": [own["block"]]})] if "block" in own else []

    def _chunk(self, delta: JsonObject, **finish: Any) -> JsonObject:
        choice = {"index": 0, "delta": delta, "finish_reason": None, **finish}
        counts = {"usage": write_usage(self._usage)} if finish and self._include_usage else {}
        return {**self._head, "choices": [choice], **counts}

    def _end(self, event: ReplyEnded) -> list[JsonObject | str]:
        self._closed = True
        return [self._chunk({}, finish_reason=finish_of(event.stop, event.extra, _WIRE)), "[DONE]"]

    def _fail(self, failure: Failure) -> list[JsonObject | str]:
        self._closed = True
        return [write_failure(failure)[1]]


class Mistral(OpenAIChat):
    name: ClassVar[str] = "mistral"
    rules: ClassVar[HistoryRules] = HistoryRules(
        "mistral",
        ids=IdRule(r"[a-zA-Z0-9]{9}", 9),
        system="first",
        merges=True,
        bridges_results=True,
        error_flags=False,
    )
    dialect: ClassVar[Dialect] = Dialect(
        "mistral",
        options=OptionTable(
            {name: name for name in ("max_tokens", *SAMPLING, "stop", "metadata")} | {"seed": "random_seed"}
        ),
        required="any",
        names_results=True,
        stream_options=False,
        empty_content="",
        thinking_blocks=True,
        fields="model max_tokens min_tokens temperature top_p top_k frequency_penalty presence_penalty"
        " repetition_penalty random_seed stop n logprobs top_logprobs prompt_logprobs top_prompt_logprobs metadata"
        " response_format reasoning_effort prompt_mode prediction safe_prompt guardrails prompt_cache_key"
        " service_tier tool_choice parallel_tool_calls stream",
        message_fields="role name tool_call_id prefix",
    )
    has_refusals = MistralWriter.has_refusals
    decode_failure = staticmethod(read_failure)
    encode_failure = staticmethod(write_failure)

    def _history_rules(self) -> HistoryRules:
        # Models without reasoning refuse it in the history, so it goes back only where a profile says so.
        return self.rules if self.quirks.replay_reasoning != "never" else replace(self.rules, thinking=False)

    def _schema_target(self) -> str:
        return "openai_strict" if self.quirks.strict_tools else "mistral"

    def _write_body(self, draft: Draft) -> JsonObject:
        body = super()._write_body(draft)
        messages = body["messages"]
        if messages and messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
            # The last word may be the assistant's only as the beginning of the reply.
            messages[-1]["prefix"] = True
        return body

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_completion(reply, self.rules.ids, created)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, include_usage: bool = True
    ) -> Stage[Event, bytes]:
        return MistralWriter(self.name, self.rules.ids, model, id, created, include_usage=include_usage)

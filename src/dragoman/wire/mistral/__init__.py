"""Mistral: chat completions with stricter rules for ids and order, and with reasoning inside the content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import Failure, JsonObject, Reply, Request, Tool
from dragoman.wire.aliases import IdRule
from dragoman.wire.codec import Prepared
from dragoman.wire.mistral.failures import read_failure, write_failure
from dragoman.wire.mistral.serving import MistralWriter, write_completion
from dragoman.wire.offering import Offer, offer
from dragoman.wire.openai_chat import OpenAIChat
from dragoman.wire.openai_chat.requests import Dialect
from dragoman.wire.rules import HistoryRules


class Mistral(OpenAIChat):
    name: ClassVar[str] = "mistral"
    rules: ClassVar[HistoryRules] = HistoryRules(
        "mistral",
        ids=IdRule(r"[a-zA-Z0-9]{9}", 9),
        system="first",
        merges=True,
        bridges_results=True,
        keeps_empty_text=True,
        error_flags=False,
    )
    dialect: ClassVar[Dialect] = Dialect(
        "mistral",
        max_tokens="max_tokens",
        seed="random_seed",
        required="any",
        names_results=True,
        takes_user=False,
        takes_top_k=True,
        stream_options=False,
        empty_content="",
        thinking_blocks=True,
    )

    def _rules(self) -> HistoryRules:
        # Models without reasoning refuse it in the history, so it goes back only where a profile says so.
        return self.rules if self.quirks.replay_reasoning != "never" else replace(self.rules, thinking=False)

    def _offer(self, tools: list[Tool]) -> Offer:
        target = "openai_strict" if self.quirks.strict_tools else "mistral"
        return offer(tools, self.rules.names, target, self.quirks)

    def prepare(self, request: Request) -> Prepared:
        prepared = super().prepare(request)
        messages = prepared.body["messages"]
        if messages and messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
            # The last word may be the assistant's only as the beginning of the reply.
            messages[-1]["prefix"] = True
        return prepared

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    def encode_reply(self, reply: Reply, *, created: int = 0) -> JsonObject:
        if reply.failure is not None:
            return write_failure(reply.failure)[1]
        return write_completion(reply, self.rules.ids, created)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, include_usage: bool = True
    ) -> Stage[Event, bytes]:
        return MistralWriter(self.name, self.rules.ids, model, id, created, include_usage=include_usage)

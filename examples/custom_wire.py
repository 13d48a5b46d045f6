"""A custom wire: a company endpoint that packs chat completions into an envelope of its own.

python examples/custom_wire.py                                        (a stub of such an endpoint on this machine)
BASE_URL=https://models.company.example/api COMPANY_KEY=... python examples/custom_wire.py "Is it warm in Paris?"
"""

import os
import sys
from typing import Any

from msgspec.structs import replace

import dragoman
from dragoman import wire
from dragoman.providers import Provider, Registry
from dragoman.testing import Upstream, sse
from dragoman.wire.openai_chat import OpenAIChat
from dragoman.wire.openai_chat.client import ChatReader


class CompanyReader(ChatReader):
    """Replies, whole and in pieces: {"status": ..., "payload": ...}."""

    def _read_frame(self, content: Any, event: str | None) -> None:
        super()._read_frame(content.get("payload", content), event)


class Company(OpenAIChat):
    """Requests: {"tenant": ..., "payload": ...}. The payload is a chat completion, so its codec does the rest."""

    name, path, reader = "company", "/invoke", CompanyReader

    def prepare(self, request: dragoman.Request) -> wire.Prepared:
        sent = super().prepare(request)
        return replace(sent, body={"tenant": "research", "payload": sent.body})


@dragoman.tool(read_only=True)
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def reply(**delta: Any) -> Any:
    return sse([{"status": "ok", "payload": {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}}])


if __name__ == "__main__":
    wire.register(Company, wire.WireRow("Company", r"/invoke$"))
    called = {"index": 0, "id": "1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    with Upstream([reply(tool_calls=[called]), reply(content="Yes, it is sunny.")]) as stub:
        base_url = os.environ.get("BASE_URL", stub.url)
        row = Provider("company", base_url=base_url, key=("COMPANY_KEY",), wires=("company",), auth="optional")
        connection = dragoman.Connection(registry=Registry.default().with_provider(row))
        agent = dragoman.Agent("company:large", [weather], connection=connection)
        result = agent.run(" ".join(sys.argv[1:]) or "Is it warm in Paris?")
        print([ran.content for ran in result.results], result.text)
        print([(request.target, request.body[:45]) for request in stub.received])

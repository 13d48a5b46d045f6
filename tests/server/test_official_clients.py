"""The official clients through the gateway: every client, whole and streamed, to endpoints of every wire."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from tests.server.gateways import CALLED, CLIENTS, ENDED, gateway_to

from dragoman.testing import Upstream, call, calls
from dragoman.wire import names

PARIS = ("weather", {"city": "Paris"})


@pytest.mark.parametrize("wire", names())
def test_every_client_gets_text_and_native_calls_from_an_endpoint_of_every_wire(wire: str) -> None:
    script = [calls(call("weather", city="Paris"), say="I will look. "), "It is warm."] * (2 * len(CLIENTS))
    wrong: list[str] = []
    with Upstream(script, wire=wire) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for client, ask in CLIENTS.items():
            for stream in (False, True):
                heard = ask(gateway.url, stream)
                if (heard.text.strip(), heard.calls, heard.stop) != ("I will look.", [PARIS], CALLED[client]):
                    wrong.append(f"{client} {'streamed' if stream else 'whole'}: {heard}")
                heard = ask(gateway.url, stream)
                if (heard.text, heard.calls, heard.stop) != ("It is warm.", [], ENDED[client]):
                    wrong.append(f"{client} {'streamed' if stream else 'whole'}, answer: {heard}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("said", ["hm", "Looking. ", "weather", "{", "I will look."])
def test_text_before_a_native_call_arrives_before_it_even_if_it_may_begin_a_call(said: str) -> None:
    question = {"model": "any", "max_tokens": 99, "messages": [{"role": "user", "content": "Go."}]}
    offered: list[Any] = [{"name": "weather", "input_schema": {"type": "object"}}]
    with (
        Upstream([calls(call("weather", city="Paris"), say=said)]) as upstream,
        gateway_to(upstream.endpoint()) as gateway,
        anthropic.Anthropic(base_url=gateway.url, api_key="k") as client,
        client.messages.stream(**question, tools=offered) as stream,
    ):
        blocks = stream.get_final_message().content
    assert [block.type for block in blocks] == ["text", "tool_use"]


@pytest.mark.parametrize("wire", names())
def test_every_client_gets_calls_from_an_endpoint_that_only_knows_text(wire: str) -> None:
    spoken = 'I will look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    wrong: list[str] = []
    with Upstream([spoken], wire=wire, loop=True, native=False) as upstream:
        with gateway_to(upstream.endpoint()) as gateway:
            for client, ask in CLIENTS.items():
                for stream in (False, True):
                    heard = ask(gateway.url, stream)
                    if (heard.text.strip(), heard.calls, heard.stop) != ("I will look.", [PARIS], CALLED[client]):
                        wrong.append(f"{client} {'streamed' if stream else 'whole'}: {heard}")
        assert all(not body.get("tools") for body in upstream.bodies), "the tools are in the prompt"
    assert not wrong, "\n".join(wrong)

"""The embedded model behind the gateway: every official client, whole and streamed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.gateways import CLIENTS, run_gateway

from dragoman.local import Engine
from dragoman.server.router import Router
from dragoman.server.settings import parse_settings

# How each client asks for a call of one tool. Ollama has no such field, so it gets a short answer.
FORCED: dict[str, dict[str, Any]] = {
    "openai_chat": {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
    "openai_responses": {"tool_choice": {"type": "function", "name": "weather"}},
    "anthropic": {"tool_choice": {"type": "tool", "name": "weather"}},
    "gemini": {
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["weather"]}},
    },
    "ollama": {"options": {"num_predict": 32}},
}


@pytest.mark.parametrize("ways", [1, pytest.param(2, marks=pytest.mark.full)])
def test_every_client_gets_a_call_or_an_answer_of_the_embedded_model(engine: Engine, ways: int) -> None:
    """Whole and streamed replies in turn, or each client with both."""
    settings = parse_settings('[[routes]]\nto = "local"\n')
    wrong: list[str] = []
    with run_gateway(lambda transport: Router(settings, transport=transport)) as gateway:
        for number, (name, ask) in enumerate(CLIENTS.items()):
            for stream in (number % 2 == 0, number % 2 == 1)[:ways]:
                heard = ask(gateway.url, stream, **FORCED[name])
                made = [call for call, arguments in heard.calls if isinstance(arguments.get("city"), str)]
                if name != "ollama" and made != ["weather"]:
                    wrong.append(f"{name}: {heard}")
                if not heard.calls and not heard.text:
                    wrong.append(f"{name}: nothing")
        assert {report["model"].partition(":")[0] for report in gateway.reports} == {"local"}
    assert not wrong, "\n".join(wrong)

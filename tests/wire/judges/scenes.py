"""The scenes that every official client is asked to send, and the neutral words for what a request says."""

from __future__ import annotations

from typing import Any

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}, "days": {"type": "integer"}},
    "required": ["city"],
}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
# (name, description, parameters) of the tools that every scene with tools offers.
TOOLS = (("get_weather", "Forecast for a city", WEATHER), ("ping", "Answer at once", NO_ARGUMENTS))
NAMES = [name for name, _, _ in TOOLS]

HELLO = "Hello"
SYSTEM = "Be brief."
UNICODE = 'Grüße, 世界 🌍 \u2028 "quoted" \\ \u0007'
# A red dot, one pixel wide.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PARIS: dict[str, Any] = {"city": "Paris", "days": 2}
OSLO: dict[str, Any] = {"city": "Ørsta"}
NOTHING: dict[str, Any] = {}
THOUGHT = "The user wants the weather twice."


def said(model: str, **changes: Any) -> dict[str, Any]:
    """What a request says, in neutral words: one plain user text unless told otherwise.

    Results are (id, text, is_error), calls are (id, name, arguments), reasoning is (text, signature or other opaque
    state) of what the assistant turns of the history carry.
    """
    plain: dict[str, Any] = {
        "model": model,
        "system": "",
        "texts": [HELLO],
        "tools": [],
        "tool_choice": None,
        "calls": [],
        "results": [],
        "images": 0,
        "stream": False,
        "max_tokens": None,
        "parallel": None,
        "reasoning": [],
    }
    unknown = changes.keys() - plain.keys()
    assert not unknown, f"a request says nothing about {sorted(unknown)}"
    return plain | changes

"""Prompts for a very small model, and the judgement of what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from dragoman import formats, providers
from dragoman.client import Client
from dragoman.extraction.tool_mode import ComposedRequest, choose_tool_mode, compose, open_reader
from dragoman.providers import Endpoint
from dragoman.replies import unfold
from dragoman.toolset import Toolset
from dragoman.types import Message, Reply, Text, ToolCall

PROMPTS = Path(__file__).with_name("weak_prompts.json")
BOUNDARIES = ("q7Rk2w", "m4Tz9c", "x8Lp3v", "j5Hd6n")


class Prompt(Struct, frozen=True):
    """What is asked, the tool that answers it (empty: none), and the arguments that count as right."""

    text: str
    tool: str
    arguments: list[dict[str, Any]]


class Trial(Struct, frozen=True):
    """Everything that is asked of the model."""

    tools: list[dict[str, Any]]
    prompts: list[Prompt]


class Way(Struct, frozen=True):
    """One way to ask: with examples or instructions alone, with a grammar or free, with which choice, and whether the
    likelihoods of the alternatives decide between a call and words, or the first token does."""

    name: str
    examples: bool = True
    grammar: bool = True
    choice: str = "auto"
    weighs: bool = False


WAYS = (
    Way("free, instructions", examples=False, grammar=False),
    Way("free, examples", grammar=False),
    Way("grammar"),
    Way("grammar, required", choice="required"),
    Way("likelihoods", weighs=True),
)


class Verdict(Struct, frozen=True):
    """What one reply is worth. `called` counts any call that was read, valid or not."""

    valid: bool
    tool: bool
    arguments: bool
    replied: bool


def load() -> Trial:
    return msgspec.json.decode(PROMPTS.read_bytes(), type=Trial)


def endpoint_for(way: Way, format: str, model: str = "local") -> Endpoint:
    """The embedded model as this way asks it."""
    endpoint = providers.resolve(model)
    profile = structs.replace(endpoint.profile, weak=way.examples, prompt_format=format, format=format)
    field = endpoint.quirks.grammar_field if way.grammar else ""
    quirks = structs.replace(endpoint.quirks, grammar_field=field, weighs_calls=way.weighs)
    return structs.replace(endpoint, profile=profile, quirks=quirks)


def write(prompt: Prompt, tools: Toolset, way: Way, format: str, most: int, model: str = "local") -> ComposedRequest:
    """The request for one prompt."""
    chosen_mode = choose_tool_mode(endpoint_for(way, format, model), tools, "text")
    options = {"temperature": 0.0, "seed": 1, "max_tokens": most, "tool_choice": way.choice}
    return compose([Message("user", [Text(prompt.text)])], chosen_mode, options, boundaries=BOUNDARIES)


async def ask(client: Client, composed: ComposedRequest) -> Reply:
    reply = await client.ask(composed.request)
    if reply.failure is not None:
        raise RuntimeError(reply.failure.message)
    return reply


def judge_strictly(text: str, prompt: Prompt, tools: Toolset, format: str) -> Verdict:
    """As a plain parser of this one format would: nothing is mended."""
    parsed = formats.parse(text, format, tools)
    clean = not parsed.broken and all(call.complete and not call.repairs and not call.changes for call in parsed.calls)
    return _judge(parsed.calls if clean else [], prompt, tools, replied=not parsed.calls and not parsed.broken)


def judge_repaired(reply: Reply, composed: ComposedRequest, prompt: Prompt, tools: Toolset) -> Verdict:
    """As dragoman reads it: every spelling, with repairs."""
    reader = open_reader(composed, [Message("user", [Text(prompt.text)])])
    for event in unfold(reply):
        reader.feed(event)
    reader.close()
    found = reader.extraction
    return _judge(found.calls, prompt, tools, replied=not found.calls and not found.invalid)


def _judge(calls: Sequence[ToolCall], prompt: Prompt, tools: Toolset, *, replied: bool) -> Verdict:
    valid = bool(calls) and all(_is_valid(call, tools) for call in calls)
    right = valid and calls[0].name == prompt.tool
    return Verdict(valid, right, right and calls[0].arguments in prompt.arguments, replied)


def _is_valid(call: ToolCall, tools: Toolset) -> bool:
    from dragoman.args import validate

    tool = tools.find(call.name)
    return tool is not None and not validate(call.arguments, tool.parameters)

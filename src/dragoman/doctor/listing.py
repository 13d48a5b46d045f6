"""The two findings that cost no tokens: the list of models, and the size of the context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.doctor.findings import Finding
from dragoman.doctor.metadata import find_model, read_models, read_props, read_show
from dragoman.errors import nearest
from dragoman.providers import Endpoint, Fact

SMALL = 8192
"""Tools and a few results do not fit into less."""


def judge_models(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """Whether the endpoint lists its models, and this one among them."""
    name = "models"
    listed = read_models(answers.get("models"))
    if listed is None:
        return Finding(name, "absent", "it lists no models")
    count = f"{len(listed)} model{'' if len(listed) == 1 else 's'}"
    if find_model(listed, endpoint.model) is not None:
        return Finding(name, "works", f"it lists {count}, this one among them")
    guess = nearest(endpoint.model, [entry.id for entry in listed])
    names = ", ".join(entry.id for entry in listed[:5])
    meant = f"did you mean {guess!r}?" if guess else ""
    return Finding(name, "works", f"it lists {count}, and none of this name", names, meant)


def judge_context(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """How many tokens fit into a conversation, if the endpoint tells."""
    name, asked = "context", endpoint.quirks.context_window
    if endpoint.wire == "ollama":
        return _judge_ollama(endpoint, *read_show(answers.get("show")))
    if endpoint.provider.transport:
        return Finding(name, "works" if asked else "unknown", f"{asked} tokens" if asked else "nobody says")
    listed = find_model(read_models(answers.get("models")) or [], endpoint.model)
    size = read_props(answers.get("props")) or (listed.context if listed is not None else 0)
    if not size:
        return Finding(name, "unknown", "it does not say", fix="name it where it matters: ContextSettings(window=N)")
    fact = Fact(quirks={"context_window": size}) if endpoint.provider.group in ("local", "custom") else None
    fix = f"start the server with a larger one ({_option(endpoint)})" if size < SMALL else ""
    return Finding(name, "broken" if size < SMALL else "works", f"{size} tokens", "", fix, fact)


def _judge_ollama(endpoint: Endpoint, most: int, given: int) -> Finding:
    name, asked = "context", endpoint.quirks.context_window
    if asked:
        held = min(asked, most or asked)
        fact = Fact(quirks={"context_window": held}) if held != asked else None
        of = f", of {most} that the model takes" if most else ""
        fix = "ask for more with the quirk context_window (num_ctx)" if held < SMALL and most > held else ""
        return Finding(name, "works" if held >= SMALL or not fix else "broken", f"{held} tokens{of}", "", fix, fact)
    if given:
        return Finding(name, "works", f"{given} tokens, by the file of the model")
    if not most:
        return Finding(name, "unknown", "it does not say")
    fix = "set the quirk context_window (num_ctx): the default is small and cuts tools silently"
    return Finding(name, "broken", "nobody asks for a context", "", fix)


def _option(endpoint: Endpoint) -> str:
    known = {"llamacpp": "-c N", "llamafile": "-c N", "vllm": "--max-model-len N", "sglang": "--context-length N"}
    return known.get(endpoint.provider.name, "see its options")

"""The findings about the metadata of an endpoint: its list of models and its context window. They cost no tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.client.models import find_model, read_models, read_props, read_show
from dragoman.doctor.probe import Finding
from dragoman.errors import nearest
from dragoman.providers import Endpoint, Fact

SMALL = 8192
"""Tools and a few results do not fit into a smaller context window."""


def judge_models(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """Judge whether the endpoint lists its models, including this one."""
    name = "models"
    listed = read_models(answers.get("models"))
    if listed is None:
        return Finding(name, "absent", "it lists no models")
    count = f"{len(listed)} model{'' if len(listed) == 1 else 's'}"
    if find_model(listed, endpoint.model) is not None:
        return Finding(name, "works", f"it lists {count}, including this one")
    guess = nearest(endpoint.model, [entry.id for entry in listed])
    names = ", ".join(entry.id for entry in listed[:5])
    meant = f"did you mean {guess!r}?" if guess else "nothing to do if it answers: some servers list no other names"
    return Finding(name, "absent", f"it lists {count}, but not this one", names, meant)


def judge_context(endpoint: Endpoint, answers: Mapping[str, Any]) -> Finding:
    """Judge the size of the context window, if the endpoint reports it."""
    name, asked = "context", endpoint.quirks.context_window
    if endpoint.wire == "ollama":
        return _judge_ollama(endpoint, *read_show(answers.get("show")))
    if endpoint.provider.transport:
        return Finding(name, "works" if asked else "unknown", f"{asked} tokens" if asked else "nobody says")
    listed = find_model(read_models(answers.get("models")) or [], endpoint.model)
    size = read_props(answers.get("props")) or (listed.context if listed is not None else 0)
    if not size:
        return Finding(name, "unknown", "it is not reported", fix="set it if necessary: the quirk context_window")
    fact = Fact(quirks={"context_window": size}) if endpoint.provider.group in ("local", "custom") else None
    fix = f"start the server with a larger one ({_option(endpoint)})" if size < SMALL else ""
    return Finding(name, "broken" if size < SMALL else "works", f"{size} tokens", "", fix, fact)


def _judge_ollama(endpoint: Endpoint, most: int, given: int) -> Finding:
    name, asked = "context", endpoint.quirks.context_window
    if asked:
        held = min(asked, most or asked)
        fact = Fact(quirks={"context_window": held}) if held != asked else None
        of = f" of the {most} that the model supports" if most else ""
        fix = "request more with the quirk context_window (num_ctx)" if held < SMALL and most > held else ""
        return Finding(name, "works" if held >= SMALL or not fix else "broken", f"{held} tokens{of}", "", fix, fact)
    if given:
        return Finding(name, "works", f"{given} tokens, from the file of the model")
    if not most:
        return Finding(name, "unknown", "it is not reported")
    fix = "set the quirk context_window (num_ctx): the default is small, and tools are truncated silently"
    return Finding(name, "broken", "no context window is requested", "", fix)


def _option(endpoint: Endpoint) -> str:
    known = {"llamacpp": "-c N", "llamafile": "-c N", "vllm": "--max-model-len N", "sglang": "--context-length N"}
    return known.get(endpoint.provider.name, "see its options")

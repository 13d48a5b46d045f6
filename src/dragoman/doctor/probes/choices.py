"""Tool choice: whether none, required and a named tool are more than a wish."""

from __future__ import annotations

from typing import Any

from dragoman.doctor.findings import Finding
from dragoman.doctor.probe import Probe, cannot_tell
from dragoman.doctor.probes.calls import CLOCK, NATIVE, WEATHER
from dragoman.doctor.questions import Patient, Question, Sight, Sights, user

KINDS = ("none", "required", "named")
_FIX = "set the quirk tool_choice to the kinds that hold; dragoman then goes round the others"
_WEATHER_WORDS = "What is the weather in Paris? Use the tool get_weather."


def _ask(kind: str) -> Question:
    choice: Any = {"name": CLOCK.name} if kind == "named" else kind
    words = "Say hello in one word." if kind == "required" else _WEATHER_WORDS
    tools = [WEATHER, CLOCK] if kind == "named" else [WEATHER]
    return Question(f"tool choice {kind}", [user(words)], tools, {"tool_choice": choice}, "native")


def _judge(kind: str, sight: Sight) -> Finding:
    name = f"tool_choice_{kind}"
    loss = sight.lost("tool_choice") or sight.lost("tool choice")
    if loss is not None:
        return Finding(name, "absent", "this wire has no field for it", loss.detail, "nothing to do: it is enforced")
    doubt = cannot_tell(name, (sight,))
    if doubt is not None:
        return doubt
    if sight.is_refused:
        return Finding(name, "absent", "requests with it are refused", sight.shown, _FIX)
    called = [call.name for call in sight.reply.calls] + [call.name for call in sight.reply.invalid]
    if kind == "none":
        held, words = not called, "a call came although none was allowed"
    elif kind == "required":
        held, words = bool(called), "an answer in words came although a call was required"
    else:
        held, words = set(called) == {CLOCK.name}, f"{CLOCK.name} was to be called, and was not"
    if held:
        return Finding(name, "works", "it is kept to", sight.shown)
    return Finding(name, "broken", words, sight.shown, _FIX)


def _probe(kind: str) -> Probe:
    def judge(patient: Patient, sights: Sights) -> Finding:
        return _judge(kind, sights[0])

    return Probe(f"tool_choice_{kind}", f"Tool choice: {kind}", lambda patient: (_ask(kind),), judge, needs=NATIVE)


PROBES = tuple(_probe(kind) for kind in KINDS)

"""Reasoning: whether what the model thought may, or has to, go back with the result of its call."""

from __future__ import annotations

from typing import Any

from dragoman.doctor.findings import Finding
from dragoman.doctor.probe import Probe, cannot_tell
from dragoman.doctor.probes.calls import NATIVE, WEATHER, weather
from dragoman.doctor.questions import Patient, Question, Sight, Sights
from dragoman.providers import Fact
from dragoman.types import Message, Thinking, ToolResult


def _thinking(sight: Sight) -> Thinking | None:
    return next((part for part in sight.reply.message.parts if isinstance(part, Thinking)), None)


def _follow(patient: Patient, sights: Sights) -> Question | None:
    sight = sights[0]
    if _thinking(sight) is None or not sight.reply.calls:
        return None
    results = [ToolResult(call.id, call.name, "18 degrees and sunny.") for call in sight.reply.calls]
    messages = [*weather().messages, sight.reply.message, Message("tool", list(results))]
    return Question("reasoning sent back", messages, [WEATHER], mode="native")


def _judge(patient: Patient, sights: Sights) -> Finding:
    name = "reasoning"
    thinking = _thinking(sights[0])
    if thinking is None or len(sights) < 2:
        return Finding(name, "absent", "the model shows no reasoning")
    sight = sights[1]
    replays = patient.endpoint.quirks.replay_reasoning
    if sight.is_refused:
        return _judge_refusal(patient, thinking, sight)
    doubt = cannot_tell(name, (sight,))
    if doubt is not None:
        return doubt
    how = "goes back with a result" if replays != "never" else "does not have to go back"
    return Finding(name, "works", f"the reasoning {how}", sight.shown)


def _judge_refusal(patient: Patient, thinking: Thinking, sight: Sight) -> Finding:
    quirks = patient.endpoint.quirks
    own = thinking.extra.get(patient.wire)
    field = own.get("field") if isinstance(own, dict) else None
    if quirks.replay_reasoning == "never":
        taught: dict[str, Any] = {"replay_reasoning": "calls"}
        if field in ("reasoning_content", "reasoning", "reasoning_details") and not quirks.reasoning_field:
            taught["reasoning_field"] = field
        words, fix = "a result without the reasoning is refused", "set the quirk replay_reasoning to calls"
    else:
        taught = {"replay_reasoning": "never"}
        words, fix = "a result with the reasoning is refused", "set the quirk replay_reasoning to never"
    return Finding("reasoning", "broken", words, sight.shown, fix, Fact(quirks=taught))


PROBES = (Probe("reasoning", "Reasoning goes back", lambda patient: (weather(),), _judge, _follow, needs=NATIVE),)

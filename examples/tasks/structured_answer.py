"""A structured answer: a typed object, shown while it arrives, and checked before it counts."""

from dataclasses import dataclass

import dragoman
from dragoman.testing import ScriptedModel, call


@dataclass
class Trip:
    city: str
    days: int
    sights: list[str]


def check(trip: Trip) -> dragoman.Retry | None:
    return dragoman.Retry("a trip has at most 7 days") if trip.days > 7 else None


model = ScriptedModel(  # or "ollama:qwen3"
    [
        call("final_answer", answer={"city": "Rome", "days": 30, "sights": ["Forum"]}),
        call("final_answer", answer={"city": "Rome", "days": "3", "sights": ["Forum", "Pantheon"]}),
    ]
)
agent = dragoman.Agent(model)

run = agent.stream("Plan a trip to Rome.", answer=Trip, validate=check)
for partial in run.answer_stream():
    print(partial.attempt, partial.data or partial.value)

result = run.outcome
if result is not None:
    print(result.data.city, result.data.days, len(result.data.sights))

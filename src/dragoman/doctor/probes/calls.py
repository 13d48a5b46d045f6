"""Probes of native calls, tool choice and reasoning."""

from __future__ import annotations

from typing import Any

from dragoman import formats
from dragoman.args.loader import validate
from dragoman.doctor.probe import (
    Finding,
    Observation,
    Observations,
    Probe,
    Question,
    Subject,
    cannot_tell,
    excerpt,
    user,
)
from dragoman.providers import Fact
from dragoman.providers.facts import learn_from_error
from dragoman.types import Message, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire.registry import ROWS

# --------------------------------------------------------------------------------------------------------------------
# Native calls: one, several, their ids, their arguments, and the results that go back.

WEATHER = Tool(
    "get_weather",
    "The current weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = Tool(
    "get_time",
    "The current time in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
BOOKING = Tool(
    "book_table",
    "Book a table in the restaurant.",
    {
        "type": "object",
        "properties": {
            "people": {"type": "integer"},
            "area": {"type": "string", "enum": ["inside", "terrace"]},
            "guest": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "phone": {"type": "string"}},
                "required": ["name"],
            },
            "dishes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["people", "area", "guest", "dishes"],
    },
)
_ASK_WEATHER = "What is the weather in Paris? Use the tool get_weather."
_ASK_BOTH = "What is the weather in Paris, and what is it in Rome? Call get_weather once for each city, both at once."
_ASK_BOOKING = (
    "Book a table for 4 people on the terrace. The guest is Ada Lee. Dishes: soup and bread. Use the tool book_table."
)
_CODE = "7341"

SERVER_OPTIONS = {
    "vllm": "start vLLM with --enable-auto-tool-choice and --tool-call-parser for this model",
    "sglang": "start SGLang with --tool-call-parser for this model",
    "llamacpp": "start llama-server with --jinja, and with a chat template that knows tools",
    "llamafile": "start it with --jinja, and with a chat template that knows tools",
    "ollama": "choose a model whose page on ollama.com says `tools`",
}
"""What makes a server read calls, by provider."""


def weather(*, stream: bool = False) -> Question:
    """A question that one call answers."""
    name = "weather streamed" if stream else "weather"
    return Question(name, [user(_ASK_WEATHER)], [WEATHER], mode="native", stream=stream)


def both(*, stream: bool = False) -> Question:
    """A question that two calls answer."""
    name = "two cities streamed" if stream else "two cities"
    return Question(name, [user(_ASK_BOTH)], [WEATHER], mode="native", stream=stream)


def is_sound(call: ToolCall, tool: Tool) -> bool:
    """Whether a call is one of this tool and fits its schema."""
    return call.name == tool.name and not validate(call.arguments, tool.parameters)


# ---- native calls --------------------------------------------------------------------------------------------------


def _judge_native(subject: Subject, observations: Observations) -> Finding:
    name, observation = "native_calls", observations[0]
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    if observation.is_refused:
        return _judge_refusal(subject, observation)
    sound = [call for call in observation.reply.calls if is_sound(call, WEATHER)]
    if sound:
        return Finding(
            name, "works", "a call came in its own field", observation.shown, fact=Fact(native_tool_calls=True)
        )
    server = SERVER_OPTIONS.get(subject.endpoint.provider.name, "")
    fix = "; ".join(filter(None, ["use text: --tool-mode text, or tool_mode in the configuration", server]))
    written = formats.parse(observation.reply.text, tools=[WEATHER]).calls
    found = written[0].provenance.format if written and written[0].provenance is not None else ""
    if written:
        words = f"the call came as text ({found}): the server does not read what the model writes"
    elif observation.reply.calls or observation.reply.invalid:
        words = "a call came that does not fit the tool"
    else:
        words = "the model answered in words instead of a call"
    shown = observation.shown or excerpt("; ".join(call.raw for call in observation.reply.invalid))
    return Finding(name, "broken", words, shown, fix, Fact(native_tool_calls=False, why=words))


def _judge_refusal(subject: Subject, observation: Observation) -> Finding:
    failure = observation.failure
    assert failure is not None
    learned = learn_from_error(failure.body or failure.message, failure.status)
    server = SERVER_OPTIONS.get(subject.endpoint.provider.name, "")
    if learned is not None and learned.wire:
        fix = f"use its other wire: --wire {learned.wire}"
    else:
        fix = "; ".join(filter(None, ["nothing to do: calls travel as text from now on", server and f"or {server}"]))
        learned = Fact(native_tool_calls=False, why=observation.shown)
    return Finding("native_calls", "absent", "requests with tools are refused", observation.shown, fix, learned)


# ---- ids -----------------------------------------------------------------------------------------------------------


def _id_questions(subject: Subject) -> tuple[Question, ...]:
    return (weather(), weather(stream=True)) if subject.quick else (weather(), weather(stream=True), both())


def _judge_ids(subject: Subject, observations: Observations) -> Finding:
    name = "call_ids"
    calls = [call for observation in observations for call in observation.reply.calls]
    if not calls:
        return cannot_tell(name, observations) or Finding(name, "unknown", "no call came that could have had one")
    fix = "nothing to do here: dragoman makes ids of its own; other clients may fail"
    ids = [[call.wire_id for call in observation.reply.calls] for observation in observations]
    shown = excerpt(", ".join(str(each) for group in ids for each in group))
    if any(each is None for group in ids for each in group):
        if subject.wire in ROWS and not ROWS[subject.wire].call_ids:
            return Finding(name, "works", "this wire needs none")
        return Finding(name, "broken", "calls come without ids", shown, fix)
    if any(len(set(group)) < len(group) for group in ids):
        return Finding(name, "broken", "two calls of one reply have the same id", shown, fix)
    return Finding(name, "works", "every call has an id of its own", shown)


# ---- several calls -------------------------------------------------------------------------------------------------


def _judge_parallel(subject: Subject, observations: Observations) -> Finding:
    name, observation = "parallel_calls", observations[0]
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    sound = [call for call in observation.reply.calls if is_sound(call, WEATHER)]
    if len(sound) > 1:
        return Finding(name, "works", f"{len(sound)} calls came in one reply", observation.shown)
    if observation.is_refused:
        return Finding(name, "broken", "a question for two calls was refused", observation.shown)
    if len(sound) == 1:
        return Finding(
            name, "absent", "one call came at a time", observation.shown, "nothing to do: the loop asks again"
        )
    return Finding(name, "broken", "no call came where two were asked for", observation.shown)


# ---- arguments by their schema -------------------------------------------------------------------------------------


def _judge_schema(subject: Subject, observations: Observations) -> Finding:
    name, observation = "schema", observations[0]
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    fix = "nothing to do where the repairs are enough; else the quirk strict_tools, or a grammar (--tool-mode text)"
    if observation.is_refused:
        return Finding(name, "broken", "a schema with nested objects and enums is refused", observation.shown, fix)
    call = next((call for call in observation.reply.calls if call.name == BOOKING.name), None)
    if call is None:
        broken = "; ".join(str(fault) for invalid in observation.reply.invalid for fault in invalid.faults)
        words = "no call came, or none that could be read"
        return Finding(name, "broken", words, excerpt(broken) or observation.shown, fix)
    faults = [str(fault) for fault in validate(call.arguments, BOOKING.parameters)]
    mended = [f"{change.path}: {change.rule}" for change in call.changes]
    if faults or mended or call.repairs:
        words = "the arguments break the schema" if faults else "the arguments had to be mended"
        return Finding(name, "broken", words, excerpt("; ".join([*faults, *mended, *call.repairs])), fix)
    return Finding(name, "works", "integer, enum, nested object, array and required hold", observation.shown)


# ---- results -------------------------------------------------------------------------------------------------------


def _result(subject: Subject) -> tuple[Question, ...]:
    lookup = Tool(
        "get_code",
        "The code of a door.",
        {"type": "object", "properties": {"door": {"type": "string"}}, "required": ["door"]},
    )
    messages = [
        user("What is the code of the north door? Use the tool get_code, then tell me the code."),
        Message("assistant", [ToolCall("call_doctor1", lookup.name, {"door": "north"})]),
        Message("tool", [ToolResult("call_doctor1", lookup.name, f"The code of the north door is {_CODE}.")]),
    ]
    return (Question("result", messages, [lookup], mode="native" if subject.native else "text"),)


def _judge_result(subject: Subject, observations: Observations) -> Finding:
    name, observation = "results", observations[0]
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    if observation.is_refused:
        fix = "use text: --tool-mode text" if subject.native else ""
        return Finding(name, "broken", "a conversation with a result is refused", observation.shown, fix)
    if _CODE in observation.reply.text:
        return Finding(name, "works", "a result is taken and used", observation.shown)
    fix = "try --tool-mode text, or another model" if subject.native else "try a larger model"
    if observation.reply.calls or observation.extraction.calls:
        return Finding(name, "broken", "the model called again instead of using the result", observation.shown, fix)
    return Finding(name, "broken", "the model did not use the result", observation.shown, fix)


NATIVE = ("reachable", "native_calls")
CALL_PROBES = (
    Probe(
        "native_calls",
        "Native calls",
        lambda subject: (weather(),),
        _judge_native,
        quick=True,
        needs=("reachable",),
    ),
    Probe("call_ids", "Ids of calls", _id_questions, _judge_ids, quick=True, needs=NATIVE),
    Probe("parallel_calls", "Several calls at once", lambda subject: (both(),), _judge_parallel, needs=NATIVE),
    Probe(
        "schema",
        "Schemas are kept to",
        lambda subject: (Question("booking", [user(_ASK_BOOKING)], [BOOKING], mode="native"),),
        _judge_schema,
        needs=NATIVE,
    ),
    Probe("results", "Results go back", _result, _judge_result, quick=True, needs=("reachable",)),
)


# --------------------------------------------------------------------------------------------------------------------
# Tool choice: whether none, required and a named tool are more than a wish.

KINDS = ("none", "required", "named")
_FIX = "set the quirk tool_choice to the kinds that hold; dragoman then goes round the others"
_WEATHER_WORDS = "What is the weather in Paris? Use the tool get_weather."


def _ask(kind: str) -> Question:
    choice: Any = {"name": CLOCK.name} if kind == "named" else kind
    words = "Say hello in one word." if kind == "required" else _WEATHER_WORDS
    tools = [WEATHER, CLOCK] if kind == "named" else [WEATHER]
    return Question(f"tool choice {kind}", [user(words)], tools, {"tool_choice": choice}, "native")


def _judge_choice(kind: str, observation: Observation) -> Finding:
    name = f"tool_choice_{kind}"
    loss = observation.lost("tool_choice") or observation.lost("tool choice")
    if loss is not None:
        return Finding(name, "absent", "this wire has no field for it", loss.detail, "nothing to do: it is enforced")
    doubt = cannot_tell(name, (observation,))
    if doubt is not None:
        return doubt
    if observation.is_refused:
        return Finding(name, "absent", "requests with it are refused", observation.shown, _FIX)
    called = [call.name for call in observation.reply.calls] + [call.name for call in observation.reply.invalid]
    if kind == "none":
        held, words = not called, "a call came although none was allowed"
    elif kind == "required":
        held, words = bool(called), "an answer in words came although a call was required"
    else:
        held, words = set(called) == {CLOCK.name}, f"{CLOCK.name} was to be called, and was not"
    if held:
        return Finding(name, "works", "it is kept to", observation.shown)
    return Finding(name, "broken", words, observation.shown, _FIX)


def _probe(kind: str) -> Probe:
    def judge(subject: Subject, observations: Observations) -> Finding:
        return _judge_choice(kind, observations[0])

    return Probe(f"tool_choice_{kind}", f"Tool choice: {kind}", lambda subject: (_ask(kind),), judge, needs=NATIVE)


CHOICE_PROBES = tuple(_probe(kind) for kind in KINDS)


# --------------------------------------------------------------------------------------------------------------------
# Reasoning: whether what the model thought may, or has to, go back with the result of its call.


def _thinking(observation: Observation) -> Thinking | None:
    return next((part for part in observation.reply.message.parts if isinstance(part, Thinking)), None)


def _follow(subject: Subject, observations: Observations) -> Question | None:
    observation = observations[0]
    if _thinking(observation) is None or not observation.reply.calls:
        return None
    results = [ToolResult(call.id, call.name, "18 degrees and sunny.") for call in observation.reply.calls]
    messages = [*weather().messages, observation.reply.message, Message("tool", list(results))]
    return Question("reasoning sent back", messages, [WEATHER], mode="native")


def _judge_reasoning(subject: Subject, observations: Observations) -> Finding:
    name = "reasoning"
    thinking = _thinking(observations[0])
    if thinking is None or len(observations) < 2:
        return Finding(name, "absent", "the model shows no reasoning")
    observation = observations[1]
    replays = subject.endpoint.quirks.replay_reasoning
    if observation.is_refused:
        return _judge_reasoning_refusal(subject, thinking, observation)
    doubt = cannot_tell(name, (observation,))
    if doubt is not None:
        return doubt
    how = "goes back with a result" if replays != "never" else "does not have to go back"
    return Finding(name, "works", f"the reasoning {how}", observation.shown)


def _judge_reasoning_refusal(subject: Subject, thinking: Thinking, observation: Observation) -> Finding:
    quirks = subject.endpoint.quirks
    own = thinking.extra.get(subject.wire)
    field = own.get("field") if isinstance(own, dict) else None
    if quirks.replay_reasoning == "never":
        taught: dict[str, Any] = {"replay_reasoning": "calls"}
        if field in ("reasoning_content", "reasoning", "reasoning_details") and not quirks.reasoning_field:
            taught["reasoning_field"] = field
        words, fix = "a result without the reasoning is refused", "set the quirk replay_reasoning to calls"
    else:
        taught = {"replay_reasoning": "never"}
        words, fix = "a result with the reasoning is refused", "set the quirk replay_reasoning to never"
    return Finding("reasoning", "broken", words, observation.shown, fix, Fact(quirks=taught))


REASONING_PROBES = (
    Probe("reasoning", "Reasoning goes back", lambda subject: (weather(),), _judge_reasoning, _follow, needs=NATIVE),
)

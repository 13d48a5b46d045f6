"""Every fault is found on the server that has it, and none is found where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from tests.doctor.clinic import (
    Clinic,
    answer_well,
    chat_endpoint,
    diagnose,
    edit_frames,
    entries,
    is_call,
    verdicts,
    without,
)

from dragoman import formats
from dragoman.doctor import PROBES, count_requests
from dragoman.doctor.probe import admit
from dragoman.providers import Fact
from dragoman.testing import Answer, call
from dragoman.testing.script import Scripted
from dragoman.types import Failure, Reply, Request, ToolCall

CONCERNS_CALLS = ("call_ids", "parallel_calls", "stream_calls", "stream_parallel", "schema", "reasoning")
CHOICES = ("tool_choice_none", "tool_choice_required", "tool_choice_named")
HEALTHY = {"reasoning": "absent"}
"""The scripted model shows no reasoning; that is no fault."""
NOT_ASKED = dict.fromkeys((*CONCERNS_CALLS, *CHOICES), "unknown")


def test_a_healthy_server_has_no_faults() -> None:
    server = Clinic()
    report = diagnose(server)
    assert verdicts(report) == HEALTHY
    first, *others = [probe.name for probe in PROBES]
    assert [finding.probe for finding in report.findings] == [first, "models", "context", *others]
    assert report.faults == ()
    assert report.fact == Fact(native_tool_calls=True, quirks={"context_window": 32768})


def test_no_more_requests_are_sent_than_was_said() -> None:
    for quick in (False, True):
        server = Clinic()
        report = diagnose(server, quick=quick)
        said = count_requests(admit(chat_endpoint(), quick=quick))
        assert report.requests == len(server.exchanges) <= said
        assert said == (8 if quick else 19)
        assert all(body["temperature"] == 0 for body in server.bodies)
        assert all(body["max_completion_tokens"] <= 1024 for body in server.bodies)


# ---- servers with one fault each -------------------------------------------------------------------------------------


def ignore_tool_choice(request: Request, body: dict[str, Any]) -> Scripted:
    choice = request.options.get("tool_choice", "auto")
    if choice == "required":
        return "Hello!"
    return answer_well(without(request, "tool_choice"), body)


def ignore_only_none(request: Request, body: dict[str, Any]) -> Scripted:
    ignored = ("tool_choice",) if request.options.get("tool_choice") == "none" else ()
    return answer_well(without(request, *ignored), body)


def refuse_named(request: Request, body: dict[str, Any]) -> Scripted:
    if isinstance(body.get("tool_choice"), dict):
        return Failure("bad_request", "tool_choice must be a string", 400)
    return answer_well(request, body)


def refuse_tools(request: Request, body: dict[str, Any]) -> Scripted:
    if request.tools:
        return Failure("bad_request", '"scripted" does not support tools', 400)
    return answer_well(request, body)


def write_calls_as_text(request: Request, body: dict[str, Any]) -> Scripted:
    said = answer_well(request, body)
    if request.tools and is_call(said):
        calls = [said] if isinstance(said, ToolCall) else list(said)  # type: ignore[arg-type]
        return formats.render(calls, "hermes")  # type: ignore[arg-type]
    return said


def _is_forced(request: Request) -> bool:
    return request.options.get("tool_choice", "auto") not in ("auto", "none")


def call_only_if_required(request: Request, body: dict[str, Any]) -> Scripted:
    return answer_well(request, body) if _is_forced(request) else talk_instead(request, body)


def parse_only_required_calls(request: Request, body: dict[str, Any]) -> Scripted:
    return answer_well(request, body) if _is_forced(request) else write_calls_as_text(request, body)


def talk_instead(request: Request, body: dict[str, Any]) -> Scripted:
    said = answer_well(request, body)
    return "It is warm, I think." if request.tools and is_call(said) else said


def one_call_at_a_time(request: Request, body: dict[str, Any]) -> Scripted:
    said = answer_well(request, body)
    return said[0] if isinstance(said, list) else said


def ignore_the_grammar(request: Request, body: dict[str, Any]) -> Scripted:
    return answer_well(request, {name: value for name, value in body.items() if name != "grammar"})


def refuse_the_grammar(request: Request, body: dict[str, Any]) -> Scripted:
    if "grammar" in body:
        return Failure("bad_request", "unknown field: grammar", 400)
    return answer_well(request, body)


def ignore_the_schema_of_answers(request: Request, body: dict[str, Any]) -> Scripted:
    return answer_well(without(request, "response_format"), body)


def break_the_schema(request: Request, body: dict[str, Any]) -> Scripted:
    said = answer_well(request, body)
    if isinstance(said, ToolCall) and said.name == "book_table":
        return call("book_table", people=4, area="garden", guest="Ada Lee", dishes=["soup"])
    return said


def forget_results(request: Request, body: dict[str, Any]) -> Scripted:
    if any(message.role == "tool" for message in request.messages):
        return call("get_code", door="north")
    return answer_well(request, body)


def refuse_results(request: Request, body: dict[str, Any]) -> Scripted:
    if any(message.role == "tool" for message in request.messages):
        return Failure("bad_request", "unexpected role: tool", 400)
    return answer_well(request, body)


def hide_the_cut(request: Request, body: dict[str, Any]) -> Scripted:
    said = answer_well(request, body)
    return structs.replace(said, stop="end") if isinstance(said, Reply) else said


def ignore_the_limit(request: Request, body: dict[str, Any]) -> Scripted:
    if (request.options.get("max_tokens") or 1000) < 100:
        return " ".join(map(str, range(1, 61)))
    return answer_well(request, body)


def know_only_fenced(request: Request, body: dict[str, Any]) -> Scripted:
    taught = request.messages[0].text if request.messages[0].role == "system" else ""
    if taught and not request.tools and "<tool_call>" in taught:
        return "It is warm, I think."
    return answer_well(request, body)


def refuse_streams(request: Request, body: dict[str, Any]) -> Scripted:
    if body.get("stream"):
        return Failure("bad_request", "streaming is not available", 400)
    return answer_well(request, body)


def drop_ids(answer: Answer, body: dict[str, Any]) -> Answer:
    def change(frame: dict[str, Any]) -> None:
        for entry in entries(frame):
            entry.pop("id", None)

    return edit_frames(answer, change)


def repeat_one_id(answer: Answer, body: dict[str, Any]) -> Answer:
    def change(frame: dict[str, Any]) -> None:
        for entry in entries(frame):
            if "id" in entry:
                entry["id"] = "0"

    return edit_frames(answer, change) if answer.pieces is None else answer


def use_index_zero(answer: Answer, body: dict[str, Any]) -> Answer:
    def change(frame: dict[str, Any]) -> None:
        for entry in entries(frame):
            entry["index"] = 0

    return edit_frames(answer, change) if answer.pieces is not None else answer


def leave_out_the_last_frame(answer: Answer, body: dict[str, Any]) -> Answer:
    if answer.pieces is None:
        return answer
    return structs.replace(answer, pieces=[piece for piece in answer.pieces if b"[DONE]" not in piece])


def always_say_stop(answer: Answer, body: dict[str, Any]) -> Answer:
    def change(frame: dict[str, Any]) -> None:
        for choice in frame.get("choices", ()):
            if choice.get("finish_reason") == "tool_calls":
                choice["finish_reason"] = "stop"

    return edit_frames(answer, change)


def forget_usage(answer: Answer, body: dict[str, Any]) -> Answer:
    return edit_frames(answer, lambda frame: frame.pop("usage", None) and None)


def forget_usage_of_streams(answer: Answer, body: dict[str, Any]) -> Answer:
    return forget_usage(answer, body) if answer.pieces is not None else answer


def send_streams_at_once(answer: Answer, body: dict[str, Any]) -> Answer:
    """As a buffering gateway that makes one chunk of the whole answer."""
    if answer.pieces is None:
        return answer
    words: list[str] = []

    def gather(frame: dict[str, Any]) -> None:
        for choice in frame.get("choices", ()):
            words.append(choice.get("delta", {}).pop("content", None) or "")
            if choice.get("finish_reason") == "stop":
                choice["delta"] = {"content": "".join(words)}

    return edit_frames(answer, gather)


SERVERS: dict[str, tuple[Callable[[], Clinic], dict[str, str]]] = {
    "ignores every tool choice": (lambda: Clinic(ignore_tool_choice), dict.fromkeys(CHOICES, "handled")),
    "ignores tool choice none": (lambda: Clinic(ignore_only_none), {"tool_choice_none": "handled"}),
    "refuses a named choice": (lambda: Clinic(refuse_named), {"tool_choice_named": "absent"}),
    "refuses tools with 400": (lambda: Clinic(refuse_tools), {**NOT_ASKED, "native_calls": "absent"}),
    "gives calls as text": (lambda: Clinic(write_calls_as_text), {**NOT_ASKED, "native_calls": "handled"}),
    "never calls": (lambda: Clinic(talk_instead), {**NOT_ASKED, "native_calls": "handled"}),
    "calls only if it must": (
        lambda: Clinic(call_only_if_required),
        {},
    ),
    "parses calls only if they are required": (
        lambda: Clinic(parse_only_required_calls),
        {"native_calls": "handled"},
    ),
    "calls one tool at a time": (
        lambda: Clinic(one_call_at_a_time),
        {"parallel_calls": "absent", "stream_parallel": "unknown"},
    ),
    "drops ids": (lambda: Clinic(apply_fault=drop_ids), {"call_ids": "handled"}),
    "gives every call the same id": (lambda: Clinic(apply_fault=repeat_one_id), {"call_ids": "handled"}),
    "streams every call at index 0": (lambda: Clinic(apply_fault=use_index_zero), {"stream_parallel": "handled"}),
    "leaves out the last frame": (lambda: Clinic(apply_fault=leave_out_the_last_frame), {"stream_end": "handled"}),
    "says stop behind calls": (lambda: Clinic(apply_fault=always_say_stop), {"finish_reason": "handled"}),
    "counts no tokens": (lambda: Clinic(apply_fault=forget_usage), {"usage": "handled"}),
    "counts no tokens of streams": (lambda: Clinic(apply_fault=forget_usage_of_streams), {"usage": "handled"}),
    "streams in one piece": (
        lambda: Clinic(apply_fault=send_streams_at_once),
        {"streaming": "handled"},
    ),
    "refuses streams": (
        lambda: Clinic(refuse_streams),
        {"streaming": "absent", "stream_end": "unknown", "stream_calls": "unknown", "stream_parallel": "unknown"},
    ),
    "ignores the grammar": (lambda: Clinic(ignore_the_grammar), {"grammar": "handled"}),
    "refuses the grammar": (lambda: Clinic(refuse_the_grammar), {"grammar": "absent"}),
    "ignores the schema of answers": (
        lambda: Clinic(ignore_the_schema_of_answers),
        {"structured_output": "handled"},
    ),
    "breaks the schema of tools": (lambda: Clinic(break_the_schema), {"schema": "broken"}),
    "forgets results": (lambda: Clinic(forget_results), {"results": "broken"}),
    "refuses results": (lambda: Clinic(refuse_results), {"results": "broken"}),
    "hides that it was cut": (lambda: Clinic(hide_the_cut), {"length": "handled"}),
    "ignores the limit of tokens": (lambda: Clinic(ignore_the_limit), {"length": "broken"}),
    "knows another text format": (lambda: Clinic(know_only_fenced), {"text_formats": "absent"}),
    "lists no models": (lambda: Clinic(pages={}), {"models": "absent", "context": "unknown"}),
    "has a small context": (
        lambda: Clinic(pages={"/v1/models": {"data": [{"id": "scripted", "context_length": 2048}]}}),
        {"context": "broken"},
    ),
}


@pytest.mark.parametrize("name", SERVERS)
def test_exactly_the_faults_of_a_server_are_found(name: str) -> None:
    make, expected = SERVERS[name]
    report = diagnose(make())
    assert verdicts(report) == HEALTHY | expected
    for finding in report.findings:
        assert finding.summary
        if finding.verdict in ("broken", "handled"):
            assert finding.fix, finding
        # Whoever reads "broken" has something to do, and nobody else has.
        assert (finding.verdict == "broken") <= ("nothing to do" not in finding.fix), finding


@pytest.mark.parametrize("name", [name for name in SERVERS if name != "gives every call the same id"])
def test_a_quick_look_finds_the_same_with_fewer_probes(name: str) -> None:
    make, expected = SERVERS[name]
    report = diagnose(make(), quick=True)
    made = {finding.probe for finding in report.findings}
    assert verdicts(report) == {probe: verdict for probe, verdict in (HEALTHY | expected).items() if probe in made}

"""The rows about the loop in the seeds' vectors, as their verdict says; those of watchers are in test_watching.py."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

from tests.agent.playbook import Playbook
from tests.agent.toolbox import look, weather, write

from dragoman.agent.result import Limits
from dragoman.testing import call, thinking
from dragoman.types import InvalidCall, Message, Text, ToolCall, ToolResult

ROWS = {
    "zeroclaw-loop-002": "overruled",
    "zeroclaw-loop-003": "keep",
    "zeroclaw-loop-004": "keep",
    "zeroclaw-loop-005": "keep",
    "zeroclaw-loop-007": "keep",
    "zeroclaw-loop-009": "overruled",
    "exathena-loop-001": "keep",
    "exathena-loop-002": "keep",
    "exathena-loop-008": "keep",
    "exathena-loop-009": "keep",
    "exathena-loop-010": "keep",
    "llmcore-loop-001": "keep",
    "llmcore-loop-002": "keep",
    "llmcore-loop-006": "keep",
    "llmcore-loop-007": "hole",
    "llmcore-loop-008": "overruled",
}


def test_every_row_is_held(shared_data: Callable[[str], Path], root: Path) -> None:
    with gzip.open(shared_data("seed_vectors.jsonl.gz")) as lines:
        rows = [row for row in map(json.loads, lines) if row["kind"] == "loop"]
    assert {row["id"]: row["verdict"] for row in rows} == ROWS
    tests = "".join((root / "tests/agent" / name).read_text() for name in ("test_seed_loop.py", "test_watching.py"))
    for row in ROWS:
        assert f"def test_seed_{row.replace('-', '_')}_" in tests, f"{row} has no test"


def test_seed_zeroclaw_loop_005_the_second_of_two_same_calls_in_a_turn_does_not_run() -> None:
    again = '<tool_call>\n{"name": "weather", "arguments": {"city": "A"}}\n</tool_call>'
    play = Playbook(weather, native=False).starts("hi").asks().replies(f"{again}\n{again}").runs("weather").answers("1")
    words = "Skipped duplicate tool call 'weather' with identical arguments in this turn."
    result = play.asks(hearing=words).replies("done").ends("answered")
    assert [each.is_error for each in result.results] == [False, True]


def test_seed_zeroclaw_loop_004_failed_results_end_nothing() -> None:
    play = Playbook(weather).starts("hi")
    for number in range(8):
        play.asks().replies(call("weather", city=f"{number}")).runs("weather").answers("no connection", error=True)
    play.asks().replies("It does not work.").ends("answered")


def test_seed_zeroclaw_loop_007_json_that_names_no_tool_is_data() -> None:
    said = '{"type":"function_call","name":"support_case","arguments":{"id":"A1"}}'
    for native in (True, False):
        Playbook(weather, native=native).starts("hi").asks().replies(said).ends("answered", text=said)


def test_seed_zeroclaw_loop_009_overruled_dangling_calls_are_answered_and_not_stripped() -> None:
    from dragoman.wire import get

    history = [
        Message("user", [Text("q")]),
        Message("assistant", [ToolCall("toolu_OK", "weather", {}), ToolCall("toolu_ORPHAN", "weather", {})]),
        Message("tool", [ToolResult("toolu_OK", "weather", "ok")]),
    ]
    play = Playbook(weather).starts(history, "go on").asks()
    body = get("anthropic").encode_request(play.ask.composed.request)
    blocks = [block for each in body["messages"] for block in each["content"] if isinstance(block, dict)]
    used = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert used == answered == ["toolu_OK", "toolu_ORPHAN"]


def test_seed_exathena_loop_001_mistakes_count_once_per_turn() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("nope1"), call("nope2"), call("nope3"))
    play.asks().replies("recovered").ends("answered", text="recovered")


def test_seed_exathena_loop_002_an_exception_becomes_an_error_result() -> None:
    play = Playbook(write).starts("hi").asks().replies(call("write", path="a")).runs("write")
    result = play.answers("OSError: disk full", error=True).asks().replies("Sorry.").ends("answered")
    assert result.results[0].is_error


def test_seed_exathena_loop_008_a_refused_key_is_fatal() -> None:
    Playbook().starts("hi").asks().fails("unauthorized", "bad key", 401).ends("unauthorized", category="fatal")


def test_seed_exathena_loop_009_any_other_failure_may_be_tried_again() -> None:
    Playbook().starts("hi").asks().fails("server_error", "boom", 500).ends("provider_failed", category="retryable")


def test_seed_exathena_loop_010_a_starved_turn_is_given_four_times_as_much_once() -> None:
    play = Playbook(options={"max_tokens": 8192}).starts("hi").asks().replies(thinking("hm"), stop="length")
    play.asks(options={"max_tokens": 32768}).replies(thinking("hm"), stop="length").ends("starved")


def test_seed_llmcore_loop_001_text_is_the_end() -> None:
    Playbook(weather).starts("hi").asks().replies("final answer").ends("answered", text="final answer")


def test_seed_llmcore_loop_002_white_space_is_no_success() -> None:
    play = Playbook(weather).starts("hi").asks().replies("  \n\t ").asks().replies("  \n\t ")
    assert not play.ends("blank").outcome.is_success


def test_seed_llmcore_loop_006_three_same_errors_and_the_call_is_not_run_again() -> None:
    play = Playbook(weather).starts("hi")
    for _ in range(3):
        play.asks().replies(call("weather", city="Paris")).runs("weather").answers("no connection", error=True)
    play.asks().replies(call("weather", city="Paris"))
    play.has_result("weather", "Not run: 'weather' has failed 3 times in a row with the same error", ran=False).asks()


def test_seed_llmcore_loop_007_hole_a_bad_call_and_its_result_both_stay() -> None:
    play = (
        Playbook(look).starts("hi").asks().replies(ToolCall("a", "look", {"where": "x"}), ToolCall("b", "unknown", {}))
    )
    result = play.runs("look").answers("nothing").asks().replies("done").ends("answered")
    made = [part.id for part in result.messages[1].parts if isinstance(part, ToolCall | InvalidCall)]
    answered = [part.call_id for part in result.messages[2].parts if isinstance(part, ToolResult)]
    assert made == answered == ["a", "b"]


def test_seed_llmcore_loop_008_overruled_the_tools_of_the_last_round_do_run() -> None:
    play = Playbook(weather, limits=Limits(turns=1)).starts("hi").asks().replies(call("weather", city="Paris"))
    play.runs("weather").answers("sunny").ends("turn_limit", category="capacity")

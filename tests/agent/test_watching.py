"""Loop detection: what counts as a loop, what does not, and the messages to the model."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agent import watch
from dragoman.agent.watch import Thresholds, Verdict, Watch, WatchSettings, duplicates, is_blank, is_starved
from dragoman.errors import ConfigError
from dragoman.types import (
    Image,
    InvalidCall,
    Message,
    Part,
    Reply,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)

Step = tuple[str, dict[str, object], str]
"""A tool, its arguments, and its result. A result that begins with `!` is an error."""


class Run:
    """A run from the view of the watcher. Each call has its own id, and blocked calls do not run."""

    def __init__(self, settings: WatchSettings | None = None, tools: Iterable[Tool] = ()) -> None:
        self.watch = Watch(settings) if settings is not None else Watch()
        self.tools = {tool.name: tool for tool in tools}
        self.ran: list[str] = []
        self._count = 0

    def turn(self, *steps: Step, text: str = "") -> str:
        """Execute one turn. Return the actions of its verdicts, `-` for none. All calls are judged before one runs."""
        calls = [self._call(step) for step in steps]
        before = [self.watch.before(call, self._tool(call)) for call in calls]
        said: list[Verdict | None] = list(before)
        results = []
        for call, step, verdict in zip(calls, steps, before, strict=True):
            if verdict is not None:
                assert verdict.action == "block"
                results.append(ToolResult(call.id, call.name, verdict.message, is_error=True))
                continue
            self.ran.append(call.name)
            answer = ToolResult(call.id, call.name, step[2].removeprefix("!"), is_error=step[2].startswith("!"))
            said.append(self.watch.after(call, self._tool(call), answer))
            results.append(answer)
        said.append(self.watch.turn(calls, results, text))
        return " ".join(verdict.action for verdict in said if verdict is not None) or "-"

    def turns(self, *steps: Step) -> list[str]:
        """Execute one turn for each step. The model writes a new text in each, so that only calls can be a loop."""
        return [self.turn(step, text=f"step {number}") for number, step in enumerate(steps)]

    def _call(self, step: Step) -> ToolCall:
        self._count += 1
        return ToolCall(f"call_{self._count}", step[0], dict(step[1]))

    def _tool(self, call: ToolCall) -> Tool:
        return self.tools.get(call.name, Tool(call.name))


def call(name: str, answer: str = "same", **arguments: object) -> Step:
    return name, arguments, answer


A, B = call("read", "text of a", path="a"), call("list", "a b c")


# ---- the rows of the seeds -----------------------------------------------------------------------------------------


def test_seed_zeroclaw_loop_002_alternating_calls_are_warned_blocked_and_ended_by_arguments_and_results() -> None:
    said = Run().turns(*[A, B] * 6)
    assert said == ["-"] * 7 + ["warn", "-", "block", "block", "block end"]


def test_seed_zeroclaw_loop_002_overruled_the_same_names_with_other_arguments_are_no_ping_pong() -> None:
    steps = [step for number in range(10) for step in (call("read", f"text {number}", path=str(number)), B)]
    assert Run().turns(*steps) == ["-"] * 20


def test_seed_zeroclaw_loop_003_one_result_whatever_the_arguments() -> None:
    run = Run()
    assert run.turns(*(call("search", "nothing found", query=str(n)) for n in range(7))) == [
        *["-"] * 4,
        "warn",
        "block",
        "block end",
    ]
    assert run.ran == ["search"] * 5


def test_seed_zeroclaw_loop_003_is_counted_over_the_window_and_not_only_in_a_row() -> None:
    steps = []
    for number in range(6):
        steps += [call("search", "nothing found", query=str(number)), call("read", f"text {number}", path=str(number))]
    assert Run().turns(*steps) == ["-"] * 8 + ["warn", "-", "block", "-"]


def test_seed_zeroclaw_loop_004_failed_calls_never_end_a_run() -> None:
    run = Run()
    said = run.turns(*[call("fetch", "!no route to host", url="x")] * 8)
    assert said == ["-", "-", "warn", *["block"] * 5]
    assert run.ran == ["fetch"] * 3
    assert "end" not in " ".join(Run().turns(*(call("fetch", "!no route to host", url=str(n)) for n in range(8))))


def test_seed_zeroclaw_loop_005_the_second_of_two_same_calls_is_a_duplicate_of_the_first() -> None:
    calls = [ToolCall("1", "count_tool", {"value": "A"}), ToolCall("2", "count_tool", {"value": "A"})]
    assert duplicates(calls) == {"2": "1"}


def test_seed_llmcore_loop_002_white_space_is_no_answer() -> None:
    assert is_blank("  \n\t ") and not is_blank("final answer")


def test_seed_llmcore_loop_006_three_same_errors_open_the_breaker() -> None:
    run = Run()
    broken = call("fetch", "!no route to host", url="x")
    assert run.turns(broken, broken, broken, broken) == ["-", "-", "warn", "block"]
    assert run.turn(call("fetch", "welcome", url="y")) == "-", "other arguments may be tried"


def test_seed_exathena_loop_010_thinking_until_the_limit_is_starvation() -> None:
    assert is_starved(reply(Thinking("hm, let me see"), stop="length"))


COVERED = {
    "zeroclaw-loop-002": "overruled",
    "zeroclaw-loop-003": "keep",
    "zeroclaw-loop-004": "keep",
    "zeroclaw-loop-005": "keep",
    "llmcore-loop-002": "keep",
    "llmcore-loop-006": "keep",
    "exathena-loop-010": "keep",
}


def test_the_seeds_still_say_what_the_tests_above_hold_them_to(shared_data: Callable[[str], Path]) -> None:
    with gzip.open(shared_data("seed_vectors.jsonl.gz")) as lines:
        rows = [msgspec.json.decode(line) for line in lines]
    verdicts = {row["id"]: row["verdict"] for row in rows if row["kind"] == "loop"}
    assert {name: verdicts[name] for name in COVERED} == COVERED


# ---- the same call, the same result --------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_is_warned_then_blocked_then_ended() -> None:
    run = Run()
    assert run.turns(A, A, A, A, A) == ["-", "-", "warn", "block", "block end"]
    assert run.ran == ["read"] * 3


def test_a_silent_model_gets_the_same_patience_as_one_that_talks() -> None:
    run = Run()
    assert [run.turn(A) for _ in range(5)] == ["-", "-", "warn", "block", "block end"]


def test_the_block_says_what_was_repeated_and_what_to_do() -> None:
    watch = Watch()
    for number in range(3):
        made = ToolCall(f"c{number}", "read", {"path": "a"})
        assert watch.before(made) is None
        watch.after(made, None, ToolResult(made.id, "read", "text"))
        watch.turn([made], [])
    verdict = watch.before(ToolCall("c3", "read", {"path": "a"}))
    assert verdict is not None and (verdict.action, verdict.kind) == ("block", "repeated_call")
    assert verdict.message.startswith("Not run: this is call 4 in a row of 'read' with the same arguments")
    assert "answer now" in verdict.message


def test_the_order_of_keys_does_not_make_another_call() -> None:
    steps = [("read", {"path": "a", "lines": 3}, "text"), ("read", {"lines": 3, "path": "a"}, "text")]
    assert Run().turns(steps[0], steps[1], steps[0], steps[1]) == ["-", "-", "warn", "block"]


@pytest.mark.parametrize(
    "other", [call("read", "another text", path="a"), call("read", "text of a", path="b"), call("stat", "1 kB")]
)
def test_anything_new_in_between_starts_the_count_again(other: Step) -> None:
    settings = WatchSettings(same_results=None)
    assert Run(settings).turns(A, A, other, A, A, other, A, A) == ["-"] * 8


def test_a_result_that_changes_is_work_and_not_a_loop() -> None:
    assert Run().turns(*(call("status", f"{number} of 9 done") for number in range(10))) == ["-"] * 10


def test_tests_that_pass_after_every_edit_are_no_loop() -> None:
    steps = [step for n in range(8) for step in (call("edit", "ok", line=n), call("run_tests", "10 passed"))]
    assert Run().turns(*steps) == ["-"] * 16


def test_after_a_block_another_way_is_open() -> None:
    run = Run()
    assert run.turns(A, A, A, A) == ["-", "-", "warn", "block"]
    assert run.turn(B) == "-"
    assert run.turn(A) == "-", "the count of a call ends with the next other call"


def test_many_same_calls_in_one_turn_count_once() -> None:
    run = Run()
    assert run.turn(*[A] * 10) == "-"
    assert run.turn(*[A] * 10) == "-"
    assert run.turn(*[A] * 10).split() == ["warn"]
    assert run.turn(A, A) == "block block"


def test_failures_between_do_not_hide_a_repetition() -> None:
    wrong = call("edit", "!no such line", line=1)
    assert Run(WatchSettings(failures=None)).turns(A, wrong, A, wrong, A) == ["-", "-", "-", "-", "warn"]


# ---- ping-pong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [2, 3, 4, 5])
def test_rounds_of_several_calls_are_found(period: int) -> None:
    steps = [call(f"tool_{number}", f"answer {number}") for number in range(period)]
    said = Run().turns(*steps * 6)
    assert [place for place, words in enumerate(said, start=1) if words == "warn"] == [4 * period]
    assert said.index("block") == 5 * period - 1
    assert said[-1] == "block end"
    assert all(words == "block" for words in said[5 * period - 1 : -1])


def test_parallel_batches_that_alternate_are_blocked_as_well() -> None:
    run = Run(WatchSettings(idle_turns=None))
    said = [run.turn(A, B, text=f"step {number}") for number in range(6)]
    assert said == ["-", "-", "-", "warn", "block", "block block end"]


def test_a_round_with_one_answer_that_changes_is_work() -> None:
    steps = [step for number in range(8) for step in (A, call("list", f"{number} files"))]
    assert Run().turns(*steps) == ["-"] * 16


def test_the_block_of_a_round_names_its_length() -> None:
    watch = Watch()
    verdict = None
    for number in range(10):
        name = "read" if number % 2 == 0 else "list"
        made = ToolCall(f"c{number}", name, {})
        verdict = watch.before(made)
        if verdict is None:
            watch.after(made, None, ToolResult(made.id, name, name))
        watch.turn([made], [], str(number))
    assert verdict is not None and verdict.kind == "ping_pong"
    assert "the same 2 calls would have been made 5 times in turn" in verdict.message


# ---- the same result for other arguments ---------------------------------------------------------------------------


def test_a_tool_that_only_says_ok_may_be_called_for_many_things() -> None:
    assert Run().turns(*(call("write_file", "OK", path=str(n)) for n in range(12))) == ["-"] * 12


def test_a_reading_tool_that_only_says_ok_has_nothing_to_say() -> None:
    run = Run(tools=[Tool("check", read_only=True)])
    assert run.turns(*(call("check", "ok", path=str(n)) for n in range(5)))[-1] == "warn"


def test_another_result_of_the_same_tool_starts_the_count_again() -> None:
    steps = [call("grep", "no match", word=str(n)) for n in range(12)]
    steps[3] = call("grep", "line 7", word="found")
    steps[7] = call("grep", "line 9", word="found too")
    assert Run().turns(*steps)[:11] == ["-"] * 11


def test_many_files_read_at_once_with_one_result_count_as_one_turn() -> None:
    run = Run()
    assert run.turn(*(call("read", "empty file", path=str(n)) for n in range(10))) == "-"


def test_the_window_forgets() -> None:
    settings = WatchSettings(window=4)
    steps = []
    for number in range(8):
        steps += [call("search", "nothing found", query=str(number)), call("read", f"text {number}", path=str(number))]
    assert Run(settings).turns(*steps) == ["-"] * 16


# ---- failures ------------------------------------------------------------------------------------------------------


def test_only_what_failed_is_blocked_and_success_closes_the_breaker() -> None:
    run = Run()
    down = "!no route to host"
    assert run.turns(*(call("fetch", down, url=str(n)) for n in range(3))) == ["-", "-", "warn"]
    assert run.turn(call("fetch", down, url="1")) == "block"
    assert run.turn(call("fetch", "welcome", url="9")) == "-"
    assert run.turn(call("fetch", "welcome", url="1")) == "-", "the tool works again"


def test_a_call_that_fails_while_others_of_the_tool_work_is_blocked_too() -> None:
    run = Run()
    bad = call("read", "!no such file", path="missing")
    said = [run.turn(call("read", f"text {n}", path=str(n)), bad) for n in range(4)]
    assert said == ["-", "-", "warn", "block"]


def test_other_errors_are_other_errors() -> None:
    assert Run().turns(*(call("fetch", f"!error {n}", url="x") for n in range(6))) == ["-"] * 6


def test_many_failures_in_one_turn_count_once() -> None:
    run = Run()
    assert run.turn(*(call("fetch", "!down", url=str(n)) for n in range(8))) == "-"
    assert run.turn(*(call("fetch", "!down", url=str(n)) for n in range(8))) == "-"


# ---- no progress ---------------------------------------------------------------------------------------------------


def batch(order: Iterable[int]) -> list[Step]:
    return [call(f"tool_{number}", f"answer {number}") for number in order]


def test_three_silent_turns_with_the_same_batch_end_the_run_whatever_the_order() -> None:
    run = Run()
    assert [run.turn(*batch(order)) for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [2, 1, 0, 5, 4, 3])] == [
        "-",
        "-",
        "end",
    ]


def test_new_text_or_a_new_result_is_progress() -> None:
    run = Run()
    assert [run.turn(*batch(range(6)), text=f"step {n}") for n in range(3)] == ["-"] * 3
    other = Run()
    assert [other.turn(*batch(range(6)), call("clock", f"{n}:00")) for n in range(5)] == ["-"] * 5


def test_the_same_text_again_is_no_progress() -> None:
    run = Run()
    assert [run.turn(*batch(range(6)), text="Let me look.") for _ in range(3)] == ["-", "-", "end"]


def test_a_model_that_is_warned_in_every_turn_does_not_continue_without_end() -> None:
    run = Run()
    wrong = call("fetch", "!no route to host", url="x")
    said = [run.turn(*batch(range(6)), wrong) for _ in range(6)]
    assert said == ["-", "-", "warn", "block", "block", "block end"]


def test_turns_in_which_everything_failed_are_not_counted_here() -> None:
    run = Run(WatchSettings(failures=None))
    assert [run.turn(call("a", "!broken"), call("b", "!broken")) for _ in range(6)] == ["-"] * 6


# ---- exemptions and settings ---------------------------------------------------------------------------------------


def test_polling_tools_may_ask_as_often_as_they_like() -> None:
    run = Run(tools=[Tool("job_status", metadata={"polling": True})])
    assert [run.turn(call("job_status", "running")) for _ in range(12)] == ["-"] * 12
    named = Run(WatchSettings(exempt=("job_status",)))
    assert [named.turn(call("job_status", "!not ready")) for _ in range(12)] == ["-"] * 12


def test_only_true_makes_a_tool_a_polling_one() -> None:
    run = Run(tools=[Tool("job_status", metadata={"polling": "no"})])
    assert run.turns(*[call("job_status", "running")] * 3)[-1] == "warn"


def test_every_detector_can_be_switched_off() -> None:
    loops = [*[A] * 6, *[A, B] * 8, *(call("s", "none found", q=n) for n in range(9)), *[call("f", "!down")] * 9]
    run = Run(WatchSettings.off())
    assert [run.turn(step) for step in loops] == ["-"] * len(loops)


def test_thresholds_are_the_callers() -> None:
    assert Run(WatchSettings(repeats=Thresholds(2, None, None))).turns(A, A, A) == ["-", "warn", "warn"]
    assert Run(WatchSettings(repeats=Thresholds(None, None, 4))).turns(A, A, A, A) == ["-", "-", "-", "end"]
    assert Run(WatchSettings(repeats=Thresholds(None, 2, None))).turns(A, A, A) == ["-", "block", "block"]
    assert Run(WatchSettings(failures=2)).turns(*[call("f", "!down")] * 3) == ["-", "warn", "block"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Thresholds(1, 2, 3),
        lambda: Thresholds(4, 3, 5),
        lambda: WatchSettings(failures=0),
        lambda: WatchSettings(idle_turns=1),
        lambda: WatchSettings(window=0),
        lambda: WatchSettings(longest_cycle=1),
    ],
    ids=["one", "out of order", "failures", "idle turns", "window", "cycle"],
)
def test_settings_that_make_no_sense_are_refused_with_a_next_step(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.next_step


def test_a_call_that_was_changed_before_it_ran_is_judged_by_what_ran() -> None:
    watch = Watch()
    for number in range(4):
        asked = ToolCall(f"c{number}", "read", {"path": "a"})
        assert watch.before(asked) is None
        run = ToolCall(f"c{number}", "read", {"path": f"safe/{number}"})
        assert watch.after(run, None, ToolResult(run.id, "read", f"text {number}")) is None
        assert watch.turn([run], []) is None


def test_calls_that_never_came_to_the_watcher_may_be_in_a_turn() -> None:
    watch = Watch()
    invalid = InvalidCall("x", "read", "{", ())
    unknown = ToolCall("y", "nothing", {})
    for _ in range(5):
        assert watch.turn([invalid, unknown], [ToolResult("y", "nothing", "no such tool", is_error=True)]) is None


steps = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["read", "list", "search"]),
            st.fixed_dictionaries({"n": st.integers(0, 2)}),
            st.sampled_from(["x", "y", "!down"]),
        ),
        min_size=1,
        max_size=3,
    ),
    max_size=25,
)


@given(steps)
def test_replaying_the_same_calls_gives_the_same_verdicts(turns: list[list[Step]]) -> None:
    first, second = Run(), Run()
    assert [first.turn(*turn) for turn in turns] == [second.turn(*turn) for turn in turns]


@given(steps)
def test_no_run_ends_as_a_loop_before_the_model_was_warned(turns: list[list[Step]]) -> None:
    run = Run(WatchSettings(idle_turns=None))
    told = False
    for number, turn in enumerate(turns):
        words = run.turn(*turn, text=str(number)).split()
        assert "end" not in words or told
        told = told or "warn" in words or "block" in words


# ---- duplicates and fingerprints -----------------------------------------------------------------------------------


def test_duplicates_are_found_by_name_and_arguments() -> None:
    calls = [
        ToolCall("1", "read", {"path": "a", "lines": [1, 2]}),
        ToolCall("2", "read", {"lines": [1, 2], "path": "a"}),
        ToolCall("3", "read", {"path": "a", "lines": [2, 1]}),
        ToolCall("4", "write", {"path": "a", "lines": [1, 2]}),
        InvalidCall("5", "read", "", ()),
        ToolCall("6", "read", {"path": "a", "lines": [1, 2]}),
    ]
    assert duplicates(calls) == {"2": "1", "6": "1"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def backwards(value: object) -> object:
    """The same value with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(list(value))}
    return [backwards(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=3), json_values, max_size=4))
def test_a_call_is_the_same_in_any_order_of_keys(arguments: dict[str, object]) -> None:
    other = backwards(arguments)
    assert isinstance(other, dict)
    assert watch.call_digest(ToolCall("1", "f", arguments)) == watch.call_digest(ToolCall("2", "f", other))


def nested(depth: int, leaf: object) -> dict[str, object]:
    value: dict[str, object] = {"leaf": leaf}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "\ud800"}, {"a": "\ud801"}),
        ({"a": 10**5000}, {"a": 10**5000 + 1}),
        (nested(50_000, 1), nested(50_000, 2)),
        ({"a": "1"}, {"a": 1}),
        ({"a": []}, {"a": {}}),
        ({"a": [["x"], "y"]}, {"a": [["x", "y"]]}),
        ({"a": ("x",)}, {"a": ("y",)}),
        ({"\ud800": 1, "b": 2}, {"\ud800": 2, "b": 1}),
    ],
    ids=["half characters", "huge numbers", "deep", "type", "empty", "nesting", "tuples", "half keys"],
)
def test_odd_arguments_have_a_fingerprint_too(one: dict[str, object], other: dict[str, object]) -> None:
    same = watch.call_digest(ToolCall("1", "f", one))
    assert same == watch.call_digest(ToolCall("2", "f", one))
    assert same != watch.call_digest(ToolCall("3", "f", other))


def test_results_differ_by_what_the_model_is_shown() -> None:
    shown = [
        ToolResult("1", "f", "text"),
        ToolResult("1", "f", "text", is_error=True),
        ToolResult("1", "f", [Text("te"), Text("xt")]),
        ToolResult("1", "f", [Text("text"), Image(data="AAAA", media_type="image/png")]),
        ToolResult("1", "f", [Text("text"), Image(data="BBBB", media_type="image/png")]),
    ]
    assert len({watch.result_digest(result) for result in shown}) == len(shown)
    assert watch.result_digest(shown[0]) == watch.result_digest(ToolResult("2", "g", "text", data={"for": "you"}))


# ---- replies that say nothing --------------------------------------------------------------------------------------


def reply(*parts: Part, stop: StopReason = "end", usage: Usage | None = None) -> Reply:
    return Reply(Message("assistant", list(parts)), usage or Usage(), stop)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t\r",
        "\u200b",
        "\ufeff\u2060",
        "\u00a0\u3000",
        "\u00ad",
        "\u3164",
        "\u2800",
        "\x00",
        "\ufe0f",
        "\u202e",
    ],
    ids=lambda text: "+".join(f"{ord(each):04x}" for each in text) or "empty",
)
def test_what_nobody_can_see_is_blank(text: str) -> None:
    assert is_blank(text)
    assert not is_blank(text + "." + text)


def test_a_reply_with_a_call_or_an_image_is_not_blank() -> None:
    assert is_blank(reply()) and is_blank(reply(Text(" "), Thinking("hm")))
    assert not is_blank(reply(Text(" "), ToolCall("1", "f", {})))
    assert not is_blank(reply(InvalidCall("1", "f", "{", ())))
    assert not is_blank(reply(Image(url="https://example.com/a.png")))


@pytest.mark.parametrize(
    ("given", "limit", "starved"),
    [
        (reply(Thinking("hm"), stop="length"), None, True),
        (reply(stop="length", usage=Usage(10, 500, reasoning_tokens=500)), None, True),
        (reply(Thinking("hm"), stop="end", usage=Usage(10, 500)), 500, True),
        (reply(Thinking("hm"), stop="end", usage=Usage(10, 499)), 500, False),
        (reply(Thinking("hm"), stop="end"), None, False),
        (reply(stop="length"), None, False),
        (reply(Thinking(" "), stop="length"), None, False),
        (reply(Thinking("hm"), Text("So"), stop="length"), None, False),
        (reply(Thinking("hm"), InvalidCall("1", "f", '{"a', ()), stop="length"), None, False),
    ],
)
def test_starved_is_thinking_up_to_the_limit_and_nothing_else(given: Reply, limit: int | None, starved: bool) -> None:
    assert is_starved(given, limit) is starved

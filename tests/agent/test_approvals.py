"""An approval is valid for exactly the call that was shown, once, until it expires. A changed call needs another."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.runs import agent, notices, wait
from tests.agent.script_tool import Launcher

from dragoman.agent import Approval, ApprovalRequest, Limits
from dragoman.agent.approvals import canonical, digest_call
from dragoman.agent.events import ApprovalGiven, ApprovalNeeded, CallDecided, RunEvent, ToolStarted
from dragoman.policy import Rule, Rules
from dragoman.secrets import HumanSink
from dragoman.testing import call, calls
from dragoman.types import Operand, Tool, ToolCall, ToolResult

LAUNCH = call("launch", script="job.sh")


def contents(results: list[ToolResult]) -> list[str]:
    return [str(result.content) for result in results]


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_the_approver_sees_what_will_run_and_why(tmp_path: Path) -> None:
    seen: list[ApprovalRequest] = []
    launcher = Launcher(tmp_path)

    def approve(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    result = wait(agent([LAUNCH, "done"], launcher.tool(), approve=approve).arun("hi"))
    assert contents(result.results) == ["ran job.sh"]
    (request,) = seen
    assert (request.call.name, request.tool, request.run_id) == ("launch", "launch", result.run_id)
    assert request.arguments == {"script": "job.sh"}
    assert "marked as needing approval" in request.why
    assert request.operands[0].real == str(tmp_path / "job.sh")
    assert len(request.digest) == 64 and request.id.startswith("apr_")
    assert request.expires is not None


def test_secrets_are_hidden_from_the_approver_and_their_paths_are_named(tmp_path: Path) -> None:
    sink = HumanSink(["correct-horse-battery"])
    arguments = {
        "headers": [{"Authorization": "Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"}],
        "note": "it is correct-horse-battery",
        "path": "a.txt",
    }
    shown = sink.value(arguments)
    request = ApprovalRequest("apr_1", ToolCall("c1", "fetch", arguments), "a rule", arguments=shown)
    assert request.hidden == ("headers[0].Authorization", "note")
    assert "sk-proj" not in str(shown) and "horse" not in str(shown)
    assert shown["path"] == "a.txt"


# ---- what an approval is bound to ------------------------------------------------------------------------------------


def test_a_script_that_is_rewritten_after_the_approval_does_not_run_unseen(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    script = tmp_path / "job.sh"
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.operands[0].digest)
        if len(asked) == 1:
            script.write_text("rm -rf /\n", encoding="utf-8")
            return True
        return False

    events: list[RunEvent] = []
    result = wait(agent([LAUNCH, "done"], launcher.tool(), approve=approve).arun("hi", on_event=events.append))
    assert launcher.ran == []
    assert len(set(asked)) == 2, "the second question is about the new content"
    assert contents(result.results) == ["Denied by the user."]
    assert "approval_stale" in notices(events)
    assert not any(isinstance(event, ToolStarted) for event in events)


def test_a_link_that_is_swapped_after_the_approval_does_not_lead_elsewhere(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    (tmp_path / "evil.sh").write_text("echo hello\n", encoding="utf-8")
    link = tmp_path / "link.sh"
    link.symlink_to("job.sh")
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request.operands[0].real)
        if len(asked) == 1:
            link.unlink()
            link.symlink_to("evil.sh")
        return len(asked) == 1

    reply = call("launch", script="link.sh")
    wait(agent([reply, "done"], launcher.tool(), approve=approve).arun("hi"))
    assert launcher.ran == [], "the content is the same, and the file is another one"
    assert asked == [str(tmp_path / "job.sh"), str(tmp_path / "evil.sh")]


def test_what_changes_between_the_record_of_the_start_and_the_start_is_noticed(tmp_path: Path) -> None:
    from dragoman.journal import MemoryJournal, order_faults

    launcher = Launcher(tmp_path)

    def change(look: int) -> None:
        # The first look is for the decision, the second right before the start is recorded, the third right after it.
        if look == 3:
            (tmp_path / "job.sh").write_text("echo evil\n", encoding="utf-8")

    launcher.before_look = change
    answers = iter([True, False])
    journal = MemoryJournal()
    made = agent([LAUNCH, "done"], launcher.tool(), approve=lambda request: next(answers), journal=journal)

    async def scenario() -> Any:
        result = await made.arun("hi")
        return result, await journal.read(result.run_id)

    result, records = wait(scenario())
    assert launcher.ran == []
    assert contents(result.results) == ["Denied by the user."]
    assert order_faults(records) == []


def test_arguments_that_are_changed_in_place_after_the_approval_are_noticed(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    (tmp_path / "evil.sh").write_text("evil", encoding="utf-8")
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(str(request.call.arguments["script"]))
        request.call.arguments["script"] = "evil.sh"
        return len(asked) == 1

    wait(agent([LAUNCH, "done"], launcher.tool(), approve=approve).arun("hi"))
    assert launcher.ran == []
    assert asked == ["job.sh", "evil.sh"]


def test_what_changes_again_and_again_is_given_up(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    count = 0

    def approve(request: ApprovalRequest) -> bool:
        nonlocal count
        count += 1
        (tmp_path / "job.sh").write_text(f"echo {count}\n", encoding="utf-8")
        return True

    result = wait(agent([LAUNCH, "done"], launcher.tool(), approve=approve).arun("hi"))
    assert (launcher.ran, count) == ([], 3)
    assert "changed again and again" in contents(result.results)[0]


def test_an_approval_is_used_once_and_two_equal_calls_are_two_questions(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return len(asked) == 1

    tool = launcher.tool(metadata={"duplicates": True})
    both = calls(LAUNCH, LAUNCH)
    result = wait(agent([both, "done"], tool, approve=approve).arun("hi"))
    assert contents(result.results) == ["ran job.sh", "Denied by the user."]
    first, second = asked
    assert first.call.arguments == second.call.arguments
    assert first.digest != second.digest and first.id != second.id


def test_an_approval_that_comes_after_its_time_is_a_denial(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    now = 1000.0

    def approve(request: ApprovalRequest) -> bool:
        nonlocal now
        assert request.expires == 1060.0
        now = 2000.0
        return True

    made = agent([LAUNCH, "done"], launcher.tool(), approve=approve, approval_seconds=60.0)
    made._safety.wall = lambda: now
    result = wait(made.arun("hi"))
    assert launcher.ran == []
    assert "the approval came too late" in contents(result.results)[0]
    assert "the user" not in contents(result.results)[0]


def test_an_approval_expires_while_its_call_waits_for_another(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    now = 1000.0

    def approve(request: ApprovalRequest) -> bool:
        nonlocal now
        if request.call.arguments["times"] == 2:
            now += 100.0
        return now < 1150.0

    made = agent(
        [calls(call("launch", script="job.sh", times=1), call("launch", script="job.sh", times=2)), "done"],
        launcher.tool(parallel_safe=True),
        approve=approve,
        approval_seconds=60.0,
    )
    made._safety.wall = lambda: now
    events: list[RunEvent] = []
    result = wait(made.arun("hi", on_event=events.append))
    # The question about the second call came too late itself; the first is asked about once more, and then allowed.
    assert contents(result.results)[1].startswith("Denied by default: the approval came too late")
    assert contents(result.results)[0] == "ran job.sh"
    asked = [event.call.arguments["times"] for event in events if isinstance(event, ApprovalNeeded)]
    assert asked == [1, 2, 1]


# ---- other answers than yes and no -----------------------------------------------------------------------------------


def test_edited_arguments_are_inspected_decided_and_bound_again(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    (tmp_path / "other.sh").write_text("other", encoding="utf-8")
    result = wait(
        agent(
            [LAUNCH, "done"],
            launcher.tool(),
            approve=lambda request: Approval(True, arguments={"script": "other.sh", "times": "2"}),
        ).arun("hi")
    )
    assert launcher.ran == ["other"]
    assert contents(result.results) == ["ran other.sh"]


def test_edited_arguments_that_a_rule_denies_do_not_run(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    (tmp_path / "evil.sh").write_text("evil", encoding="utf-8")
    result = wait(
        agent(
            [LAUNCH, "done"],
            launcher.tool(metadata={"class": "write", "family": "write"}),
            approve=lambda request: Approval(True, arguments={"script": "evil.sh"}),
            deny=["write(evil*)"],
        ).arun("hi")
    )
    assert launcher.ran == []
    assert contents(result.results)[0].startswith("Denied by policy")


def test_a_result_can_be_given_instead_of_running_the_call(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    result = wait(
        agent(
            [LAUNCH, "done"], launcher.tool(), approve=lambda request: Approval(True, result="I did it by hand.")
        ).arun("hi")
    )
    assert launcher.ran == []
    assert contents(result.results) == ["I did it by hand."]
    assert result.results[0].is_error is False


def test_an_approval_as_a_rule_holds_for_the_rest_of_the_run_and_no_longer(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> Approval:
        asked.append(request.suggestion)
        return Approval(True, rule=request.suggestion)

    made = agent([LAUNCH, LAUNCH, "done"] * 2, launcher.tool(), approve=approve)
    wait(made.arun("hi"))
    assert asked == ["launch"]
    assert len(launcher.ran) == 2
    wait(made.arun("again"))
    assert asked == ["launch", "launch"], "another run begins with the rules of the agent"


def test_a_rule_that_is_none_is_refused_and_the_call_runs_once(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    events: list[RunEvent] = []
    made = agent([LAUNCH, "done"], launcher.tool(), approve=lambda request: Approval(True, rule="launch("))
    result = wait(made.arun("hi", on_event=events.append))
    assert contents(result.results) == ["ran job.sh"]
    assert "rule_refused" in notices(events)


# ---- fault 50, and who is said to have denied ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("approve", "words"),
    [
        (lambda request: 1 / 0, "Denied by default: asking for approval failed (ZeroDivisionError)"),
        (lambda request: {}, "Denied by default: the approver returned dict, which is not an answer"),
        (lambda request: False, "Denied by the user."),
        (lambda request: "not today", "Denied by the user: not today"),
        (lambda request: Approval(False, "closed", by="the night watch"), "Denied by the night watch: closed"),
        (None, "Not run: this call needs approval, and nobody is there to give it."),
    ],
    ids=["raises", "garbage", "no", "no, because", "another one", "nobody"],
)
def test_50_a_denial_names_who_denied(approve: Any, words: str, tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    result = wait(agent([LAUNCH, "done"], launcher.tool(), approve=approve).arun("hi"))
    assert launcher.ran == []
    said = contents(result.results)[0]
    assert said.startswith(words)
    assert ("the user" in said) is words.startswith("Denied by the user")


def test_50_an_approver_that_hangs_is_a_denial_when_the_approval_would_have_expired(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)

    async def hang(request: ApprovalRequest) -> bool:
        await asyncio.Event().wait()
        return True

    made = agent([LAUNCH, "done"], launcher.tool(), approve=hang, approval_seconds=0.05, limits=Limits(seconds=20))
    result = wait(made.arun("hi"))
    assert result.outcome.kind == "answered"
    assert contents(result.results) == ["Denied by default: nobody answered in time"]


def test_without_an_approver_the_model_learns_how_the_call_could_be_allowed(tmp_path: Path) -> None:
    result = wait(agent([LAUNCH, "done"], Launcher(tmp_path).tool()).arun("hi"))
    assert "`auto_approve`" in contents(result.results)[0]


def test_an_inspection_that_fails_is_asked_about_whatever_allows_the_tool() -> None:
    def lose(arguments: Any, context: Any) -> Any:
        raise RuntimeError("the disk is gone")

    ran: list[str] = []
    tool = Tool("touch", "", {"type": "object", "properties": {}}, run=lambda: ran.append("x"), inspect=lose)
    result = wait(agent([call("touch"), "done"], tool, allow=["touch"], mode="bypass").arun("hi"))
    assert ran == []
    assert "nobody is there" in contents(result.results)[0]


def test_the_events_tell_the_decision_and_the_approval_with_the_same_digest(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    wait(agent([LAUNCH, "done"], Launcher(tmp_path).tool(), approve=lambda r: True).arun("hi", on_event=events.append))
    decided = next(event for event in events if isinstance(event, CallDecided))
    needed = next(event for event in events if isinstance(event, ApprovalNeeded))
    given_ = next(event for event in events if isinstance(event, ApprovalGiven))
    assert (decided.verdict, decided.code) == ("ask", "marked")
    assert needed.digest == given_.digest != "" and needed.request == given_.request
    assert needed.turn == decided.turn == 1


# ---- the digest ------------------------------------------------------------------------------------------------------

BOUND: dict[str, Any] = {
    "call": ToolCall("c1", "launch", {"a": 1}),
    "tool": Tool("launch", "Run.", {"type": "object"}),
    "operands": (Operand("path", "a", "run", "/w/a", identity="1:2", digest="ff"),),
    "run_id": "run_1",
    "request": "apr_1",
    "expires": 10.0,
    "rules": Rules("default", (Rule("allow", "x"),)),
    "workspace": "/w",
    "sandbox": "bubblewrap",
}
OTHERWISE: dict[str, Any] = {
    "another id": {"call": ToolCall("c2", "launch", {"a": 1})},
    "true for 1": {"call": ToolCall("c1", "launch", {"a": True})},
    "a text for 1": {"call": ToolCall("c1", "launch", {"a": "1"})},
    "a float for 1": {"call": ToolCall("c1", "launch", {"a": 1.0})},
    "another argument": {"call": ToolCall("c1", "launch", {"a": 1, "b": None})},
    "another description": {"tool": Tool("launch", "Run it all.", {"type": "object"})},
    "another pin": {"tool": Tool("launch", "Run.", {"type": "object"}, metadata={"pin": "x"})},
    "another inode": {"operands": (Operand("path", "a", "run", "/w/a", identity="1:3", digest="ff"),)},
    "another content": {"operands": (Operand("path", "a", "run", "/w/a", identity="1:2", digest="fe"),)},
    "another run": {"run_id": "run_2"},
    "another request": {"request": "apr_2"},
    "another time": {"expires": None},
    "another mode": {"rules": Rules("bypass", (Rule("allow", "x"),))},
    "another rule": {"rules": Rules("default", (Rule("deny", "x"),))},
    "another folder": {"workspace": "/v"},
    "no sandbox": {"sandbox": ""},
}


def digest(**changed: Any) -> str:
    bound = {**BOUND, **changed}
    return digest_call(bound.pop("call"), bound.pop("tool"), bound.pop("operands"), **bound)


@pytest.mark.parametrize("changed", OTHERWISE.values(), ids=OTHERWISE)
def test_the_digest_changes_with_everything_that_matters(changed: dict[str, Any]) -> None:
    assert digest(**changed) != digest()


def test_the_digest_stays_where_nothing_that_matters_changes() -> None:
    assert digest() == digest(call=ToolCall("c1", "launch", {"a": 1}, raw="<x>", repairs=("closed_wrapper",)))
    added = Rules("default", (Rule("allow", "x"), Rule("allow", "y", scope="session"), Rule("allow", "z")))
    assert digest(rules=added) == digest(), "one more rule that allows does not void what was approved"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def _typed(value: Any) -> Any:
    """A value that is equal to another only if they are the same JSON."""
    if isinstance(value, dict):
        return {"object": sorted((key, repr(_typed(inner))) for key, inner in value.items())}
    if isinstance(value, list):
        return ["array", *(_typed(inner) for inner in value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [type(value).__name__, value]


@given(JSON, JSON)
def test_values_have_the_same_canonical_form_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (repr(_typed(one)) == repr(_typed(other)))

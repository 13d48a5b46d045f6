"""Threats 5 to 9: calls whose arguments, names, sizes and ids are not what they seem."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from tests.security.attacks import raw_call, raw_calls, run_agent

import dragoman
from dragoman.agent import ApprovalRequest, Limits
from dragoman.testing import call, calls
from dragoman.tools import tool_from_schema
from dragoman.types import ToolCall


class PaymentTool:
    """A tool that records the arguments of each run."""

    def __init__(self, **options: Any) -> None:
        self.paid: list[dict[str, Any]] = []

        @dragoman.tool(**options)
        def pay(amount: int, to: str = "shop", receipt: bool = True, notes: dict[str, Any] | None = None) -> str:
            """Pay."""
            self.paid.append({"amount": amount, "to": to, "receipt": receipt, "notes": notes})
            return "paid"

        self.pay = pay


# ---- 5 ---------------------------------------------------------------------------------------------------------------

SMUGGLED = {
    "an argument that nobody declared": {"amount": 1, "admin": True},
    "one that hides behind an underscore": {"amount": 1, "__class__": "os.system"},
    "true for a number": {"amount": True},
    "a number for a switch": {"amount": 1, "receipt": 0},
    "a fraction for a whole number": {"amount": 1.5},
    "a list for a text": {"amount": 1, "to": ["shop", "mallory"]},
    "an object for a text": {"amount": 1, "to": {"name": "mallory"}},
    "nothing for what is needed": {"to": "shop"},
    "a number in other digits": {"amount": "１００"},
    "a sum": {"amount": "1 + 1"},
}


@pytest.mark.parametrize("arguments", SMUGGLED.values(), ids=SMUGGLED)
def test_threat_05_arguments_that_do_not_fit_their_schema_run_nothing(arguments: dict[str, Any]) -> None:
    payment = PaymentTool()
    outcome = run_agent([call("pay", arguments), "done"], payment.pay)
    assert payment.paid == []
    assert "Nothing was run." in outcome.told[0]


def test_threat_05_a_text_that_looks_like_json_stays_a_text() -> None:
    payment = PaymentTool()
    run_agent([call("pay", amount=1, to='{"name": "mallory"}'), "done"], payment.pay)
    assert payment.paid[0]["to"] == '{"name": "mallory"}'


@pytest.mark.parametrize(
    "arguments",
    [{"amount": "7"}, {"amount": 7, "notes": '{"a": {"b": "7"}}'}, {"amount": 7.0, "to": 5}],
    ids=["a number as text", "an object as text", "types that nearly fit"],
)
def test_threat_05_whoever_approves_sees_the_very_arguments_that_run(arguments: dict[str, Any]) -> None:
    payment = PaymentTool(requires_approval=True)
    seen: list[dict[str, Any]] = []

    def approve(request: ApprovalRequest) -> bool:
        seen.append(dict(request.call.arguments))
        return True

    run_agent([call("pay", arguments), "done"], payment.pay, approve=approve)
    (shown,), (ran,) = seen, payment.paid
    assert {name: (type(value), value) for name, value in shown.items()} == {
        name: (type(ran[name]), ran[name]) for name in shown
    }


# ---- 6 ---------------------------------------------------------------------------------------------------------------

LOOK_ALIKES = {
    "a": "аɑαａ", "c": "сϲｃ", "d": "ԁɗｄ", "e": "еҽｅ", "f": "ƒｆ", "i": "іɩｉ", "j": "јｊ", "l": "ӏⅼｌ",
    "n": "ոｎ", "o": "оοօｏ", "p": "рρｐ", "r": "гｒ", "s": "ѕſｓ", "t": "тｔ", "u": "υսｕ", "x": "хⅹｘ",
}  # fmt: skip
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2066\u034f\u180e\u0000\u001b\n\t"
NAMES = ("transfer", "delete_file", "export_data", "print_cost", "join_office")


def confusables() -> list[str]:
    """Names that look like those of the tools: one letter replaced, or something unseen put in."""
    found = []
    for name in NAMES:
        for place, letter in enumerate(name):
            found += [name[:place] + other + name[place + 1 :] for other in LOOK_ALIKES.get(letter, "")]
        found += [name[:3] + hidden + name[3:] for hidden in INVISIBLE]
        found += [name + "\u0301", f" {name}\u00a0"]
    return found


def test_threat_06_names_that_look_alike_run_nothing_and_are_not_guessed() -> None:
    ran: list[str] = []
    tools = [
        tool_from_schema(name, {"type": "object"}, lambda name=name: ran.append(name), description="Acts.")
        for name in NAMES
    ]
    tried = confusables()
    assert len(tried) >= 200
    for first in range(0, len(tried), 60):
        batch = tried[first : first + 60]
        outcome = run_agent([calls(*(ToolCall("", name, {}) for name in batch)), "done"], *tools)
        assert ran == [], [name for name in batch if unicodedata.normalize("NFKC", name) in ran]
        assert len(outcome.told) == len(batch)
        assert all("There is no tool named" in told for told in outcome.told)


def test_threat_06_a_letter_that_only_folds_to_another_is_not_that_one() -> None:
    ran: list[str] = []
    tool = tool_from_schema("task", {"type": "object"}, lambda: ran.append("task"), description="Acts.")
    run_agent([call("tas\N{KELVIN SIGN}"), "done"], tool)
    assert ran == []


def test_threat_06_two_tools_that_differ_in_case_alone_are_never_taken_for_each_other() -> None:
    ran: list[str] = []

    @dragoman.tool(name="read_file")
    def harmless() -> str:
        """Reads."""
        ran.append("harmless")
        return ""

    @dragoman.tool(name="readFile", requires_approval=True)
    def dangerous() -> str:
        """Reads all."""
        ran.append("dangerous")
        return ""

    outcome = run_agent(
        [calls(call("READ_FILE"), call("Read-File"), call("functions.readfile")), "done"], harmless, dangerous
    )
    assert ran == []
    assert all("There is no tool named" in told for told in outcome.told)
    run_agent([calls(call("read_file"), call("readFile")), "done"], harmless, dangerous)
    assert ran == ["harmless"], "each is found under its own name, and the other is still asked about"


# ---- 7 ---------------------------------------------------------------------------------------------------------------

DISPUTED = {
    "a key twice": '{"amount": 1, "to": "shop", "to": "mallory"}',
    "a key twice, once in escapes": '{"amount": 1, "to": "shop", "t\\u006f": "mallory"}',
    "a key twice, deep": '{"amount": 1, "notes": {"a": 1, "a": 2}}',
    "not a number": '{"amount": NaN}',
    "infinity": '{"amount": 1, "notes": {"a": -Infinity}}',
    "more than a float holds": '{"amount": 1, "notes": {"a": 1e999}}',
    "half a character": '{"amount": 1, "to": "\\ud800"}',
    "5000 digits": '{"amount": ' + "9" * 5000 + "}",
    "a second value": '{"amount": 1} {"amount": 1000}',
}


@pytest.mark.parametrize("written", DISPUTED.values(), ids=DISPUTED)
def test_threat_07_json_that_two_parsers_read_differently_is_not_run(written: str) -> None:
    payment = PaymentTool()
    outcome = run_agent([raw_call("pay", written), "done"], payment.pay)
    assert payment.paid == []
    assert outcome.result.results[0].is_error and "Nothing was run." in outcome.told[0]


# ---- 8 ---------------------------------------------------------------------------------------------------------------

_DEEP = 100_000
HUGE = {
    "nested deep": '{"amount": 1, "notes": ' + '{"a":' * _DEEP + "1" + "}" * _DEEP + "}",
    "nested deep and not closed": '{"amount": 1, "notes": ' + "[" * _DEEP,
    "210,000 keys": '{"amount": 1, "notes": {' + ",".join(f'"{key}":0' for key in range(210_000)) + "}}",
    "quotes and backslashes": '{"amount": 1, "to": "' + '\\"' * 200_000,
    "brackets that never close": '{"amount": 1, "to": ' + "[{" * 100_000 + '"',
}


@pytest.mark.parametrize("written", HUGE.values(), ids=HUGE)
def test_threat_08_deep_and_huge_arguments_are_an_error_and_no_crash(written: str) -> None:
    payment = PaymentTool()
    outcome = run_agent([raw_call("pay", written), "done"], payment.pay)
    assert payment.paid == []
    assert outcome.result.outcome.kind == "answered"
    assert outcome.result.results[0].is_error and len(outcome.told[0]) < 2000, "the model is not sent all of it back"


def test_threat_08_a_flood_of_calls_is_refused_as_a_whole() -> None:
    payment = PaymentTool()
    outcome = run_agent([calls(*(call("pay", amount=n) for n in range(500))), "done"], payment.pay)
    assert payment.paid == []
    assert Limits().calls_per_turn == 64
    assert len(outcome.told) == 500 and all("64" in told for told in outcome.told)


@pytest.mark.parametrize(
    "text",
    ["<tool_call>" * 5_000, "<tool_call>{" * 1_000, "[TOOL_CALLS][" * 10_000, "```json\n{" * 10_000, "<" * 200_000],
    ids=["openers", "open objects", "mistral", "fences", "brackets"],
)
def test_threat_08_text_that_keeps_beginning_calls_ends_the_turn_like_any_other(text: str) -> None:
    payment = PaymentTool()
    outcome = run_agent([text, *["done"] * 5], payment.pay, native=False)
    assert payment.paid == []
    assert outcome.result.outcome.kind in ("answered", "mistakes")


DOUBLED = {
    "allOf": lambda ref: {"allOf": [{"properties": {"a": ref}}, {"properties": {"a": ref}}]},
    "anyOf": lambda ref: {"anyOf": [{"properties": {"a": ref}, "required": [n]} for n in ("b", "c")]},
    "patternProperties": lambda ref: {"patternProperties": {"^a": ref, "a$": ref}},
}


@pytest.mark.parametrize("way", DOUBLED)
def test_threat_08_a_schema_that_doubles_does_not_keep_the_validator_busy(way: str) -> None:
    levels = 25
    definitions = {f"d{n}": DOUBLED[way]({"$ref": f"#/$defs/d{n + 1}"}) for n in range(levels)}
    definitions[f"d{levels}"] = {"type": "string"}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    ran: list[Any] = []
    pay = tool_from_schema("pay", schema, lambda **given: ran.append(given), description="Pay.")
    value: Any = "s"
    for _ in range(levels):
        value = {"a": value}
    outcome = run_agent([call("pay", x=value), "done"], pay)
    assert "cannot be checked" in outcome.told[0]
    assert ran == []


# ---- 9 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("identity", ["same", "", None, "x" * 10_000, "../../c1\n"], ids=repr)
def test_threat_09_calls_with_one_id_or_none_are_each_run_and_answered_once(identity: str | None) -> None:
    payment = PaymentTool()
    written = [("pay", f'{{"amount": {amount}}}', identity) for amount in (1, 2)]
    outcome = run_agent([raw_calls(*written), "done"], payment.pay)
    assert [each["amount"] for each in payment.paid] == [1, 2]
    made = [each.id for each in outcome.result.calls]
    assert len(set(made)) == 2
    assert [each.call_id for each in outcome.result.results] == made
    body = outcome.model.bodies[-1]["messages"]
    asked = [each["id"] for message in body for each in message.get("tool_calls", ())]
    assert asked == [message["tool_call_id"] for message in body if message["role"] == "tool"]
    assert len(set(asked)) == 2


def test_threat_09_an_approval_of_one_call_does_not_hold_for_another_with_its_id() -> None:
    payment = PaymentTool(requires_approval=True)
    seen: list[str] = []

    def approve(request: ApprovalRequest) -> bool:
        seen.append(request.digest)
        return request.call.arguments["amount"] == 1

    run_agent([raw_calls(("pay", '{"amount": 1}', "same"), ("pay", '{"amount": 1000}', "same")), "done"], payment.pay,
         approve=approve)  # fmt: skip
    assert [each["amount"] for each in payment.paid] == [1]
    assert len(set(seen)) == 2


def test_threat_09_the_id_of_an_earlier_turn_is_not_reused() -> None:
    payment = PaymentTool()
    outcome = run_agent([raw_call("pay", '{"amount": 1}'), raw_call("pay", '{"amount": 2}'), "done"], payment.pay)
    assert len({each.id for each in outcome.result.calls}) == 2

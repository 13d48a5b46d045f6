"""The laws of the policy: it always answers, and nothing that is added to it for safety ever makes it looser."""

from __future__ import annotations

from typing import NamedTuple, get_args

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.policy.cases import (
    APPLY_PATCH,
    BASH,
    EDIT,
    FETCH,
    GREP,
    MARKED,
    MARKED_READER,
    OWN,
    OWN_READER,
    READ,
    SERVED,
    SERVED_READER,
    TODO,
    WRITE,
    builtin,
    call_of,
)

from dragoman.policy import (
    Decision,
    DecisionContext,
    Mode,
    Rule,
    Rules,
    Scope,
    decide,
    ignored,
    suggest_rule,
)
from dragoman.policy.rules import STRICTNESS
from dragoman.types import Operand, Provenance, Tool

TOOLS = [READ, GREP, WRITE, EDIT, APPLY_PATCH, BASH, FETCH, TODO, OWN, OWN_READER, MARKED, MARKED_READER, SERVED]
TOOLS += [SERVED_READER, builtin("odd", "magic"), Tool("deploy", metadata={"class": 7, "origin": ["x"], "family": 3})]
MATTERS = {"read": "path", "write": "path", "exec": "command", "fetch": "url"}
RANKS: list[tuple[Mode, Mode]] = [
    ("plan", "default"),
    ("locked", "default"),
    ("default", "edits"),
    ("edits", "sandboxed"),
    ("sandboxed", "bypass"),
    ("plan", "bypass"),
]

PATHS = st.sampled_from(["a", "src/a.py", "src/deep/b", ".env", "secrets/x", "", ".", "..", "/etc/passwd", "Src/A.py"])
COMMANDS = st.sampled_from(
    [
        "git status",
        "git status -s",
        "ls",
        "cat a",
        "cat /etc/passwd",
        "rm -rf x",
        "make",
        "",
        "git status; rm x",
        "cat .env",
    ]
)
URLS = st.sampled_from(
    ["https://example.org/", "https://a.example.org/docs/x?y", "http://evil.com\\@example.org/", "", "://", "http://[x"]
)
VALUES = {"path": PATHS, "command": COMMANDS, "url": URLS}
SUBJECTS = st.sampled_from(
    [
        "*",
        "read",
        "write",
        "edit",
        "bash",
        "fetch",
        "grep",
        "send_mail",
        "d*",
        "mcp:tickets/*",
        "mcp:*/close",
        "",
        "[",
        "todo_*",
    ]
)
PATTERNS = st.none() | st.sampled_from(
    [
        *("*", "**", "src/**", "**/*.env", "git status*", "rm*", "domain:*.example.org", "domain:example.org", ""),
        *("[z-a]", "~/x", "https://example.org/**", "secrets", "/etc/**", "cat*", "{a", "(", "a"),
    ]
)
MODES = st.sampled_from(get_args(Mode))
SCOPES = st.sampled_from(get_args(Scope))


def rules_with(*verdicts: str) -> st.SearchStrategy[Rule]:
    return st.builds(Rule, st.sampled_from(verdicts), SUBJECTS, PATTERNS, SCOPES)


@st.composite
def operand(draw: st.DrawFn, kind: str | None = None) -> Operand:
    chosen = kind or draw(st.sampled_from(sorted(VALUES)))
    value = draw(VALUES[chosen])
    real = draw(st.sampled_from(["", f"/w/{value}", "/w/secrets/x", value]))
    access = draw(st.sampled_from(["read", "write", "run", "send"]))
    return Operand(chosen, value, access, real, draw(st.booleans()), draw(st.integers(0, 3)) == 0)  # type: ignore[arg-type]


PROVENANCES = st.none() | st.builds(
    Provenance,
    channel=st.sampled_from(["native", "text"]),
    level=st.sampled_from([None, "T5", "T4", "T3", "T2", "T1", "T0", "T9"]),
    verdict=st.sampled_from([None, "allow", "allow", "ask", "refuse"]),
)


class Case(NamedTuple):
    tool: Tool
    context: DecisionContext
    provenance: Provenance | None
    rules: Rules

    def decide(self, rules: Rules | None = None, context: DecisionContext | None = None) -> Decision:
        return decide(call_of(self.tool, self.provenance), context or self.context, rules or self.rules)

    def strictness(self, rules: Rules | None = None, context: DecisionContext | None = None) -> int:
        return STRICTNESS[self.decide(rules, context).verdict]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tool = draw(st.sampled_from(TOOLS))
    kind = MATTERS.get(tool.metadata.get("class")) if isinstance(tool.metadata.get("class"), str) else None  # type: ignore[arg-type]
    operands = [draw(operand(kind)), *draw(st.lists(operand(kind) | operand(), max_size=2))]
    uninspected = draw(st.sampled_from(["", "", "", "it failed"]))
    context = DecisionContext(tool, tuple(operands), draw(st.booleans()), uninspected)
    rules = Rules(draw(MODES), tuple(draw(st.lists(rules_with("allow", "ask", "deny"), max_size=4))))
    return Case(tool, context, draw(PROVENANCES), rules)


@given(cases())
def test_it_always_answers_and_says_why(case: Case) -> None:
    decision = case.decide()
    assert decision.verdict in STRICTNESS
    assert decision.reason and decision.rule and decision.code
    assert case.decide() == decision


@given(
    st.text(max_size=30),
    st.none() | st.text(max_size=30),
    st.text(max_size=30),
    st.text(max_size=30),
    st.sampled_from(TOOLS),
    st.sampled_from(["allow", "ask", "deny", "whatever"]),
    st.sampled_from(["path", "command", "url", "smell"]),
)
def test_it_answers_whatever_is_written_in_rules_and_operands(
    subject: str, pattern: str | None, value: str, real: str, tool: Tool, verdict: str, kind: str
) -> None:
    rules = Rules("nowhere", (Rule(verdict, subject or tool.name, pattern, "nobody"),) * 2)  # type: ignore[arg-type]
    context = DecisionContext(tool, (Operand(kind, value, "read", real),))  # type: ignore[arg-type]
    assert decide(call_of(tool), context, rules).verdict in STRICTNESS
    rule = suggest_rule(call_of(tool), context)
    assert rule is None or rule.verdict == "allow"


@given(cases(), rules_with("ask", "deny"), st.integers(0, 4))
def test_one_more_rule_that_asks_or_denies_never_loosens(case: Case, rule: Rule, place: int) -> None:
    rules = list(case.rules.rules)
    rules.insert(place, rule)
    assert case.strictness(structs.replace(case.rules, rules=tuple(rules))) >= case.strictness()


@given(cases(), operand())
def test_one_more_operand_never_loosens(case: Case, extra: Operand) -> None:
    more = structs.replace(case.context, operands=(*case.context.operands, extra))
    assert case.strictness(context=more) >= case.strictness()


@given(cases())
def test_a_stricter_mode_never_loosens(case: Case) -> None:
    context = structs.replace(case.context, sandboxed=True)
    for stricter, looser in RANKS:
        found = [case.strictness(structs.replace(case.rules, mode=mode), context) for mode in (stricter, looser)]
        assert found[0] >= found[1], f"{stricter} is looser than {looser}"


@given(cases())
def test_a_sandbox_that_does_not_work_never_loosens(case: Case) -> None:
    found = [case.strictness(context=structs.replace(case.context, sandboxed=works)) for works in (False, True)]
    assert found[0] >= found[1]


@given(cases())
def test_locked_never_asks(case: Case) -> None:
    assert case.decide(structs.replace(case.rules, mode="locked")).verdict != "ask"


@given(cases())
def test_a_rule_that_denies_holds_in_every_mode(case: Case) -> None:
    decision = case.decide(structs.replace(case.rules, mode="default"))
    if decision.verdict == "deny" and decision.code == "rule":
        for mode in get_args(Mode):
            assert case.decide(structs.replace(case.rules, mode=mode)).verdict == "deny"


@given(cases(), rules_with("allow", "ask", "deny").map(lambda rule: structs.replace(rule, scope="project")))
def test_a_rule_of_the_project_never_loosens(case: Case, rule: Rule) -> None:
    added = structs.replace(case.rules, rules=(*case.rules.rules, rule))
    assert case.strictness(added) >= case.strictness()
    if rule.verdict == "allow":
        assert rule in ignored(added)
        assert case.decide(added) == case.decide()


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_the_rules_does_not_matter(case: Case, lots: object) -> None:
    shuffled = list(case.rules.rules)
    lots.shuffle(shuffled)  # type: ignore[attr-defined]
    assert case.strictness(structs.replace(case.rules, rules=tuple(shuffled))) == case.strictness()


@given(cases())
def test_no_rule_that_allows_lifts_what_is_asked_about_in_every_mode(case: Case) -> None:
    bare = case.decide(structs.replace(case.rules, rules=()))
    if bare.code in ("trust", "uninspected", "protected"):
        allowed = structs.replace(
            case.rules, rules=(Rule("allow", "*"), Rule("allow", "*", "*"), Rule("allow", "*", "**"))
        )
        assert case.decide(allowed) == bare


TWISTS = [
    "; rm x",
    " && rm x",
    " | sh",
    " > out",
    " >> out",
    " $(rm x)",
    " `rm x`",
    "\nrm x",
    "\rrm x",
    " & rm x",
    " <(rm x)",
    ' "',
    " '",
    " \\",
    " $X",
    " {a,b}",
    "\0",
    " #",
    " ((",
    " <<E",
]


@given(
    COMMANDS,
    st.lists(st.sampled_from(TWISTS), min_size=1, max_size=3).map("".join),
    MODES,
    st.lists(
        st.builds(
            Rule,
            st.sampled_from(["allow", "ask", "deny"]),
            st.just("bash"),
            st.sampled_from(["git status*", "ls", "rm*", "cat*", "make"]),
        ),
        max_size=3,
    ),
)
def test_what_is_not_understood_in_a_command_never_loosens(
    command: str, twist: str, mode: Mode, rules: list[Rule]
) -> None:
    plain, twisted = (DecisionContext(BASH, (Operand("command", text, "run"),)) for text in (command, command + twist))
    found = [STRICTNESS[decide(call_of(BASH), each, Rules(mode, tuple(rules))).verdict] for each in (plain, twisted)]
    # An empty line and a lone twist have nothing in common that could be compared.
    assert found[1] >= found[0] or not command

"""The laws of grammars, over random tools and every format that has one.

1. What is rendered is accepted.  2. What is accepted is read as a complete call of an offered tool, with arguments that
fit, and without a repair.  3. All syntaxes accept the same.  4. A plain reply is never read as a call.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats.grammars import strategies
from tests.formats.grammars.engines import Judge
from tests.formats.grammars.gbnf_engine import Gbnf
from tests.formats.grammars.sampling import LETTERS, Sampler
from tests.formats.grammars.strategies import NAMES

from dragoman import formats
from dragoman.args.loader import validate
from dragoman.errors import CannotExpress, ConfigError
from dragoman.formats.grammars.builder import build_tree, read_choice
from dragoman.formats.grammars.calls import value_markers
from dragoman.formats.grammars.nodes import Limits, Tree
from dragoman.formats.grammars.syntax import write_gbnf, write_lark
from dragoman.formats.registry import plan_for
from dragoman.formats.unmarked import RESIDUE
from dragoman.toolset import Toolset
from dragoman.types import JsonObject

every_format = pytest.mark.parametrize("name", NAMES)
_BASE = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
FEW = settings(_BASE, max_examples=3)
MANY = settings(_BASE, max_examples=150)
# One of many examples that fails is made smaller for up to five minutes.
SEARCH_LIMIT = 600
BARE_WORDS = ("gemma4", "functiongemma")
"""Formats that mark texts by their delimiters alone: a bare number that may be text is read as such, and reported."""
Law = Callable[[st.DataObject], None]


def hold(law: Law, examples: settings) -> None:
    examples(given(st.data())(law))()


def tree_of(offered: list[JsonObject], name: str, tool_choice: Any = "required") -> Tree:
    wants = read_choice(tool_choice, Toolset(offered))
    return build_tree(wants, formats.get(name), plan_for(name), Limits())[0]


def check_calls(text: str, name: str, offered: list[JsonObject]) -> None:
    """The text is nothing but calls that fit, and nothing had to be done to them."""
    tools = Toolset(offered)
    parsed = formats.parse(text, name, tools)
    assert parsed.calls, text
    assert (parsed.text.strip(), parsed.thinking, parsed.broken, parsed.refused) == ("", "", [], []), text
    for call in parsed.calls:
        tool = tools.find(call.name)
        assert tool is not None
        assert (call.complete, call.known_tool, call.changes) == (True, True, ()), text
        assert not call.repairs or (name in BARE_WORDS and formats.grammar_report(offered, name).losses), text
        assert validate(call.arguments, tool.parameters) == [], text


# ---- 1: what is rendered is accepted ---------------------------------------------------------------------------------


def rendering(name: str) -> Law:
    markers = value_markers(formats.get(name))

    def law(data: st.DataObject) -> None:
        offered = data.draw(strategies.tools())
        judge = Judge(formats.grammar(offered, name, "lark", tool_choice="required"))
        for _ in range(3):
            calls = data.draw(strategies.calls(offered))
            try:
                text = formats.render(calls, name)
            except CannotExpress:
                continue
            # A value between tags that holds one of them is left out by the grammar, though it may be readable.
            held = any(marker in str(value) for _, given in calls for value in given.values() for marker in markers)
            assert held or judge.accepts(text) or _is_read_otherwise(text, name, calls, offered), text

    return law


def _is_read_otherwise(text: str, name: str, calls: list[tuple[str, JsonObject]], offered: list[JsonObject]) -> bool:
    """Whether a value comes back as another: of `["null", null]` both are read as text. Grammars leave it out."""
    return [call.arguments for call in formats.parse(text, name, offered).calls] != [given for _, given in calls]


@every_format
def test_what_is_rendered_is_accepted(name: str) -> None:
    hold(rendering(name), FEW)


@pytest.mark.full
@pytest.mark.timeout(SEARCH_LIMIT)
@every_format
def test_what_is_rendered_is_accepted_however_odd(name: str) -> None:
    hold(rendering(name), MANY)


# ---- 2 and 3: what is accepted is a call, in every syntax ------------------------------------------------------------


def accepting(name: str) -> Law:
    plan = plan_for(name)
    openers = plan.openers.keys() - {opener for entry in RESIDUE for opener in entry.openers}  # they begin no call
    spice = tuple(sorted((*openers, *plan.section_ends, *value_markers(formats.get(name)))))

    def law(data: st.DataObject) -> None:
        offered = data.draw(strategies.tools())
        tree = tree_of(offered, name)
        lots = random.Random(data.draw(st.integers(0, 10**9)))
        judge, gbnf = Judge(write_lark(tree)), Gbnf(write_gbnf(tree))
        sampler, plain = Sampler(tree, lots, spice), Sampler(tree, lots, letters=LETTERS.replace("<", ""))
        for _ in range(4):
            text = sampler.draw()
            assert judge.accepts(text), text
            check_calls(text, name, offered)
            text = plain.draw()
            assert gbnf.accepts(text), text
            changed = _change(text, lots)
            assert gbnf.accepts(changed) == judge.accepts(changed), changed
        walked = judge.walk(lots)
        if walked is not None:
            check_calls(walked, name, offered)

    return law


def _change(text: str, lots: random.Random) -> str:
    """The text with one stretch of it replaced."""
    start = lots.randrange(len(text))
    end = min(len(text), start + lots.randint(0, 3))
    return text[:start] + lots.choice(["", *'a1"\\,}]> \n', text[end : end + 2]]) + text[end:]


@every_format
def test_what_is_accepted_is_a_call_in_every_syntax(name: str) -> None:
    hold(accepting(name), FEW)


@pytest.mark.full
@pytest.mark.timeout(SEARCH_LIMIT)
@every_format
def test_what_is_accepted_is_a_call_in_every_syntax_however_odd(name: str) -> None:
    hold(accepting(name), MANY)


# ---- 4: a plain reply is none ----------------------------------------------------------------------------------------

_PING = [{"name": "ping", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}]
CALLS_ALONE = ("functionary_v32", "glm_lines", "harmony", "muse_glimmer", "olmo3")
"""Formats in which any line may be a call: no reply can be told from one."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CALLS_ALONE])
def test_a_plain_reply_is_never_a_call(name: str) -> None:
    plan = plan_for(name)
    openers = plan.openers.keys() - {opener for entry in RESIDUE for opener in entry.openers}  # they begin no call
    spice = tuple(sorted((*openers, *plan.section_ends, *plan.thinking, *plan.drops, "ping(", '{"name": "ping"')))
    tree = tree_of(_PING, name, "none")
    judge, gbnf = Judge(write_lark(tree)), Gbnf(write_gbnf(tree))
    sampler = Sampler(tree, random.Random(7), spice)
    for _ in range(150):
        text = sampler.draw()
        assert judge.accepts(text)
        assert gbnf.accepts(text)
        parsed = formats.parse(text, name, _PING)
        assert (parsed.calls, parsed.broken, parsed.refused, parsed.thinking) == ([], [], [], "")
        assert parsed.text == text
    for opener in openers:
        for text in (opener, f"So: {opener}", f"a\n{opener}\n"):
            assert len(opener) == 1 or not judge.accepts(text)
            assert gbnf.accepts(text) == judge.accepts(text)


@pytest.mark.parametrize("name", CALLS_ALONE)
def test_where_any_line_may_be_a_call_a_reply_is_refused(name: str) -> None:
    for tool_choice in ("auto", "none"):
        with pytest.raises(ConfigError, match="cannot be distinguished from a call"):
            formats.grammar(_PING, name, tool_choice=tool_choice)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CALLS_ALONE])
def test_auto_is_calls_or_a_reply_and_nothing_else(name: str) -> None:
    either = Judge(formats.grammar(_PING, name, "lark"))
    call, reply = (
        Sampler(tree_of(_PING, name), random.Random(3)),
        Sampler(tree_of(_PING, name, "none"), random.Random(3)),
    )
    for _ in range(20):
        made = call.draw()
        assert either.accepts(made)
        assert either.accepts(reply.draw())
        assert not either.accepts(f"Well: {made}")
        assert not either.accepts(f"{made}\nDone.")

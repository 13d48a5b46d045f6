"""Laws: whatever a line holds, it is read; and more in a line never makes it look like less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.policy.pieces import BEGINNINGS, ENDINGS, PIECES, SPELLINGS, STARTS
from tests.tables import each_row

from dragoman.policy.shell import allows, find_changed, mentions, read_command, read_only, scripts, suggest

PATTERNS = st.sampled_from(
    ["git status*", "git status", "git status:*", "git *", "*", "rm*", "", "a*b", "$x", "./x*", "a; b"]
)
HOSTILE = st.lists(st.sampled_from(sorted({*PIECES, *SPELLINGS, *BEGINNINGS, *ENDINGS, *STARTS})), max_size=8).map(
    "".join
)
TEXTS = st.one_of(st.text(), HOSTILE, st.text(alphabet=" '\"\\$`;|&<>(){}[]*?~!#\n\r\tab=-", max_size=60))
# Each of these, anywhere in a line, means that bash does something beside running plain words.
COMPLEX = st.sampled_from(
    ["$(evil)", "`evil`", "\nevil\n", "\r", "\0", "<(evil)", ";evil;", "&evil;", "|evil|", "\u2028", "$x", "\u00a0"]
)


@given(TEXTS, PATTERNS)
def test_every_text_is_read_and_answered(text: str, pattern: str) -> None:
    line = read_command(text)
    assert line.understood == (not line.why) == (not line.faults)
    assert all(len(command.marks) == len(command.words) for command in line.commands)
    assert isinstance(allows(pattern, text), bool)
    assert isinstance(mentions(pattern, text), bool)
    assert isinstance(scripts(text), tuple)
    assert all(find_changed(text) or ())
    answer = read_only(text)
    assert answer.verdict == (not answer.why)


@given(TEXTS, TEXTS)
def test_any_text_may_be_a_pattern(pattern: str, text: str) -> None:
    assert not (allows(pattern, text) and not read_command(text).understood)
    assert isinstance(mentions(pattern, text), bool)


@given(HOSTILE, PATTERNS)
def test_what_is_allowed_is_mentioned(text: str, pattern: str) -> None:
    """A line that an allow rule covers is one that the same rule, as a deny rule, would stop."""
    assert not allows(pattern, text) or mentions(pattern, text)


@given(HOSTILE, PATTERNS)
def test_what_is_offered_covers_the_line_and_needs_it_understood(text: str, pattern: str) -> None:
    offered = suggest(text)
    assert offered is None or (read_command(text).understood and allows(offered, text))


@given(st.sampled_from(STARTS), COMPLEX, st.data())
def test_complexity_anywhere_outside_quotes_is_never_allowed(start: str, extra: str, data: st.DataObject) -> None:
    line = "git status -s && git status"
    place = data.draw(st.integers(0, len(line)))
    text = line[:place] + extra + line[place:]
    assert not allows("git status*", text)
    assert extra == "$x" or not read_only(text).verdict


@given(HOSTILE, st.sampled_from(["; ", " && ", " | ", " || ", "\n", " & "]), HOSTILE)
def test_a_longer_line_is_allowed_only_if_a_rule_would_allow_its_own_commands(one: str, joint: str, two: str) -> None:
    text = one + joint + two
    if allows("git status*", text):
        assert all(command.words[:2] == ("git", "status") for command in read_command(text).commands)


@given(st.sampled_from(["rm x", "ls; rm x", "sudo rm x", "sh -c 'rm x'", "$X y", "echo $(rm x)"]), st.data())
def test_what_is_around_a_forbidden_command_does_not_hide_it(text: str, data: st.DataObject) -> None:
    before = data.draw(
        st.sampled_from(
            ["", "ls; ", "ls && ", "ls\n", "A=1; ", "if ls; then ", "(", "{ ", "$(", "! ", "time ", "ls & "]
        )
    )
    after = data.draw(
        st.sampled_from(["", "; ls", " && ls", "\nls", "; fi", ")", "; }", " | cat", " > y", " 2>&1", " # z", " &"])
    )
    assert mentions("rm*", before + text + after)


@each_row(
    "unit",
    [
    "a ", "'a' ", "a;", "a|", "$(", "`", '"$x" ', "{a,b} ", "(", "\\", "a=b ", "<", "2>&1 ", "sh -c ", "xargs ",
    "sudo ", "rm", "[", "~", "*", "s/a/b/;", "sed -n p;", "$'", '$"', "git ", "env 'sh -c ", "-exec {} ", "case ",
    "\n", "../", "cd a;", "tee x;", "--a ",
    "> a ", "rm a\n", "sudo rm a ",
],
)  # fmt: skip
def test_a_huge_line_is_answered(unit: str) -> None:
    """40,000 characters: a way of reading that looks back at what it has read would not come to an end here."""
    text = "git status " + unit * (40_000 // len(unit))
    assert not allows("zz*", text)
    assert isinstance(mentions("zz*", text), bool)
    assert isinstance(read_only(text).verdict, bool)
    assert isinstance(scripts(text), tuple)
    assert all(find_changed(text) or ())

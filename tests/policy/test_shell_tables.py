"""The tables of programs: what is in them is known in every spelling, and everything else is not."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.policy.shell import allows, mentions, read_only
from dragoman.policy.shell.builders import BUILDERS
from dragoman.policy.shell.readers import READERS
from dragoman.policy.shell.repositories import REPOSITORIES
from dragoman.policy.shell.rows import Option, Row

EVERY: dict[str, Row] = {**READERS, **REPOSITORIES, **BUILDERS}
READING = {name: row for name, row in EVERY.items() if not row.acts and name != "cd"}
ACTING = {name: row for name, row in EVERY.items() if row.acts}
STRICT = [name for name, row in EVERY.items() if row.style != "text" and name != "cd"]
"""The names of commands whose words are not simply text."""

SAMPLES = {
    "clock": "+%F", "columns": "pid,comm", "key": "user.name", "sed": "1p", "awk": "{print}", "jq": ".", "number": "3",
    "item": "12", "term": "term", "printf": "%s", "order": "rss,-pid", "merges": "m", "processes": "1,2",
}  # fmt: skip


def sample(kind: str) -> str:
    return SAMPLES.get(kind, "abc")


def quote(word: str) -> str:
    return f"'{word}'"


def spellings(name: str, option: Option, row: Row) -> Iterator[str]:
    """Every way to write an option with its values."""
    values = [quote(sample(kind)) for kind in option.kinds]
    is_letter = not name.startswith("--") and row.style not in ("words", "early")
    if not values or option.is_optional:
        yield name
    if values and not option.is_optional:
        yield " ".join((name, *values))
    if values and not (is_letter and row.is_apart):
        yield " ".join((f"{name}{values[0]}" if is_letter else f"{name}={values[0]}", *values[1:]))


def operands(row: Row, given: set[str], is_replaced: bool = False) -> str:
    if row.listing and row.listing.isdisjoint(given):
        return ""
    return " ".join(quote(sample(kind)) for kind in row.operands[is_replaced:])


def known_lines(name: str, row: Row) -> Iterator[str]:
    """A line for each spelling of each option in a row."""
    yield f"{name} {operands(row, set())}"
    for option, details in row.options.items():
        if "!" not in details.traits:
            for spelled in spellings(option, details, row):
                yield f"{name} {spelled} {operands(row, {option}, '#' in details.traits)}"


def unknown_options(row: Row) -> Iterator[str]:
    """Options that are not in a row: other letters, alone and in bundles, and long options that only look known."""
    letters = [letter for letter in string.ascii_letters + string.digits if f"-{letter}" not in row.options]
    switches = [option[1] for option, details in row.options.items() if len(option) == 2 and not details.kinds]
    yield from (f"-{letter}" for letter in letters if not (row.numbers and letter.isdigit()))
    if row.style == "gnu" and switches:
        yield from (f"-{switches[0]}{letter}x" for letter in letters)
    for option, details in row.options.items():
        if option.startswith("--"):
            yield from (short for short in (option[:-1], f"{option}x") if short not in row.options and len(short) > 3)
            yield from (f"{option}=x",) if not details.kinds else ()
    yield from ("--zz-unknown", "--zz-unknown=x", "-\u00e9", "---", "-=")


@each_row("name", READING)
def test_everything_in_the_row_of_a_reader_is_known(name: str) -> None:
    for line in known_lines(name, READING[name]):
        assert read_only(line).why == "", line


@each_row("name", ACTING)
def test_everything_in_the_row_of_another_program_is_covered_by_a_star_and_never_read_only(name: str) -> None:
    for line in known_lines(name, ACTING[name]):
        assert allows(f"{name} *", line), line
        assert not read_only(line).verdict, line


@each_row("name", STRICT)
def test_everything_that_is_not_in_a_row_is_not_known(name: str) -> None:
    row, tried = EVERY[name], 0
    for option in unknown_options(row):
        line = f"{name} {option} {operands(row, set())}"
        assert not read_only(line).verdict, line
        assert not allows(f"{name} *", line), line
        assert not allows(f"{name.partition(' ')[0]} *", line), line
        tried += 1
    assert tried > 5


@each_row("name", [name for name, row in READING.items() if row.options])
@each_row("path", ["/etc/passwd", "../x", "a/../../x", "~/x"])
def test_every_value_that_is_a_file_is_seen(name: str, path: str) -> None:
    row = READING[name]
    for option, details in row.options.items():
        for index, kind in enumerate(details.kinds):
            if kind not in ("read", "search", "tree", "source"):
                continue
            values = [path if place == index else sample(other) for place, other in enumerate(details.kinds)]
            is_letter = not option.startswith("--") and row.style == "gnu"
            joined = f"{option}{'' if is_letter else '='}{values[0]}"
            for written in ([option, *values], [joined, *values[1:]]):
                found = read_only(f"{name} {' '.join(written)} {operands(row, {option}, '#' in details.traits)}")
                assert not found.verdict or found.leaves, (name, written)


@each_row("name", [name for name, row in READING.items() if row.rest in ("read", "search", "source")])
@each_row("path", ["/etc/passwd", "../x", "a/../../x", "~/x", "/proc/self/environ"])
def test_every_operand_that_is_a_file_is_seen(name: str, path: str) -> None:
    row = READING[name]
    needed = next(iter(sorted(row.listing)), "")
    for line in (
        f"{name} {needed} {operands(row, {needed})} {path}",
        f"{name} {needed} {operands(row, {needed})} a -- {path}",
    ):
        found = read_only(line)
        assert not found.verdict or found.leaves, line


# What the manuals say about writing, running and reading something else; each has been harmless to some list.
DOING_MORE = [
    "sort -o x", "sort --output=x", "sort --compress-program=x", "sort --files0-from=x", "sort -T x", "uniq x y",
    "shuf -o x", "shuf --output=x", "iconv -o x", "tree -o x", "tree -R", "tree --fromfile x", "diff -l a b",
    "diff --paginate a b", "file -C", "file -z x", "file -Z x", "file -p x", "file -m x y", "file -f x", "file -S x",
    "find . -exec x", "find . -execdir x", "find . -ok x", "find . -okdir x", "find . -delete", "find . -fprint x",
    "find . -fprint0 x", "find . -fprintf x y", "find . -fls x", "find . -files0-from x", "find -L .", "find . -follow",
    "find -D exec .", "rg --pre x y", "rg --hostname-bin x y", "rg -z y", "rg -L y", "rg --follow y", "fd -x x",
    "fd -X x", "fd -l", "fd -L", "fd --base-directory x y", "fd --search-path x y", "date -s x", "date --set=x",
    "date -f x", "date --file=x", "date 1", "hostname x", "hostname -F x", "hostname -b", "xxd -r x", "xxd x y",
    "printf -v x y", "printf %n x", "test -v x", "[ -v x ]", "wc --files0-from=x", "du --files0-from=x", "du -L",
    "md5sum -c x", "sha256sum --check x", "cksum --check x", "strings @x", "jq -f x", "jq -L x y",
    "jq -n 'import \"a\" as b; 1'",
    "jq --from-file x", "hexdump -f x y", "sed -f x y", "sed -i p y", "sed -n 'w x' y", "sed e y", "sed 's/a/b/e' y",
    "sed --follow-symlinks -i p y", "sed 'r /etc/passwd' y", "sed 'R x' y", "ps e", "ps axe", "ps eww", "ps -o args",
    "ps -o command", "ps -O args", "ps --format cmd", "ps o args", "ls -L x", "ls --dereference x", "tail --unknown x",
    "git diff --output=x", "git diff --ext-diff", "git diff --textconv", "git diff --no-index a b", "git diff -Ox",
    "git diff --submodule=log", "git log --ext-diff", "git log --show-signature", "git log --remerge-diff",
    "git log --format=%GK", "git grep -Ox y", "git grep -nOx y", "git grep --open-files-in-pager=x y",
    "git grep --no-index x", "git grep --textconv x", "git grep --recurse-submodules x",
    "git ls-files --recurse-submodules",
    "git cat-file --textconv x", "git cat-file --filters x", "git branch x", "git branch -d x", "git branch -m x",
    "git branch -f x", "git branch -u x", "git branch --edit-description", "git branch --unset-upstream", "git tag x",
    "git tag -d x", "git tag -v x", "git tag -F x", "git remote show origin", "git remote add a b", "git remote update",
    "git reflog expire", "git reflog delete x", "git stash", "git stash drop", "git stash clear", "git worktree add x",
    "git worktree prune", "git config a.b c", "git config --unset a.b", "git config --edit", "git config -f x -l",
    "git config --blob x -l", "git config --get include.path", "git describe --dirty", "git describe --broken",
    "git rev-parse --parseopt", "git status --unknown", "git -c a=b log", "git --git-dir=x log",
    "git --work-tree=x log",
    "git -p log", "git --paginate log", "git --exec-path=x log", "git --config-env=a=b log", "git ls-remote x",
    "git archive HEAD", "git bundle create x", "git fsck", "git gc", "git help log", "git log --help", "git bisect log",
    "git log --format --output=x", "git log --date --output=x", "git diff --stat-count --output=x", "git grep -e -Ox y",
    "tree -Io x y", "tree -Lo 2 y", "ps -ue", "ps -e -u nobody", "ps -pe", "rg -e --pre=x y", "fd -e -x y",
    "iconv -f/etc/passwd x", "iconv -f ../x y", "iconv --to-code=/etc/passwd x", "date -d 'TZ=\":/etc/passwd\" now'",
    "date --date='TZ=\"../x\" now'", "find . -newermt 'TZ=\":/etc/passwd\" now'", "git log --diff-merges=remerge",
    "git show --diff-merges=r", "git shortlog --group=format:%G?", "git branch --sort=signature",
    "git for-each-ref --sort=-signature:grade", "strings -T x y", "git notes", "git rerere", "git difftool",
    "git submodule status", "git fetch", "git shortlog --output=x",
]  # fmt: skip


@each_row("line", DOING_MORE)
def test_what_the_manuals_call_more_than_reading_is_not_read_only(line: str) -> None:
    assert not read_only(line).verdict


# ---- laws ---------------------------------------------------------------------------------------------------------

HARMLESS = st.sampled_from([line for name, row in READING.items() for line in known_lines(name, row)])
OTHER = st.sampled_from(["rm x", "make", "git push", "sort -o x y", "ls --zz", "python x.py", "cat /etc/passwd", "ls"])
UNKNOWN = st.one_of(
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=8).map(lambda name: f"--zz{name}"),
    st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=8).map(lambda name: f"--zz{name}=x"),
)
JOINTS = st.sampled_from(["; ", " && ", " || ", " | ", "\n"])


@given(st.sampled_from(STRICT), st.data())
def test_an_unknown_option_never_leaves_a_command_harmless(name: str, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(list(known_lines(name, EVERY[name]))))
    option = data.draw(UNKNOWN)
    longer = line.replace(name, f"{name} {option}", 1)
    assert not read_only(longer).verdict
    assert not allows(f"{name} *", longer)


@given(HARMLESS, JOINTS, st.one_of(HARMLESS, OTHER))
def test_a_line_is_harmless_only_if_each_part_is(one: str, joint: str, two: str) -> None:
    for first, second in ((one, two), (two, one)):
        joined, parts = read_only(first + joint + second), (read_only(first), read_only(second))
        assert joined.verdict == all(part.verdict for part in parts)
        assert not joined.verdict or joined.leaves == any(part.leaves for part in parts)


@given(HARMLESS, JOINTS, st.sampled_from(["cat ../x", "ls ..", "git -C .. log", "grep -rx y ..", "wc -l < ../x"]))
def test_no_company_hides_that_a_line_leaves_its_folder(one: str, joint: str, two: str) -> None:
    assert read_only(one + joint + two).leaves
    assert read_only(two + joint + one).leaves


@given(st.sampled_from(["cd a", "cd ./a", "cd -P a"]), st.lists(JOINTS, min_size=1, max_size=4))
def test_a_folder_that_may_not_be_current_does_not_excuse_a_path(cd: str, joints: list[str]) -> None:
    """Only after `&&` alone the `cd` has succeeded. Otherwise it may have failed, or have changed a subshell only."""
    line = cd + "".join(f"{joint}ls" for joint in joints[1:]) + f"{joints[0]}cat ../x"
    assert read_only(line).verdict
    after = [*joints[1:], joints[0]]
    is_certain = after[0] == " && " and set(after) <= {" && ", " | "}
    assert read_only(line).leaves is not is_certain


@given(HARMLESS, JOINTS)
def test_a_deny_rule_finds_what_is_beside_a_harmless_command(line: str, joint: str) -> None:
    assert mentions("rm*", f"{line}{joint}rm x")
    assert mentions("rm*", f"rm x{joint}{line}")
    program = re.split(r"\s", line, maxsplit=1)[0]
    assert mentions(program, line) and mentions(f"{program}*", f"ls{joint}{line}")


@given(HARMLESS)
def test_what_is_read_only_needs_no_rule_and_a_star_covers_it(line: str) -> None:
    """A star is not stricter than the mode: what is allowed without a rule is allowed with one."""
    found = read_only(line)
    name = next(name for name in sorted(READING, key=len, reverse=True) if f"{line} ".startswith(f"{name} "))
    assert found.leaves or allows(f"{name} *", line)

"""No line that runs without approval does more than the analysis says: real programs run it, and strace records them.

The lines are made from the help and the manual pages of the programs, so they contain options that our tables do not
know. A line that needs an approval is never run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest
from tests.policy.generated_lines import Generator, IsHarmless, Line, find_commands, find_options
from tests.policy.tracing import SEARCH_PATH, Scratch, run_traced

from dragoman import builtin
from dragoman.policy import DecisionContext, Rules, decide
from dragoman.tools import ToolContext
from dragoman.types import ToolCall

pytestmark = [
    pytest.mark.needs("bwrap", package="bubblewrap"),
    pytest.mark.needs("strace", package="strace"),
    pytest.mark.needs("git", package="git"),
]

MOST_RUNS = 700
"""Of the generated lines, in each full test."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    made = Scratch(tmp_path_factory.mktemp("scratch") / "home")
    made.fill()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.home))
        patch.setenv("PATH", SEARCH_PATH)
        yield made


@pytest.fixture(scope="module")
def is_harmless(scratch: Scratch) -> IsHarmless:
    """Whether a line runs without approval in mode `default`."""

    def judge(line: str) -> bool:
        assert builtin.Bash.inspect is not None
        operands = tuple(builtin.Bash.inspect({"command": line}, ToolContext(workspace=str(scratch.workspace))))
        call = ToolCall("c", "bash", {"command": line})
        return decide(call, DecisionContext(builtin.Bash, operands), Rules("default")).verdict == "allow"

    return judge


def find_violations(scratch: Scratch, lines: Iterable[Line]) -> list[str]:
    """Run harmless lines; returns those that did more, with what they did."""
    found: list[str] = []
    before = scratch.picture()
    for line in lines:
        traced = run_traced(scratch, line.text, line.programs)
        deeds = list(traced.deeds)
        if scratch.picture() != before:
            deeds.append("files changed")
            scratch.refill()
            before = scratch.picture()
        if deeds:
            found.append(f"{line.text!r}: {'; '.join(deeds[:4])}")
    return found


# ---- the box -------------------------------------------------------------------------------------------------------

HARMFUL = {
    "cat ../secret.txt": "reads: ",
    "cat link-out": "reads: ",
    "cd nonexist; cat ../secret.txt": "reads: ",
    "cat /etc/machine-id": "reads: ",
    "test -e ../secret.txt": "looks at: ",
    "ls ..": "reads: ",
    "touch new": "writes: ",
    "rm a.txt": "changes: unlink",
    "chmod 600 a.txt": "changes: fchmod",
    "mkdir made": "changes: mkdir",
    "ln -s a.txt made": "changes: symlink",
    "touch -d yesterday a.txt": "changes: utime",
    "echo x > /tmp/made": "writes: ",
    "./run.sh": "runs: ",
    "env ls": "runs: ",
    "kill -0 1": "signals: ",
    "echo > /dev/tcp/127.0.0.1/9": "reaches: ",
    "ps axeww": "prints: ",
}


@pytest.mark.parametrize("line", HARMFUL)
def test_the_box_records_what_a_line_does(scratch: Scratch, line: str) -> None:
    traced = run_traced(scratch, line, ("cat", "ls", "ps", "touch", "rm", "chmod", "mkdir", "ln", "env"))
    if not line.startswith("env"):
        assert any(deed.startswith(HARMFUL[line]) for deed in traced.deeds), traced
    scratch.refill()


def test_the_box_has_no_complaint_about_reading(scratch: Scratch) -> None:
    line = (
        "cat a.txt | sort | uniq -c; ls -la; git status; git log -p; grep -rn one .; id; date; find . -name x; wc a.txt"
    )
    programs = ("cat", "sort", "uniq", "ls", "git", "grep", "id", "date", "find", "wc")

    assert run_traced(scratch, line, programs).deeds == ()


# ---- fixed lines ---------------------------------------------------------------------------------------------------

FIXED = """
cat a.txt
cat link-in
cat link-out
cat sub/link-up
cat folder-out/secret.txt
cat folder-in/c.py
cat folder-out/../secret.txt
cat folder-in/../a.txt
cat broken
cat 'with blank.txt'
cat -- -n
cat *
cat *.txt
cat l*
cat */*
cat {a,b}.txt
cat $HOME/secret.txt
cat ~/secret.txt
cat ../secret.txt
cat sub/../../secret.txt
cat /etc/hostname
cat < link-out
cat a.txt - < b.txt
cat $(ls)
cd sub; cat c.py
cd sub && cat ../a.txt
cd sub; cat ../secret.txt
cd nonexist; cat ../secret.txt
false && cd sub; cat ../secret.txt
cd sub | cat ../secret.txt
cd sub & cat ../secret.txt
(cd sub); cat ../secret.txt
cd folder-out && cat secret.txt
cd folder-in && cat ../a.txt
cd -P folder-in/deep && cat ../../a.txt
cd sub && cd - && cat ../secret.txt
cd .. && ls
cd; ls
ls -la
ls -lR
ls -L folder-out
ls -H folder-out
ls folder-out/
ls -d */
head -n 2 a.txt
head -n2 link-out
tail -n 2 a.txt b.txt
tail --pid=1 a.txt
wc -l a.txt
wc --files0-from=names0.txt
wc --files0-from names0.txt
sort a.txt
sort -u a.txt b.txt
sort -o new.txt a.txt
sort --output=new.txt a.txt
sort -T sub a.txt
sort --files0-from=names0.txt
sort --random-source=link-out -R a.txt
sort --compress-program=./run.sh a.txt
sort -m a.txt b.txt
uniq a.txt
uniq a.txt new.txt
cut -d, -f1 table.csv
tr a-z A-Z < a.txt
nl a.txt
tac a.txt
comm a.txt b.txt
join a.txt b.txt
paste a.txt b.txt
od -c a.txt
xxd a.txt
xxd a.txt new.txt
xxd sub -colsmain
xxd -r a.txt
hexdump -C a.txt
hexdump -f names.txt a.txt
base64 a.txt
md5sum a.txt
md5sum -c sums.txt
sha256sum --check sums.txt
cksum a.txt
shuf a.txt
shuf -o new.txt a.txt
split a.txt
file a.txt
file -p a.txt
file -f names.txt
file -m names.txt a.txt
stat a.txt
stat -L link-out
readlink -f link-in
realpath a.txt
du -a .
du --files0-from=names0.txt
du -X names.txt .
df .
diff a.txt b.txt
diff --from-file=link-out a.txt
diff -r sub folder-out
cmp a.txt b.txt
date
date -f dates.txt
date --file=link-out
date -r link-out
date -s 2020-01-01
date -d 'TZ="Europe/Berlin" now'
date -d 'TZ=":../secret.txt" now'
date --date='TZ="../../../../../../etc/shadow" now'
iconv -f utf8 -t ascii a.txt
iconv -f ../secret.txt a.txt
iconv a.txt --to-code ../secret.txt
grep one a.txt
grep -rn one .
grep -Rn one .
grep -f names.txt a.txt
grep -f link-out a.txt
grep --file=../secret.txt a.txt
grep --include-from=names.txt one a.txt
egrep 'one|two' a.txt
find . -name '*.py'
find . -newer link-out
find -L . -name '*.txt'
find . -files0-from names0.txt
find -files0-from names0.txt
find . -fprint new.txt
find . -exec cat {} +
find . -delete
rg one
rg -f names.txt
rg --follow one
rg --pre ./run.sh one
rg --ignore-file link-out one
sed -n 1,2p a.txt
sed 's/one/two/' a.txt
sed -i s/one/two/ a.txt
sed -n 'r ../secret.txt' a.txt
sed 'w new.txt' a.txt
sed 's/one/touch was-run/e' a.txt
sed -f program.sed a.txt
awk '{print $1}' a.txt
awk '{print > "new.txt"}' a.txt
awk 'BEGIN{getline x < "../secret.txt"; print x}'
awk 'BEGIN{system("touch was-run")}'
jq .a data.json
jq 'import "a" as $d {search: "../"}; $d' data.json
jq -n 'include "module"; f'
jq --slurpfile x link-out . data.json
jq -L .. 'include "secret"; .' data.json
tree
tree -o new.txt
tree --fromfile names.txt
ps
ps aux
ps eww
ps axe
ps -o pid,cmd e
env
printenv
which git
which sub/../../secret.txt
type ls
test -f a.txt && echo yes
[ -f ../secret.txt ]
test -v 'a[$(touch was-run)]'
printf -v 'a[$(touch was-run)]' x
echo hello
echo hello > new.txt
hostname
id
uname -a
git status
git diff
git diff a.txt
git diff --stat HEAD~1
git diff --no-index a.txt link-out
git diff --no-index a.txt ../secret.txt
git diff --output=new.txt
git log -p --stat
git log -Oorder.txt
git log -O../secret.txt
git log --remerge-diff
git log --diff-merges=remerge
git show --diff-merges=r HEAD
git show HEAD:a.txt
git show --ext-diff
git blame a.txt
git blame --contents=../secret.txt a.txt
git blame --ignore-revs-file=../secret.txt a.txt
git annotate -S ../secret.txt a.txt
git grep one
git grep -f ../secret.txt
git grep --no-index one ..
git grep -O./run.sh one
git ls-files
git ls-files -X ../secret.txt -o
git ls-files --exclude-from=../secret.txt -o
git rev-parse --show-superproject-working-tree
git cat-file -p HEAD
git config --list
git config --file ../secret.txt --list
git config --get user.name
git branch
git branch new
git tag -l
git stash list
git shortlog -s HEAD
git archive HEAD
git -C .. status
git -C sub status
git --git-dir=.git log
git check-ignore -v old.log
git for-each-ref
git range-diff v1 main
""".strip().split("\n")
_PROGRAMS = tuple(sorted({line.split()[0] for line in FIXED} | {"grep", "git", "ls", "cat"}))


def test_fixed_lines_do_what_the_analysis_says(scratch: Scratch, is_harmless: IsHarmless) -> None:
    harmless = [Line(line, _PROGRAMS) for line in FIXED if is_harmless(line)]

    assert 50 <= len(harmless) <= len(FIXED) - 50, "both kinds have to be there"
    assert find_violations(scratch, harmless) == []


# ---- generated lines -----------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.timeout(850)
@pytest.mark.parametrize("kind", ["options", "scripts", "structures"])
def test_generated_lines_do_what_the_analysis_says(
    scratch: Scratch, is_harmless: IsHarmless, pytestconfig: pytest.Config, kind: str
) -> None:
    seed = pytestconfig.getoption("--hypothesis-seed") or 0
    commands = find_commands(scratch, is_harmless)
    options = {each: find_options(scratch, each) for each in commands}
    generator = Generator(scratch, random.Random(f"{seed} {kind}"), options)
    counts = {"options": 2, "scripts": 15, "structures": 4000}
    lines = {line.text: line for line in getattr(generator, kind)(counts[kind])}
    harmless = [line for line in lines.values() if is_harmless(line.text)]
    generator.random.shuffle(harmless)

    assert len(commands) > 40 and len(harmless) > 100
    assert find_violations(scratch, harmless[:MOST_RUNS]) == []

"""Which command lines only read, and where they read."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import each_row

from dragoman.policy.shell import read_only

READS = [
    "ls", "ls -la 2>/dev/null", "ls 2>&1", "ls *.py", "ls src/*.py | wc -l", "cat a b", "cat $HOME/x", 'cat "$FILE"',
    "cat ~/x", "cat < a", "head -n 5 a", "tail -20 a", "wc -l a", "grep -rn 'a|b' src", 'grep -E "foo|bar" lib/',
    "rg -n 'x' -g '*.py'", "find . -name '*.py'", "find . -type f | sort | uniq -c | sort -rn | head",
    "sed -n '1,20p' a", "sed 's/a/b/g' a", "sed -e 's|/usr|/opt|' -ne p a", "sort -u a", "uniq -c a", "diff a b",
    "tree -L 2", "stat a", "file a", "date", "date +%s", "date -d yesterday", "hostname", "hostname -f", "echo hello",
    "printf '%s\\n' a", "pwd", "which python", "command -v git", "type ls", "true", "test -f a && cat a",
    "[ -f a ] || ls", "git status", "git diff HEAD~1 -- a", "git log --oneline -5", "git show HEAD:a", "git branch",
    "git branch -a", "git branch --list 'x*'", "git tag -l", "git remote -v", "git config --get user.name",
    "git stash list", "git -C sub status", "git --no-pager log", "git reflog", "git blame a", "git grep x",
    "git rev-parse HEAD", "git worktree list", "git ls-files", "gh pr view 252", "gh issue list", "gh run view 1",
    "cd /p && gh pr view 252", "cd src && ls", "python --version", "node --version", "LC_ALL=C sort a", "jq .a b.json",
    "ls # a comment", "ls\npwd\n", "cat a; cat b", "du -sh .", "id", "uname -a", "cut -d: -f1 a", "tr a b < c",
    "base64 a", "sha256sum a", "ls >/dev/null 2>&1", "sed", "awk '{print}' a", "awk '{print $1, $NF}' a",
    "awk -F: '{print $1}' a", "awk '$3 > 100' a", "awk '{if ($3 >= 5) print $1}' a", "awk 'NR==5' a",
    "awk 'NR<=5 {print FILENAME}' a",
    "awk '/foo|>bar/ {n++} END {print n}' a",
    "ls | awk '{s+=$5} END {print s/1024}'", "awk -F'\t' '$3 ~ /x/' a", "awk 'length($0) < 80' a", "ps -e", "ps -p 1",
    "jq '.import_a' b", "git log -5 --format='%h %an' -- src", "git log -n5 -p", "git log -Sfoo --stat=80",
    "tail +5 a", "ls -lahtr --color=auto", "grep -rnIE --include='*.py' -A3 x .", "rg -tpy -A3 -uu x src",
    "find . -maxdepth 2 -not -path '*/.git/*' -size +10k -printf '%p\\n'", "find . \\( -name a -o -name b \\) -print0",
    "git branch -vv", "git branch -a --contains HEAD", "git diff --cached --stat", "git rev-parse --abbrev-ref HEAD",
]  # fmt: skip

DOES_MORE = [
    "", "rm -rf foo", "echo hi >> out.txt", "echo hi > out", "git commit -m wip", "sed -i s/a/b/ f", "sed -n -i p f",
    "sed 's/a/b/w x' f", "sed 's/a/b/e' f", "sed '1e rm x' f", "sed 'w x' f", "sed -f x f", "sed --in-place s/a/b/ f",
    "sed -ni p f", "sed p *", "cd /tmp && rm -rf foo", "cat $(rm -rf x)", "cat `rm x`", 'cat "$(rm x)"',
    "cat <(rm x)", "sort -o out.txt in.txt", "sort -oout in", "sort --output=x y", "sort --outp x y", "sort -uo x y",
    "sort --compress-program=evil x", "sort $X", "sort *", "sort {-o,x} y", "some_unknown_binary --flag",
    "find . -exec rm {} +", "find . -execdir rm {} +", "find . -ok rm {} +", "find . -delete", "find . -fprint x",
    "find . -fls x", "find . -fprintf x y", "find *", "find $X", "xargs ls", "ls | xargs rm", "env",
    "env ls", "tar tf x", "curl x", "wget x", "less a", "more a", "man ls", "tee x", "ls | tee x", "yes", "vi a",
    "python x.py", "python -c 1", "node x.js", "bash x", "sh -c ls", "eval ls", "exec ls", "source x", ". x",
    "sudo ls", "time ls", "nohup ls", "date -s x", "date --set=x", "date 11150000", "hostname x", "hostname -F x",
    "file -C -m x", "uniq a b", "uniq a*", "xxd a b", "xxd -r a", "shuf -o x a", "iconv -o x a", "tree -o x",
    "diff -l a b", "rg --pre evil x", "rg --pre=evil x", "rg -z x", "fd -x rm", "printf -v a b",
    "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm)]' ]", "git", "git push", "git pull", "git fetch", "git checkout x",
    "git add .", "git stash", "git stash pop", "git reset", "git branch x", "git branch -D x", "git branch -m a b",
    "git branch --list -D x", "git branch --set-upstream-to=x", "git tag v1", "git tag -d v1",
    "git config user.name x", "git config --unset x", "git config --get x --add y z", "git diff --output=x",
    "git diff --outp=x", "git log --output x", "git show --ext-diff", "git -c core.pager=evil log",
    "git --exec-path=x log", "git --git-dir=x log", "git -p log", "git grep -Oevil x",
    "git grep --open-files-in-pager=evil x", "git cat-file --textconv x", "git cat-file --filters x",
    "git remote add x y", "git remote remove x", "git reflog expire", "git worktree add x", "git ls-remote ext::x",
    "git log $X", "git log *", "git help log", "gh pr create", "gh pr merge 1", "gh api x", "gh pr view --web",
    "gh pr view -w", "gh pr view 1 --we", "gh api user", "gh search users x",
    "git log --submodule=diff", "git diff --submodule", "yarn --version", "pnpm --version", "cargo --version",
    "rustc --version", "pytest --version",
    "gh auth token", "gh", "gh pr", "gh pr view $X", "A=1 ls", "PATH=/evil ls", "LD_PRELOAD=x ls",
    "GIT_EXTERNAL_DIFF=x git diff", "LC_ALL=../x ls", "PATH=/evil; ls", "A=1", "> x", ">x ls", "ls 2>x", "ls &>x",
    "ls >&x", "ls >|x", "ls <>x", "ls 3>&1", "cat </dev/tcp/a/80", "cat <<E\nx\nE", "cat <<<x", "ls &", "ls & rm x",
    "(ls)", "{ ls; }", "if ls; then ls; fi", "! ls", "ls\rrm x", "ls\0rm", "ls\u00a0x", "ls 'x", "ls \\\n rm", "l* x",
    "$X", "~/ls", "./ls", "/bin/ls", "command ls", "command -v 'a b'", "ls !x", "python --version x", "bash -V",
    "ls $((x))", "ls ${x:=y}", "ls $'x'",
    # options that are not known, in every spelling
    "ls --unknown", "git grep -nO'cmd' x", "git grep -nOcmd x", "git grep --open x", "git log --outp=x", "ls --al",
    "sort --files0-from=x", "wc --files0-from=x", "du --files0-from=x", "date --file=x", "date -f x", "date -fx",
    "git diff --no-index a /etc/passwd", "gh pr view 1 --rep a/b", "gh pr view 1 --hostname evil.example",
    "gh pr list --state", "gh pr list --label -R", "jq -f x y", "jq 'import \"x\" as $a; $a'",
    "jq 'include \"x\"; .'", "md5sum -c x",
    "sha256sum --check x", "file -f x", "file -m x y", "strings @x", "ps e", "ps eww", "ps aux", "ps auxe",
    "ps -o args", "ps -eo pid,command", "ps -E", "git log --show-signature", "git log --format=%G?",
    "git for-each-ref '--format=%(signature)'", "git cat-file -p --textconv x", "git show --remerge-diff",
    "git config --get http.extraheader", "git config --file /x --list", "git config -f x -l", "git var -l",
    "find -L . -name x", "find . -files0-from x", "rg -L x", "tree -l", "fd -l x", "ls -L", "uniq -c a b", "xxd a b",
    "tail --pid=1 --unknown a", "printf '%n' x", "printf -v x y", "test -R x", "[ -v x ]", "rg --search-zip x",
    "rg -f=/etc/passwd x", "sort -T /x a", "column --unknown a", "iconv --output=x a", "hexdump -f x y",
    "git branch x --sort=a", "git branch -v x", "git tag x --sort=a", "git stash show --unknown",
    "git describe --dirty", "git log -O/etc/passwd", "env", "printenv", "cat -x a", "head --lin=5 a",
    # programs of awk that write, run or read something else
    "awk -f x y", "awk 'BEGIN{system(\"x\")}'", "awk '{print > \"x\"}' a", "awk '{print | \"x\"}' a",
    "awk '{\"x\" | getline}' a", "awk 'BEGIN{getline < \"/etc/passwd\"; print}'", "awk 'BEGIN{ARGV[1]=\"x\"}' a",
    "awk 'BEGIN{print ENVIRON[\"x\"]}'", "awk '{print a++ /x > \"f\"/ 1}' a", "awk 'x == /\"/ {print > \"f\"; /\"/}' a",
    "awk '@load \"x\"; {print}' a", "awk -i inplace '{print}' a", "awk 'function f(x) {system(x)}' a",
    "awk '{print length /x/ > \"f\"}' a", "awk -v x=1 -f y z", "gawk -o '{print}' a",
    "awk '{printf \"%s\", $1 > \"x\"}' a",
    "awk '{close(\"x\")}' a", "awk 'if (x) /\"/; print > \"f\" /\"/' a", "awk 'BEGIN{printf \"a\" |& \"b\"}'",
    "awk '{print(1) > \"x\"}' a", "awk '{print (1)(2) >= \"x\"}' a", "awk '}{print > \"x\"' a",
    "awk '{print \"}\" > \"x\"}' a",
    "awk '{print /}/ > \"x\"}' a", "awk 'BEGIN{if (1) print > \"x\"}'", "awk '{print \"(\" > \"x\"}' a",
    "awk '{print ) > \"x\"}' a", "awk 'BEGIN{for(print 1 > \"x\";0;);}'", "awk '{for(;0;printf \"a\" >\"x\") n++}' a",
    "awk 'BEGIN{extension (\"./x.so\", \"f\")}'",
]  # fmt: skip

PLACES = {
    "ls": ((), False),
    "cat a b/c": (("a", "b/c"), False),
    "cat ./a/../b": (("./a/../b",), False),
    "cat ../x": (("../x",), True),
    "cat a/../../x": (("a/../../x",), True),
    "cat /etc/passwd": (("/etc/passwd",), True),
    "cat ~/x": (("~/x",), True),
    "cat $X": (("$X",), True),
    "cat < /etc/passwd": (("/etc/passwd",), True),
    "head -n 5 a": (("a",), False),
    "grep -n /x a": (("a",), False),
    "grep -e /x a": (("a",), False),
    "grep -f /etc/passwd a": (("/etc/passwd", "a"), True),
    "grep -f/etc/passwd a": (("/etc/passwd", "a"), True),
    "grep -nf/etc/passwd a": (("/etc/passwd", "a"), True),
    "grep --file=/etc/passwd a": (("/etc/passwd", "a"), True),
    "date -r /etc/passwd": (("/etc/passwd",), True),
    "git blame --contents=/etc/passwd a": (("/etc/passwd", "a"), True),
    "jq --rawfile a /etc/passwd -n '$a'": (("/etc/passwd",), True),
    "diff --from-file=/etc/passwd a": (("/etc/passwd", "a"), True),
    "echo /etc": ((), False),
    "echo /etc/*": (("/etc/*",), True),
    "echo $X/etc/*": (("$X/etc/*",), True),
    "echo {/etc,x}/*": (("{/etc,x}/*",), True),
    "printf '%s' $X/etc/*": (("$X/etc/*",), True),
    "true '/etc/*'; echo $_": ((), True),
    "echo ${_}": ((), True),
    "echo $BASH_COMMAND ' /etc/* '": ((), True),
    "echo $X $_x": ((), False),
    "basename -a /etc/*": (("/etc/*",), True),
    "dirname src/*": (("src/*",), False),
    "cd /etc/pass*": ((), True),
    "cd src && cat ../a": (("../a",), False),
    "cd src && cat ../../a": (("../../a",), True),
    "cd .. && ls": ((), True),
    "cd && ls": ((), True),
    "cd - && ls": ((), True),
    "cd $X && ls": ((), True),
    "cd /p && cat a": (("a",), True),
    "cd /p && ls": ((), True),
    "cd /p && git status": ((), True),
    "cd /p && grep -r x": ((), True),
    "cd /p && gh pr view 252": ((), False),
    "gh pr diff 12 --name-only": ((), False),
    "gh issue list --state open --limit 20 --json number,title": ((), False),
    "gh issue list --label=bug": ((), False),
    "gh pr view #12 --comments": ((), False),
    "gh repo view": ((), False),
    "gh run view 1 --log-failed": ((), False),
    "gh pr view -R evil.example/a/b": ((), True),
    "gh pr view 1 --repo=a/b": ((), True),
    "gh pr view 1 -Ra/b": ((), True),
    "gh pr view https://github.com/a/b/pull/1": ((), True),
    "gh pr view some-branch": ((), True),
    "gh pr list --search repo:a/b": ((), True),
    "gh pr list --author a/b": ((), True),
    "gh repo view a/b": ((), True),
    "gh repo list": ((), True),
    "gh search code secret": ((), True),
    "gh gist view 1": ((), True),
    "gh gist list": ((), True),
    "gh release view v1": ((), True),
    "gh run view ١": ((), True),
    "git -C .. status": ((), True),
    "git -C sub status": ((), False),
    "git diff a /etc/passwd": (("a", "/etc/passwd"), True),
    "git log origin/main": (("origin/main",), False),
    "git config --get user.name": (("user.name",), False),
    "git config --list": ((), True),
    "git config --global --get user.name": (("user.name",), True),
    "cd out; grep -d recurse x": ((), False),
    "cd /p; grep -d recurse x": ((), True),
    "cat a </dev/null": (("a",), False),
    "grep x a /dev/null": (("a",), False),
    "ps -f": ((), True),
    "ps -e -o pid,comm": ((), False),
    "sed -n 1p ../x": (("../x",), True),
    "find / -name x": (("/",), True),
    "ls -": ((), False),
    # Every folder that may be current counts: a `cd` may fail, or not be run at all.
    "cd a && cat ../x": (("../x",), False),
    "cd a && ls && cat ../x": (("../x",), False),
    "cd a; cat ../x": (("../x",), True),
    "cd a\ncat ../x": (("../x",), True),
    "cd a || cat ../x": (("../x",), True),
    "false && cd a; cat ../x": (("../x",), True),
    "true || cd a; cat ../x": (("../x",), True),
    "true || cd a && cat ../x": (("../x",), True),
    "cd a && false || cat ../x": (("../x",), True),
    "cd a && cd b || cat ../../x": (("../../x",), True),
    "cd a | cat ../x": (("../x",), True),
    "cd a | true; cat ../x": (("../x",), True),
    "true | cd a && cat ../x": (("../x",), True),
    "cd a && cat x | head -1 ../y": (("x", "../y"), False),
    "cd a/b && cd .. && cat ../x": (("../x",), False),
    "cd /a; cat x": (("x",), True),
    "cd .. ; cd a; cat x": (("x",), True),
    "cd a && git -C .. log": ((), False),
    "cd a; git -C .. log": ((), True),
    "git -C a -C ../.. log": ((), True),
    "cd a; cat < ../x": (("../x",), True),
}


@each_row("text", READS)
def test_a_line_that_changes_nothing_is_known_as_such(text: str) -> None:
    assert read_only(text).why == ""
    assert read_only(text).verdict


@each_row("text", DOES_MORE)
def test_a_line_that_does_more_or_might_is_not(text: str) -> None:
    assert not read_only(text).verdict
    assert read_only(text).why


@each_row("text", PLACES)
def test_where_a_line_reads(text: str) -> None:
    answer = read_only(text)
    assert answer.verdict
    assert (answer.paths, answer.leaves) == PLACES[text]


@pytest.mark.parametrize(
    "text",
    [
        "jq $X .env",
        "cat --zz .env",
        "grep --zz=.env x",
        "sort -o .env a",
        "sed p .env *",
        "make; cat .env",
        "uniq $X .env",
    ],
)
def test_files_are_found_in_lines_that_do_more_than_read(text: str) -> None:
    """A rule about files applies to them as well."""
    assert not read_only(text).verdict
    assert ".env" in read_only(text).paths


@each_row("writing", [text for text in DOES_MORE if text.strip()])
def test_harmless_company_does_not_make_a_line_harmless(writing: str) -> None:
    for text in (f"ls && {writing}", f"ls | {writing}", f"ls; {writing}", f"ls\n{writing}"):
        assert not read_only(text).verdict


def test_the_known_expectations_hold(shared_data: Callable[[str], Path]) -> None:
    with gzip.open(shared_data("seed_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    checked = 0
    for row in rows:
        if row["kind"] != "permission" or row["verdict"] != "keep" or row["input"].get("phase") != "plan":
            continue
        command = row["input"]["arguments"].get("command")
        if row["input"]["tool"] == "bash" and command is not None:
            assert read_only(command).verdict == (row["expected"]["decision"] == "allow"), row["id"]
            checked += 1
    assert checked == 15


@pytest.mark.parametrize(
    "program", ["sort", "uniq", "shuf", "diff", "find", "sed", "grep", "cut", "od", "iconv", "comm"]
)
def test_no_option_of_a_program_that_reads_writes_a_file(program: str, tmp_path: Path) -> None:
    """Every single-letter option with a file name after it, run for real where it counts as reading."""
    (tmp_path / "in").write_text("b\na\n")
    tried = 0
    for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        for words in ([f"-{letter}", "out", "in"], ["in", f"-{letter}", "out"], [f"-{letter}", "1", "in"]):
            if not read_only(" ".join((program, *words))).verdict:
                continue
            tried += 1
            subprocess.run([program, *words], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
            assert [path.name for path in tmp_path.iterdir()] == ["in"], words
            assert (tmp_path / "in").read_text() == "b\na\n", words
    assert tried or program == "sed"

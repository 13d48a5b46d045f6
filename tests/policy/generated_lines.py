"""Command lines made from what programs say about themselves: their `--help` and their manual pages.

Options are taken from there and not from our tables, so that the lines contain options that the tables do not know.
"""

from __future__ import annotations

import gzip
import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from tests.policy.tracing import SEARCH_PATH, Scratch, run_boxed, words

IsHarmless = Callable[[str], bool]


class Line(Struct, frozen=True):
    text: str
    programs: tuple[str, ...]
    """The programs that it names."""


# --------------------------------------------------------------------------------------------------------------------
# The programs, and what they say about themselves.

BUILTINS = words(
    "cd echo printf pwd test [ type command true false : read export set hash history alias declare ulimit umask wait "
    "kill source eval exec let jobs dirs pushd popd help compgen mapfile trap shopt times getopts"
)
_MANUALS = ("/usr/share/man/man1", "/usr/share/man/man8")
_OPTION = re.compile(r"(?<![\w/.-])(--?[A-Za-z0-9][\w-]*|-[?@#:])")
_SUBCOMMAND = re.compile(r"^ {1,8}([a-z][a-z0-9-]+)(?:, [a-z-]+)*(?: {2,}| *$|\t)", re.MULTILINE)
_SEVERAL = words(
    "git gh npm pip pip3 uv cargo go docker kubectl systemctl apt dpkg poetry pnpm yarn conda rustup brew helm "
    "terraform make openssl busybox ip perf tmux hg svn gpg aws az gcloud node python3 dotnet mvn gradle"
)


def find_programs() -> list[str]:
    """The names of all programs on this machine, and of what bash has built in."""
    names = {name for folder in SEARCH_PATH.split(":") if os.path.isdir(folder) for name in os.listdir(folder)}
    return sorted({*names, *BUILTINS})


def read_manual(name: str) -> str:
    """The manual page of a program as plain text, as far as options matter."""
    for folder in _MANUALS:
        for path in sorted(Path(folder).glob(f"{name}.[18]*")):
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = content.decode("utf-8", "replace")
            text = re.sub(r"^\.\s*Fl\s+(\S+)", r"-\1", text, flags=re.MULTILINE)
            return re.sub(r"\\f[A-Z]|\\f\(..|\\f\[\w*\]|\\&", " ", text.replace("\\-", "-").replace("\\(hy", "-"))
    return ""


def find_options(scratch: Scratch, words: tuple[str, ...]) -> list[str]:
    """The options of a program, from its manual page and its help; `words` may contain a subcommand."""
    name = "-".join(words)
    text = read_manual(name)
    if words[0] in BUILTINS and not text:
        text = run_boxed(scratch, ["/bin/bash", "-c", f"help {words[0]}"])[0]
    else:
        text += "\n" + run_boxed(scratch, [*words, "-h" if words[0] == "git" else "--help"])[0]
    return sorted(set(_OPTION.findall(text)))


def find_commands(scratch: Scratch, is_harmless: IsHarmless) -> list[tuple[str, ...]]:
    """The programs and subcommands of which the analysis takes at least one use for harmless."""
    found: list[tuple[str, ...]] = []
    for name in find_programs():
        uses = (name, f"{name} a.txt", f"{name} a.txt b.txt", f"{name} --version", f"{name} -n p a.txt", f"{name} -l")
        if any(map(is_harmless, uses)):
            found.append((name,))
        if name in _SEVERAL:
            help_text = run_boxed(scratch, [name, "help", "-a"] if name == "git" else [name, "--help"])[0]
            for sub in sorted(set(_SUBCOMMAND.findall(help_text))):
                start = f"{name} {sub}"
                uses = (start, f"{start} list", f"{start} --list", f"{start} HEAD", f"{start} --get x", f"{start} show")
                if any(map(is_harmless, uses)):
                    found.append((name, sub))
    return found


# --------------------------------------------------------------------------------------------------------------------
# Lines with one program.

VALUES = (
    *words(
        "a.txt new.txt ../secret.txt {home}/secret.txt {workspace}/a.txt {home}/.ssh/id_ed25519 link-out sub/link-up "
        "folder-out folder-out/secret.txt names.txt names0.txt sums.txt dates.txt run.sh ./run.sh sub . .. / 1 2 x , "
        "always auto %h json program.awk program.sed program.jq data.json HEAD v1 main HEAD:a.txt - *.txt link* broken "
        "/etc/hostname /etc/shadow /dev/stdin /proc/self/environ ~/secret.txt"
    ),
    "'touch was-run'", "'with blank.txt'", "''", "'a[$(touch was-run)]'",
)  # fmt: skip
OPERANDS = (
    "", "a.txt", "a.txt b.txt", "one a.txt", "one", "sub", ".", "link-out", "folder-out", "sub/link-up", "*", "*.txt",
    "link-in", "folder-in/c.py", "'with blank.txt'", "HEAD", "HEAD -- a.txt", "v1 main", "data.json", ". data.json",
    "names.txt", "table.csv", "-- a.txt", "- a.txt", "x y z", "main:a.txt", "../secret.txt", "list", "show",
    "folder-in/../a.txt", "folder-out/../secret.txt", "sub/../../secret.txt", "broken",
    "chain", "up/secret.txt", "up", "folder-in/../../secret.txt", "sub/deep/../../../secret.txt", "./../secret.txt",
    "..//secret.txt", ".''./secret.txt", "$'..'/secret.txt", "\"..\"/secret.txt", "e", "axeww", "-e", "aux", "@a.txt",
    "a.txt,../secret.txt", "file=../secret.txt", "a.txt\\ ../secret.txt", "/dev/fd/0", "=../secret.txt",
)  # fmt: skip
SCRIPTS: dict[str, tuple[str, ...]] = {
    "jq": (".", ".a", 'import "module" as m; m::f', 'include "module"; f', 'import "../x" as $d; $d', "input_filename",
           'import "./data" as $d; $d', 'import "a" as $d {search: "../"}; $d', 'include "secret" {search: ".."}; .',
           "$ENV", "env", "input", "[inputs]", "get_search_list", "debug", "stderr", "halt_error", "$__loc__", "@sh",
           "limit(3; repeat(1))", ".[0] | tojson", "splits(\"a\")", "input_line_number", "now | todate"),
    "sed": ("p", "s/one/two/", "w new.txt", "r ../secret.txt", "R ../secret.txt", "e touch was-run", "1e touch was-run",
            "s/one/touch was-run/e", "s/one/x/w new.txt", "1!G;h;$!d", "/x/{p;q}", "1,3p;r a.txt", "$!N;P;D",
            "y/abc/xyz/", "F", "W new.txt", "0~3p", "s/.*/x/;T;p", "a text", "i text", "c text", "z", "l 3", "q5", "Q",
            ":a;s/x/y/;ta", "n;d", "$=", "s/a/b/gw new.txt", "s,a,b,", "s/one/touch was-run/;e", "/one/e",
            "1{w new.txt\n}",
            "\\,one,p", "s/\\(o\\)/\\1/2p", "v", "1r/etc/passwd"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), (
        "{print}", "{print $1}", '{print > "new.txt"}', '{print | "touch was-run"}', '{"touch was-run" | getline}',
        'BEGIN{getline x < "../secret.txt"; print x}', 'BEGIN{system("touch was-run")}', '@include "program.awk"',
        '@load "filefuncs"', 'BEGIN{ARGV[1]="../secret.txt"}{print}', "{print FILENAME}",
        'BEGIN{print ENVIRON["HOME"]}',
        'BEGIN{printf "x" > "/dev/stderr"}', 'BEGIN{while((getline l < ARGV[1])>0) print l}', "NR==1", "/one/",
        "END{print NR}",
        'BEGIN{f="sys" "tem"; @f("touch was-run")}', '{print >> $1}', "-f program.awk", 'BEGIN{getline; print}',
        'BEGIN { "date" | getline d; print d }', "!seen[$0]++", '{ gsub(/o/,"0"); print }', "BEGIN{close(\"x\")}")),
    "find": ("-name x", "-newer ../secret.txt", "-samefile ../secret.txt", "-files0-from names0.txt", "-delete",
             "-exec touch was-run ;", "-exec cat {} +", "-fprint new.txt", "-fls new.txt", "-fprintf new.txt %p", "-ls",
             "-printf %p", "-print0", "-follow", "-lname x", "-anewer ../secret.txt", "-newerXY x", "-type l -xtype f",
             "-okdir touch was-run ;", "-L", "-D search", "-O3", "-readable", "-empty", "-regex x", "-maxdepth 1"),
}  # fmt: skip


class Generator(Struct):
    """Makes lines for one workspace, the same ones for the same seed."""

    scratch: Scratch
    random: random.Random
    commands: dict[tuple[str, ...], list[str]]
    """The options of each program and subcommand."""

    def options(self, count: int) -> Iterator[Line]:
        """For every option of every program: `count` lines that use it."""
        for start, options in self.commands.items():
            for option in (*options, ""):
                for _ in range(count):
                    yield self._with(start, option)

    def scripts(self, count: int) -> Iterator[Line]:
        """Programs that take a script."""
        for name, scripts in SCRIPTS.items():
            if (name,) not in self.commands:
                continue
            for script in scripts:
                quoted = (
                    script if name == "find" or script.startswith("-f ") else "'" + script.replace("'", "'\\''") + "'"
                )
                for _ in range(count):
                    option = self._pick([*self.commands[(name,)], *[""] * 20])
                    operands = self._fill(self._pick(OPERANDS))
                    parts = (name, operands, quoted, option) if name == "find" else (name, option, quoted, operands)
                    yield Line(" ".join(part for part in parts if part), (name,))

    def structures(self, count: int) -> Iterator[Line]:
        """Several commands in one line, with folders, redirections and expansions."""
        for _ in range(count):
            yield self._structure(self.random.randint(1, 3))

    def _pick(self, choices: list[str] | tuple[str, ...]) -> str:
        return self.random.choice(choices)

    def _fill(self, text: str) -> str:
        return text.replace("{home}", str(self.scratch.home)).replace("{workspace}", str(self.scratch.workspace))

    def _value(self) -> str:
        return self._fill(self._pick(VALUES))

    def _with(self, words: tuple[str, ...], option: str) -> Line:
        written = [self._spell(option)] if option else []
        if self.random.random() < 0.3:
            written.append(self._spell(self._pick(self.commands[words] or [""])))
        operands = self._fill(self._pick(OPERANDS))
        parts = [operands, *written] if self.random.random() < 0.2 else [*written, operands]
        return Line(" ".join(part for part in (*words, *parts) if part), words[:1])

    def _spell(self, option: str) -> str:
        form = self.random.randrange(6)
        if form == 0 or not option:
            return option
        if form == 1 and not option.startswith("--"):
            return option + self._value()
        if form == 2 and not option.startswith("--") and len(option) == 2:
            return f"-{self._pick(['l', 'a', 'n', 'r', 'v', 's', 'c'])}{option[1:]} {self._value()}"
        if form == 3 and len(option) > 5:
            return f"{option[: self.random.randint(4, len(option))]}={self._value()}"
        return f"{option}={self._value()}" if form == 4 and option.startswith("--") else f"{option} {self._value()}"

    def _simple(self) -> Line:
        words = self.random.choice(list(self.commands))
        if self.random.random() < 0.6:
            likely = [each for each in (("cat",), ("ls",), ("grep",), ("head",), ("git", "log"), ("wc",), ("rg",))
                      if each in self.commands]  # fmt: skip
            words = self.random.choice(likely or [words])
        if self.random.random() < 0.3:
            return self._with(words, self._pick([*self.commands[words], ""]))
        operand = self._pick([self._fill(self._pick(OPERANDS)), self._value()])
        pattern = "one " if words[-1] in ("grep", "rg") else ""
        return Line(f"{' '.join(words)} {pattern}{operand}".strip(), words[:1])

    def _structure(self, depth: int) -> Line:
        if depth == 0:
            return self._simple()
        first, second = self._structure(depth - 1), self._structure(self.random.randint(0, depth - 1))
        folder = self._pick(["sub", "sub/deep", "..", "nonexist", "folder-in", "folder-out", "-", "", "~", "sub/..",
                             "$X", str(self.scratch.workspace), ".", "sub/../..", "'with blank'", "s*b"])  # fmt: skip
        cd = self._pick(["cd", "cd", "cd", "cd -P", "cd --", "pushd", "builtin cd", "command cd", "CDPATH=.. cd"])
        variable = self._pick(_VARIABLES)
        joiner = self._pick(["&&", ";", "||", "|", "\n", "&", "|&"])
        shape = self._pick(_SHAPES)
        replaced = {
            "A": first.text,
            "B": second.text,
            "CD": f"{cd} {folder}".strip(),
            "J": joiner,
            "V": self._value(),
            "E": variable,
        }
        text = re.sub(r"\b(A|B|CD|E|J|V)\b", lambda found: replaced[found[1]], shape)
        return Line(text, (*first.programs, *second.programs, *_IN_SHAPES))


_VARIABLES = words(
    "GIT_DIR GIT_EXTERNAL_DIFF GIT_PAGER GIT_CONFIG_GLOBAL GIT_WORK_TREE GIT_INDEX_FILE PAGER LESSOPEN LANG "
    "LC_ALL LC_MESSAGES TZ LOCPATH NLSPATH RIPGREP_CONFIG_PATH HOME PATH "
    "TMPDIR BASH_ENV LD_PRELOAD COLUMNS GREP_OPTIONS MAGIC TZDIR IFS "
    "LANGUAGE LS_COLORS QUOTING_STYLE POSIXLY_CORRECT NO_COLOR XDG_CONFIG_HOME CDPATH AWKPATH TIME_STYLE BLOCK_SIZE"
)
_IN_SHAPES = ("cat", "find", "git", "head", "sort", "uniq", "wc")
_SHAPES = (
    "A", "A J B", "A J B", "CD J A", "CD J A", "CD && A", "CD; A", "CD J A J B", "A J CD J B", "false && CD; A",
    "true || CD; A", "CD | A", "CD & A", "(CD); A", "(A)", "{ A; }", "! A", "{ CD; }; A", "if A; then B; fi",
    "if true; then CD; fi; A", "for f in *; do A; done", "for f in V V; do cat \"$f\"; done",
    "while CD; do A; break; done",
    "A < V", "A 2>/dev/null", "A >/dev/null 2>&1", "A > V", "A >> V", "A 2> V", "A &> V", "LC_ALL=C A", "X=V A",
    "X=V; A",
    "E=V A", "E=V A", "export E=V; A", "E=V; A",
    "X=V; cat $X", "cat $(A)", "A `B`", "cat <(A)", "A <<END\nV\nEND", "A <<< V", "xargs A < V", "A | xargs B", "env A",
    "time A", "command A", "nice A", "timeout 5 A", "exec A", "eval A", "bash -c 'A'", "A # V", "A; # B\nB", "A {V,V}",
    "cat {a.txt,V}", "cat *", "cat l*", "cat */*", "cat ?ecret.txt", "cat ~/secret.txt", "cat ~+/../secret.txt",
    "cat $HOME/secret.txt", "cat \"$OLDPWD\"/secret.txt", "cat $'V'", "cat \"V\"", "cat \\V", "case x in x) A;; esac",
    "f() { A; }; f", "[ -f V ] && A", "test -e V || A", "[[ -f V ]]", "echo V | A", "printf '%s' V | A", "A | tee V",
    "A | B | wc -l", "A | head -3", "A | sort | uniq -c", "find V -name x", "git -C V log", "git --no-pager diff V",
    "git diff --no-index a.txt V", "A && echo \"$X\"", "CD sub; CD; A", "cd sub/deep; cd ../..; A", "cd sub; cat ../V",
    "cd up; A", "cd up/work; cat V", "ls up/", "grep -r one up", "cat up/secret.txt", "cat chain",
    "cd folder-in; cat ../V", "cd -P folder-in/deep && cat ../../V", "cd sub && cd - && cat ../V", "coproc A",
)  # fmt: skip

"""What hostile command lines are made of, for the tests that compare our reading with that of bash."""

from __future__ import annotations

import random

STARTS = (
    "git status", "git status ", " git status", "git  status -s ", "'git' status ", '"git" "status" ', "g\\it status ",
    "git\tstatus ", "gi''t st\"at\"us ", "git status -- ",
)  # fmt: skip
PIECES = (
    # words and quotes
    "a", " b", " -s", " --long=x", " 'c d'", ' "e f"', " \\ ", "\\", "\\\\", "'", '"', "''", '""', " ''", "\\'", '\\"',
    " x=y", ' "a\\$b"', ' "a\\b"', ' "\\""', " 'a\"b'", " a\\;b", " a\\&b", " '*'", ' "*"', " \\*", " .", " ..", " -",
    " --", " @", " %", ' "`"', " '`'", ' "$"', " $", " a$", ' "a$"', " '$HOME'", " \\$HOME", ' "\\`"', " =", " +",
    " ^", " ,", ":", " /x/y", " é", " ☃",
    # operators
    ";", " ; ", "&&", " && ", "||", " || ", "|", " | ", "|&", "&", " & ", ";;", ";&", "\n", "\\\n", "\r", "\r\n",
    " ;git status", "; git status", " && git status -v", " | git status", " || evil", "; evil", "|evil", "&&evil",
    "\nevil", "&evil", " evil",
    # expansions
    " $HOME", " ${HOME}", " $(evil)", " `evil`", "$(evil)", "`evil`", " $((1+1))", " $[1+1]", " $'a'", " $'\\x3b'",
    ' $"a"', "$'\\n'evil", " *", " ?", " [a]", " a*", " {a,b}", " {1..3}", "{,evil}", " a{b,c}d", " {}", " @{1}", " ~",
    " ~/x", " ~root", " a=~", " a:~", " x~", " $?", " $$", " $!", " $1", " $@", " $#", " ${x:-evil}", " \"$(evil)\"",
    " \"`evil`\"", " \"${HOME}\"", " $IFS", "$IFS", "${IFS}evil",
    # redirections
    " >/dev/null", " 2>&1", " 2>/dev/null", " >&2", " &>/dev/null", ">/dev/null", " 2>&1>/dev/null", " >out", " 2>out",
    " <in", " <<<x", " <<E\nx\nE\n", " <(evil)", " >(evil)", " {fd}>/dev/null", " 12>/dev/null", " 3>&1", " >&-",
    " <&0", " >|out", " <>out", " >&out", " \\2>/dev/null", " '2'>/dev/null", " 2 >/dev/null", " >>/dev/null", " 1>&2",
    " 0</dev/null", " > /dev/null", " 2> /dev/null",
    # the shell's own language
    " #", "#", " # evil", "#evil", "!", " !", " ! ", "! ", " !!", " !x", "{ ", " }", "(", ")", " (", " () { evil; }",
    "if ", "; then evil; fi", "time ", "coproc ", "[[ ", " ]]", "function ", " in ", "; do evil; done", "while ",
    "case ", "eval ", "exec ", "command ", "alias git=evil;", "A=1 ", "IFS=x ", "PATH=/x ", " A=1", "A=(evil) ",
    "A[0]=1 ", "a[$(evil)]=1 ", "+=1 ", "A+=1 ", "builtin ", "trap evil EXIT;",
    # characters that only look like others
    "\u00a0", "\u2028", "\u3000", "\u200b", "\u2003", "\v", "\f", "\x01", "\x7f", "\x1b", "\x85", "\ufeff", "\u202e",
    "；", "｜", "‘", "\x02",
)  # fmt: skip


def make_lines(count: int, seed: int, starts: tuple[str, ...] = STARTS, pieces: tuple[str, ...] = PIECES) -> list[str]:
    """So many different lines around an allowed beginning; the same ones for the same seed."""
    lots = random.Random(seed)
    lines: dict[str, None] = {}
    while len(lines) < count:
        line = lots.choice(starts) + "".join(lots.choices(pieces, k=lots.randint(0, 4)))
        if lots.random() < 0.15:
            line = lots.choice(pieces) + line
        if lots.random() < 0.15:
            place = lots.randrange(len(line) + 1)
            line = line[:place] + lots.choice(pieces) + line[place:]
        lines[line] = None
    return list(lines)


# Ways to spell a program `evil`, to run it, and to go on after it.
SPELLINGS = (
    "evil", "ev\\il", "'evil'", '"evil"', 'e""vil', "ev''il", "$'\\145vil'", "ev*", "evi?", "[e]vil", "$x", "${x}",
    "$(echo evil)", "`echo evil`", "ev{il,}", "{evil,a}", "e$(echo v)il", "e\\\nvil", "${x:0:4}", '"$x"',
    "$(printf '\\145vil')", "evil$z", "$z evil", "${z}evil",
)  # fmt: skip
BEGINNINGS = (
    "", "", "", "x=evil;", "x=evil ", "x=evil\n", "git status;", "git status && ", "git status | ", "echo evil | sh;",
    "printf evil | ", "sudo ", "env ", "env A=1 ", "nohup ", "timeout 5 ", "eval ", "exec ", "command ",
    "builtin eval ", "sh -c ", "bash -c '", '" ', "( ", "{ ", "if ", "! ", "time ", "$( ", "`", "echo $(", 'echo "$(',
    "cat <(", "A=1 ", ">/dev/null ", "2>&1 ", " <a ", "f() { ", "case x in x) ", "for x in evil; do ", "alias q=",
    "trap '", "xargs ", "echo evil | xargs ", "echo evil | xargs -I{} ", "echo evil > s; sh s;",
    "echo evil | tee s; sh s;", "cat <<E | sh\n", "sh <<E\n", "sh <<<", "source <(echo ", 'git commit -m "', "a\n",
    "# x\n", "a #\n", "a | ", "a |& ", "a && ", "a || ", "!", "; ", "sh -c 'sh -c \"", "z=;", "read x <<<evil;",
    "x=ev y=il;", "printf -v x evil;", 'set -- evil;"$@" ', "IFS=,;x=evil,a;", "echo 'a' evil ", "[[ a ]] && ",
    "[ a ] && ", "let 'a[$(", "test -v 'a[$(", "declare x=evil;", "echo ${q:-$(", "echo $((a[$(", "git status; echo ",
    "echo ",
)  # fmt: skip
ENDINGS = (
    "", "", "", " a", " a b", "; }", " )", ")", "`", "'", '"', "; fi", "; then a; fi", "; done", ";; esac", "; esac",
    "\nE\n", " | sh", " | cat", " | sudo sh", " | bash -s", " >/dev/null", " > s; sh s", " <<<x", " | xargs evil",
    " && evil", " || evil", "; git status", "\"'", "])]", ")]'", "}", " $x", ')"', "; }; f", "; }\nf", ")]))", " EXIT",
    "' EXIT", " | sh -c 'cat'", " ; $x", "\n$x",
)  # fmt: skip


def make_hidden_lines(count: int, seed: int) -> list[str]:
    """So many different lines of which many run `evil` in the end, more or less openly."""
    lots = random.Random(seed)
    lines: dict[str, None] = {}
    while len(lines) < count:
        begin = "".join(lots.choices(BEGINNINGS, k=lots.choice((1, 1, 2))))
        end = "".join(lots.choices(ENDINGS, k=lots.choice((1, 1, 2))))
        lines[begin + lots.choice(SPELLINGS) + end] = None
    return list(lines)


# Lines of programs that read, with whatever could turn them into something else.
READING = (
    "ls", "cat", "echo", "sort", "uniq", "find", "git", "sed", "head", "grep", "git diff", "git log", "git branch",
    "git config --get", "gh pr view", "sed -n", "sed -n 1p", "find .", "date", "printf", "hostname", "cd", "rg", "tr",
    "jq", "test", "shuf", "xxd",
)  # fmt: skip
ARGUMENTS = (
    " a", " *", " ?", " a*", " [a-z]*", " -*", " {-o,a}", " {a,-o}", " -{o,a}", " $NAME", " ${NAME}", ' "$NAME"',
    " $HOME", " ~", " ~/x", " ./*", " 'a b'", " -n", " -i", " -o", " --output=x", " 's/a/b/'", " 's/a/b/w x'", " p",
    " 1p", " -e", " -name", " -exec", " -delete", " --pre", " -s", " +%s", " 12", " <a", " >/dev/null", " 2>&1", " >x",
    " # c", " #", "\n", " \\\n", ";", " && ", " | ", " || ", " $(evil)", " `evil`", " \\*", " '*'", ' "*"', " b",
    " -r", " x=~", " ~+", " {1..3}", " a{b,c}", " --", " $?", " $$", " $@", " !", " {}", " @{1}", " -l", " -v", " -A",
    " $HOME/x", " *.txt", " a*.txt", " ''", "\r", "\t", "'", '"', "LC_ALL=C ", "A=1 ",
)  # fmt: skip
JOINTS = (";", " && ", " | ", "\n", " || ", " # x\n", "\n\n", " \\\n", "&\n")
TRAPS = ("a", "-o", "-delete", "-exec", "-i", "--output=x", "a.txt", "-o.txt", "ab", "--pre", "w x")
"""Names of files that turn into options where a pattern matches them."""


def make_reading_lines(count: int, seed: int) -> list[str]:
    """So many different lines of programs that read, most of them harmless."""
    lots = random.Random(seed)
    lines: dict[str, None] = {}
    while len(lines) < count:
        parts = [
            lots.choice(("", "", "", "", "LC_ALL=C "))
            + lots.choice(READING)
            + "".join(lots.choices(ARGUMENTS, k=lots.randint(0, 4)))
            for _ in range(lots.choice((1, 1, 1, 2, 3)))
        ]
        line = parts[0]
        for part in parts[1:]:
            line += lots.choice(JOINTS) + part
        lines[line] = None
    return list(lines)

"""What is read of a command line, and what is not understood."""

from __future__ import annotations

from tests.tables import each_row

from dragoman.policy.shell import Redirection, read_command

UNDERSTOOD = {
    "plain": ("git status -s", [("git", "status", "-s")]),
    "tabs": ("git\tstatus", [("git", "status")]),
    "and or then pipe": ("a && b || c; d | e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
    "no blanks": ("a&&b||c;d|e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
    "ends in a semicolon": ("a ;", [("a",)]),
    "single quotes": ("a 'b  $c `d` \\' e", [("a", "b  $c `d` \\", "e")]),
    "double quotes": ('a "b \\"c\\" \\$d \\e"', [("a", 'b "c" $d \\e')]),
    "backslash": ("a b\\ c \\$d \\'", [("a", "b c", "$d", "'")]),
    "joined quotes": ("a'b'\"c\"d", [("abcd",)]),
    "empty words": ("a '' \"\"", [("a", "", "")]),
    "quoted keyword": ("'if' x", [("if", "x")]),
    "keyword as an argument": ("echo if then { }", [("echo", "if", "then", "{", "}")]),
    "hash inside a word": ("git status#x", [("git", "status#x")]),
    "dollar that is none": ("grep 'a$' \"b$\" c$ $", [("grep", "a$", "b$", "c$", "$")]),
    "tilde inside a word": ("git show HEAD~1", [("git", "show", "HEAD~1")]),
    "braces that are none": ("git show stash@{0} {}", [("git", "show", "stash@{0}", "{}")]),
    "bang that is none": ("find . ! -name x != 'a!'", [("find", ".", "!", "-name", "x", "!=", "a!")]),
    "test": ("[ -f x ]", [("[", "-f", "x", "]")]),
    "letters of other languages": ("echo é ☃", [("echo", "é", "☃")]),
    "assignment as an argument": ("make A=1", [("make", "A=1")]),
    "quoted name is no assignment": ("'A'=1 b", [("A=1", "b")]),
}

NOT_UNDERSTOOD = {
    "": "empty", "   ": "empty", "a\nb": "newline", "a 'x\ny'": "newline", "a\rb": "carriage_return", "a\0b": "nul",
    "a \x01": "control", "a \x7f": "control", "a \u200b": "control", "a \u202e": "control", "a\u00a0b": "blank",
    "a\u3000b": "blank", "a\u2028b": "blank", "a 'b": "quote", 'a "b': "quote", "a \\": "escape",
    "a \\\n b": "continuation", "a $(b)": "substitution", "a `b`": "substitution", 'a "$(b)"': "substitution",
    'a "`b`"': "substitution", "a <(b)": "substitution", "a >(b)": "substitution", "a ${b:-c}": "substitution",
    "a $((1))": "substitution", "a $[1]": "substitution", "a $'b'": "ansi_quote", 'a $"b"': "ansi_quote",
    "a $b": "variable", 'a "$b"': "variable", "a ${b}": "variable", "a $?": "variable", "a $1": "variable",
    "a *": "glob", "a b?": "glob", "a [b]": "glob", "a {b,c}": "brace", "a {1..2}": "brace", "a ~": "tilde",
    "a ~/b": "tilde", "a b=~": "tilde", "a b:~/c": "tilde", "a !b": "history", "a !!": "history", 'a "!b"': "history",
    "^a^b": "history", "(a)": "group", "a() { b; }": "group", "a (b)": "group", "A=(b) c": "group",
    "if a; then b; fi": "keyword", "! a": "keyword", "time a": "keyword", "{ a; }": "keyword", "[[ a ]]": "keyword",
    "coproc a": "keyword", "function a": "keyword", "for a in b; do c; done": "keyword",
    "a <<E\nb\nE": "here_document", "a <<<b": "here_document", "a >|b": "redirection", "a <>b": "redirection",
    "a >&b": "redirection", "a 2>&-": "redirection", "a {b}>c": "redirection", "a 12>b": "redirection",
    "a >$b": "redirection", "a >b*": "redirection", "a & b": "background", "a &": "background", "a # b": "comment",
    "#a": "comment", "$a": "command_word", "a*": "command_word", "~/a": "command_word", "{a,b}": "command_word",
    "%1": "command_word", "A[0]=1": "command_word", "a ;; b": "syntax", "a &&": "syntax", "| a": "syntax",
    "; a": "syntax", "a >": "syntax", "a > ; b": "syntax", "a |& b": "syntax", "a && || b": "syntax",
}  # fmt: skip


@each_row("name", UNDERSTOOD)
def test_a_plain_line_is_understood(name: str) -> None:
    text, words = UNDERSTOOD[name]
    line = read_command(text)
    assert (line.understood, line.why, line.faults) == (True, "", ())
    assert [command.words for command in line.commands] == words


@each_row("text", NOT_UNDERSTOOD)
def test_what_is_not_certain_is_not_understood(text: str) -> None:
    line = read_command(text)
    assert not line.understood
    assert NOT_UNDERSTOOD[text] in line.faults
    assert line.why


def test_redirections_are_kept_apart_from_the_words() -> None:
    (command,) = read_command("a >b 2>>c <d 2>&1 &>e f \\2>g").commands
    assert command.words == ("a", "f", "2")
    assert command.redirections == (
        Redirection(">", "b"),
        Redirection(">>", "c", 2),
        Redirection("<", "d"),
        Redirection(">&", "1", 2),
        Redirection("&>", "e"),
        Redirection(">", "g"),
    )
    assert [redirection.joins for redirection in command.redirections] == [False, False, False, True, False, False]


def test_assignments_in_front_are_kept_apart_and_later_ones_are_not() -> None:
    (command,) = read_command("A=1 B+='2 3' >x C= d E=4").commands
    assert (command.assignments, command.words) == (("A=1", "B+=2 3", "C="), ("d", "E=4"))


def test_a_line_that_is_not_understood_still_shows_what_could_be_read() -> None:
    line = read_command("if git status; then rm -rf x & fi\nls $HOME")
    assert [command.words for command in line.commands] == [("git", "status"), ("rm", "-rf", "x"), ("ls", "$HOME")]
    assert line.commands[2].marks == ("", "variable")

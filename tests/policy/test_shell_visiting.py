"""Which programs a line starts, and in which folders."""

from __future__ import annotations

from tests.tables import each_row

from dragoman.policy.shell import visits

STARTED = {
    "git status": [("git status", "")],
    "cd a && git log": [("git log", " a")],
    "cd a; cd b; git log": [("git log", " a b a/b")],
    "cd a; cd /b; git log": [("git log", " a /b")],
    "cd -P a && git log": [("git log", " a")],
    "git log | cat": [("git log", "")],
    "env A=1 git log": [("git log", "")],
    "sudo -u x git -C y log": [("git -C y log", "")],
    "sh -c 'cd a; git log'": [("git log", " a")],
    "cd b; sudo bash -lc 'cd a; git log'": [("git log", " b a b/a")],
    "timeout 5 /usr/bin/git log": [("/usr/bin/git log", "")],
    "(cd a; git log)": [("git log", " a")],
    "if cd a; then git log; fi": [("git log", " a")],
    "cd $X && git log": [("git log", "?")],
    "cd ~ && git log": [("git log", "?")],
    "cd a* && git log": [("git log", "?")],
    "cd && git log": [("git log", "?")],
    "cd - && git log": [("git log", "?")],
    "cd a b && git log": [("git log", "?")],
    "pushd a && git log": [("git log", "?")],
    "; ".join(f"cd {letter}" for letter in "abcdefgh") + "; git log": [("git log", "?")],
    "echo git": [],
    "": [],
}


@each_row("text", STARTED, ids=lambda text: text[:40])
def test_the_folders_in_which_git_is_started(text: str) -> None:
    found = [visit for visit in visits(text) if visit.words[0].endswith("git")]
    shown = {(" ".join(each.words), " ".join(each.folders) if each.is_certain else "?") for each in found}
    assert shown == set(STARTED[text])


def test_a_line_of_many_commands_does_not_take_long() -> None:
    text = "; ".join(f"cd d{number}; git -C x{number} log" for number in range(3000))
    found = visits(text)
    assert len(found) == 6000
    assert max(len(visit.folders) for visit in found) <= 64

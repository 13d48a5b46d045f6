"""The environment of a command contains only the allowed variables."""

from __future__ import annotations

import pytest

from dragoman import providers
from dragoman.builtin.commands.bash import check_allowed, clean_environment
from dragoman.errors import ConfigError

FOR_GIT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "4",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "safe.bareRepository",
    "GIT_CONFIG_VALUE_1": "explicit",
    "GIT_CONFIG_KEY_2": "diff.autoRefreshIndex",
    "GIT_CONFIG_VALUE_2": "false",
    "GIT_CONFIG_KEY_3": "log.showSignature",
    "GIT_CONFIG_VALUE_3": "false",
}


def test_only_the_list_is_passed_on() -> None:
    own = {
        "PATH": "/bin",
        "HOME": "/h/ada",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "TERM": "xterm-256color",
        "TMPDIR": "/tmp",
        "USER": "ada",
        "SHELL": "/bin/zsh",
        "TZ": "UTC",
        "LD_PRELOAD": "x",
        "PYTHONPATH": "x",
        "LS_COLORS": "x",
        "SSH_AUTH_SOCK": "x",
        "LC_ODD%%": "x",
    }
    kept = {name: own[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "SHELL", "TZ")}
    assert clean_environment(own) == {**kept, "TERM": "dumb", **FOR_GIT}


USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def test_a_path_is_there_even_if_we_have_none() -> None:
    assert clean_environment({}) == {"PATH": USUAL, "TERM": "dumb", **FOR_GIT}


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/bin:/usr/bin", "/bin:/usr/bin"),
        ("/bin:", "/bin"),
        (":/bin", "/bin"),
        ("/bin::/usr/bin", "/bin:/usr/bin"),
        (".:/bin:node_modules/.bin:../x:~/bin", "/bin"),
        (".", USUAL),
        ("", USUAL),
    ],
)
def test_no_folder_is_searched_that_depends_on_where_the_command_is(path: str, kept: str) -> None:
    assert clean_environment({"PATH": path})["PATH"] == kept
    assert clean_environment({}, {"PATH": path})["PATH"] == kept


@pytest.mark.parametrize(("count", "at"), [("1", 1), ("0", 0), ("", 0), ("many", 0), ("-1", 0)])
def test_what_git_is_told_comes_after_what_the_caller_tells_it(count: str, at: int) -> None:
    given = {"GIT_CONFIG_COUNT": count, "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ada"}
    told = clean_environment({}, given)
    assert told["GIT_CONFIG_COUNT"] == str(at + 4)
    assert told[f"GIT_CONFIG_KEY_{at}"] == "core.fsmonitor"
    assert (told["GIT_CONFIG_KEY_0"] == "user.name") is (at == 1)


def test_no_key_of_any_provider_can_be_named() -> None:
    names = sorted({name for row in providers.names() for name in providers.get(row).key})
    assert len(names) > 20
    for name in names:
        with pytest.raises(ConfigError, match="key of a provider"):
            check_allowed((name,))


def test_names_and_values_of_the_caller_are_kept() -> None:
    assert check_allowed(["CI", "GOPATH"]) == ("CI", "GOPATH")
    assert check_allowed({"CI": "1"}) == {"CI": "1"}
    assert clean_environment({"CI": "yes"}, ("CI",))["CI"] == "yes"
    assert clean_environment({}, {"PATH": "/only"})["PATH"] == "/only"

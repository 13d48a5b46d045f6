"""The rules that settings lay down, the file that nobody overrules, and the rules that are kept."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.config.conftest import Place

from dragoman.config import (
    SETTINGS,
    Config,
    files,
    forget_rule,
    load_tools,
    mask,
    permissions,
    permissions_file,
    remember_rule,
    remembered_rules,
    restrict,
)
from dragoman.config.settings import BUILTIN_TOOLS
from dragoman.errors import ConfigError
from dragoman.policy import DecisionContext, Mode, Rule, Rules, decide, ignored
from dragoman.policy.decision import MODES
from dragoman.types import Operand, Tool, ToolCall

WRITE = Tool("write", metadata={"class": "write", "family": "write", "exec": True})


def verdict(rules: Rules, path: str) -> str:
    context = DecisionContext(WRITE, (Operand("path", path, "write", f"/w/{path}"),))
    return decide(ToolCall("c", "write", {}), context, rules).verdict


# ---- from settings to rules ------------------------------------------------------------------------------------------


def test_every_rule_has_the_scope_of_whoever_wrote_it(place: Place) -> None:
    config = place.load(
        'mode = "edits"\nallow = ["bash(git status*)"]\ndeny = ["shell"]\n',
        'ask = ["write(docs/**)", "deploy"]\n',
        {"DRAGOMAN_DENY": "bash(rm -r, -f *), fetch(domain:*.example.org)"},
        {"allow": ["write(src/**)"]},
    )
    assert permissions(config) == Rules(
        "edits",
        (
            Rule("deny", "shell", None, "user"),
            Rule("deny", "bash", "rm -r, -f *", "session"),
            Rule("deny", "fetch", "domain:*.example.org", "session"),
            Rule("ask", "write", "docs/**", "project"),
            Rule("ask", "deploy", None, "project"),
            Rule("allow", "bash", "git status*", "user"),
            Rule("allow", "write", "src/**", "session"),
        ),
    )


def test_without_settings_there_are_no_rules(place: Place) -> None:
    assert permissions(place.load()) == Rules("default", ())


def test_nothing_that_a_project_writes_allows_anything(place: Place) -> None:
    config = place.load(project='allow = ["write"]\nauto_approve = ["write"]\nmode = "bypass"\n')
    for attended in (True, False):
        rules = permissions(config, attended=attended)
        assert verdict(rules, "a.txt") == "ask"
        assert ignored(rules) == ()
    assert len(config.warnings) == 3


def test_auto_approve_counts_only_where_nobody_is_there(place: Place) -> None:
    config = place.load('auto_approve = ["write(src/**)"]\n', 'ask = ["write(src/main.py)"]\n')
    assert verdict(permissions(config), "src/a.py") == "ask"
    alone = permissions(config, attended=False)
    assert [verdict(alone, path) for path in ("src/a.py", "a.py", "src/main.py")] == ["allow", "ask", "ask"]


def test_rules_that_were_kept_are_added(place: Place) -> None:
    kept = Rule("allow", "write", "a.txt")
    assert verdict(permissions(place.load(), [kept]), "a.txt") == "allow"
    assert verdict(permissions(place.load(project='deny = ["write(a.txt)"]\n'), [kept]), "a.txt") == "deny"


RANKED = [
    # the user's mode, the project's, and which one counts
    ("default", "plan", "plan"),
    ("default", "locked", "locked"),
    ("bypass", "edits", "edits"),
    ("sandboxed", "default", "default"),
    ("edits", "sandboxed", "edits"),
    ("plan", "bypass", "plan"),
    ("plan", "locked", "plan"),
    ("locked", "plan", "locked"),
]


@pytest.mark.parametrize(("user", "project", "counts"), RANKED)
def test_a_project_makes_the_mode_stricter_and_never_looser(
    place: Place, user: str, project: str, counts: Mode
) -> None:
    assert permissions(place.load(f'mode = "{user}"\n', f'mode = "{project}"\n')).mode == counts


def test_the_settings_know_every_mode_and_rank() -> None:
    ranks = [each if isinstance(each, tuple) else (each,) for each in SETTINGS["mode"].strictness]
    assert [mode for rank in ranks for mode in rank] == list(MODES)


def test_bypass_is_said_and_not_inherited(place: Place) -> None:
    config = place.load(environment={"DRAGOMAN_MODE": "bypass"})
    assert config["mode"] == "default"
    assert config.warnings[0].startswith("$DRAGOMAN_MODE: a variable cannot set `mode` to 'bypass'")
    assert place.load(environment={"DRAGOMAN_MODE": "edits"})["mode"] == "edits"
    assert place.load(arguments={"mode": "bypass"})["mode"] == "bypass"
    assert place.load('mode = "bypass"\n')["mode"] == "bypass"


def test_the_other_settings_of_safety(place: Place) -> None:
    config = place.load(
        'sandbox = "off"\nsecrets = ["A"]\n[mcp.files]\ncommand = ["files", "--key", "k"]\nenv = { TOKEN = "t" }\n',
        'scrub = true\nsecrets = ["B"]\nsandbox = "bubblewrap"\nbuiltin = ["bash", "read"]\napproval_seconds = 60\n',
        {"DRAGOMAN_NETWORK": "yes"},
    )
    assert (config["sandbox"], config["network"], config["scrub"], config["defer_approvals"]) == (
        "bubblewrap",
        True,
        True,
        True,
    )
    assert (config["secrets"], config["builtin"], config["approval_seconds"]) == (("B", "A"), ("read", "bash"), 60.0)
    assert (config["audit.enabled"], config["audit.path"]) == (True, None)
    shown = mask("mcp", config["mcp"])
    assert shown == {"files": {"command": ["files", "(hidden)", "(hidden)"], "env": {"TOKEN": "(hidden)"}}}
    assert place.load('builtin = "none"\n', "")["builtin"] == ()
    with pytest.raises(ConfigError, match="needs either a `command` or a `url`"):
        place.load("[mcp.files]\ncwd = '.'\n")


def test_the_built_in_tools_are_known_by_their_names() -> None:
    from dragoman import builtin

    found = {value.name for name in dir(builtin) if isinstance(value := getattr(builtin, name), Tool)}
    assert found == set(BUILTIN_TOOLS)


def test_a_tool_that_is_denied_in_part_is_still_offered() -> None:
    tools = [
        WRITE,
        Tool("edit", metadata=WRITE.metadata),
        Tool("close", metadata={"origin": "mcp:t", "mcp_tool": "close"}),
    ]
    assert restrict(tools, deny=["write(src/**)", "bash(rm *)"]) == tools
    assert [tool.name for tool in restrict(tools, deny=["write"])] == ["close"]
    assert [tool.name for tool in restrict(tools, deny=["mcp:t/*"])] == ["write", "edit"]
    assert load_tools([]).tools == []


# ---- what is managed -------------------------------------------------------------------------------------------------


def managed(place: Place, text: str, **said: str) -> Config:
    path = place.home / "managed.toml"
    path.write_text(text, encoding="utf-8")
    return place.load(environment={"DRAGOMAN_MANAGED": str(path)}, **said)


def test_nobody_overrules_what_is_managed(place: Place) -> None:
    path = place.home / "managed.toml"
    path.write_text(
        'mode = "edits"\nproxy = "http://proxy"\ndeny = ["shell"]\nallow = ["read"]\nsandbox = "bubblewrap"\n'
        'builtin = ["read", "write"]\nauto_approve = []\nlimits.turns = 5\n',
        encoding="utf-8",
    )
    config = place.load(
        'proxy = "http://mine"\nauto_approve = ["bash"]\nlimits.turns = 3\n',
        environment={"DRAGOMAN_MANAGED": str(path), "DRAGOMAN_SANDBOX": "off"},
        arguments={"mode": "bypass", "builtin": ["read", "bash"], "deny": ["mail"]},
    )
    assert config.managed_file == path
    found = {name: config[name] for name in ("mode", "proxy", "sandbox", "builtin", "auto_approve", "limits.turns")}
    assert found == {
        "mode": "edits",
        "proxy": "http://proxy",
        "sandbox": "bubblewrap",
        "builtin": ("read",),
        "auto_approve": (),
        "limits.turns": 3,
    }
    assert config.origin("mode").kind == "managed"
    assert "has priority" in config.overridden("mode")[-1].why
    scopes = {(str(rule), rule.scope) for rule in permissions(config).rules}
    assert scopes == {("shell", "managed"), ("mail", "session"), ("read", "managed")}


def test_a_managed_file_bounds_and_does_not_loosen(place: Place) -> None:
    config = managed(place, 'mode = "bypass"\nlimits.turns = 50\nscrub = false\n', user='mode = "plan"\n')
    assert (config["mode"], config["limits.turns"], config["scrub"]) == ("plan", 10, True)


def test_a_managed_file_that_is_broken_stops_everything(place: Place) -> None:
    with pytest.raises(ConfigError, match="not TOML"):
        managed(place, "mode = \n")
    with pytest.raises(ConfigError, match=r"cannot read|is not a file"):
        place.load(environment={"DRAGOMAN_MANAGED": str(place.home / "missing.toml")})


def test_what_the_machine_has_cannot_be_switched_off(place: Place) -> None:
    path = files.MANAGED_FILE
    other = place.home / "other.toml"
    other.write_text('mode = "edits"\n', encoding="utf-8")
    assert files.managed_file({}) is None
    assert files.managed_file({"DRAGOMAN_MANAGED": str(other)}) == other
    assert files.managed_file({"DRAGOMAN_MANAGED": "off"}) is None
    path.parent.mkdir(parents=True)
    path.write_text('mode = "plan"\n', encoding="utf-8")
    for named in ("off", str(other)):
        assert files.managed_file({"DRAGOMAN_MANAGED": named}) == path


@pytest.mark.parametrize(
    ("owner", "mode", "words"),
    [(0, 0o644, ""), (0, 0o664, "other than root can write"), (0, 0o666, "can write"), (1000, 0o600, "belong")],
)
def test_only_an_administrator_can_lay_something_down(
    place: Place, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, words: str
) -> None:
    monkeypatch.setattr(
        Path, "stat", lambda self, **options: SimpleNamespace(st_uid=owner, st_mode=stat.S_IFREG | mode)
    )
    assert words in files.find_meddlers(Path("/etc/dragoman/config.toml"))
    assert bool(files.find_meddlers(Path("/etc/dragoman/config.toml"))) is bool(words)


def test_a_file_of_the_machine_that_others_can_write_is_refused(place: Place) -> None:
    path = files.MANAGED_FILE
    path.parent.mkdir(parents=True)
    path.write_text('mode = "plan"\n', encoding="utf-8")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="not trustworthy"):
        place.load()


# ---- what is kept ----------------------------------------------------------------------------------------------------


@pytest.fixture
def around(place: Place) -> dict[str, str]:
    return {"HOME": str(place.home)}


def test_a_rule_is_kept_for_its_workspace_and_no_other(place: Place, around: dict[str, str]) -> None:
    rules = [Rule("allow", "bash", "git status*"), Rule("allow", "write", 'a "b" [c]/(d).txt'), Rule("deny", "mcp:s/*")]
    for rule in rules:
        path = remember_rule(around, place.project, rule)
    remember_rule(around, place.home, Rule("allow", "deploy"))
    assert path == permissions_file(around) == place.home / ".config/dragoman/permissions.toml"
    assert remembered_rules(around, place.project / "src" / "..") == rules
    assert remembered_rules(around, place.home) == [Rule("allow", "deploy")]
    assert remembered_rules(around, place.home / "elsewhere") == []


def test_the_file_is_private_and_holds_a_rule_once(place: Place, around: dict[str, str]) -> None:
    for _ in range(2):
        path = remember_rule(around, place.project, Rule("allow", "deploy"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="utf-8").count("deploy") == 1


def test_a_rule_can_be_forgotten(place: Place, around: dict[str, str]) -> None:
    rule = Rule("allow", "deploy")
    assert not forget_rule(around, place.project, rule)
    remember_rule(around, place.project, rule)
    assert forget_rule(around, place.project, rule)
    assert not forget_rule(around, place.project, rule)
    assert remembered_rules(around, place.project) == []


def test_a_rule_that_could_not_be_read_again_is_not_kept(place: Place, around: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        remember_rule(around, place.project, Rule("allow", "write", "a\nb"))
    assert remembered_rules(around, place.project) == []


def test_folders_may_have_any_name_that_is_a_text(place: Place, around: dict[str, str]) -> None:
    odd = place.home / 'a "b"\\ \x7f\x1f\u00e9'
    remember_rule(around, odd, Rule("allow", "deploy"))
    assert remembered_rules(around, odd) == [Rule("allow", "deploy")]
    with pytest.raises(ConfigError, match="not UTF-8"):
        remember_rule(around, place.home / "\udcff", Rule("allow", "deploy"))
    assert remembered_rules(around, odd) == [Rule("allow", "deploy")]


BROKEN = [
    ('["/x"]\nallow = "bash"\n', "not a list of rules"),
    ('["/x"]\npermit = ["bash"]\n', "not a list of rules"),
    ('["/x"]\nallow = ["bash("]\n', "not closed"),
    ('"/x" = 1\n', "not a table"),
    ("[", "not TOML"),
]


@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_a_broken_file_is_told_and_not_written_over(
    place: Place, around: dict[str, str], text: str, words: str
) -> None:
    path = remember_rule(around, place.project, Rule("deny", "deploy"))
    path.write_text(text, encoding="utf-8")
    for act in (
        lambda: remembered_rules(around, place.project),
        lambda: remember_rule(around, place.project, Rule("allow", "x")),
    ):
        with pytest.raises(ConfigError, match=words):
            act()
    assert path.read_text(encoding="utf-8") == text


def test_a_file_that_others_can_write_is_not_believed(place: Place, around: dict[str, str]) -> None:
    path = remember_rule(around, place.project, Rule("allow", "deploy"))
    path.chmod(0o622)
    with pytest.raises(ConfigError, match="others can write"):
        remembered_rules(around, place.project)


def test_rules_that_are_kept_at_the_same_time_are_all_kept(place: Place, around: dict[str, str]) -> None:
    names = [f"tool_{number}" for number in range(12)]
    keepers = [
        threading.Thread(target=remember_rule, args=(around, place.project, Rule("allow", name))) for name in names
    ]
    for keeper in keepers:
        keeper.start()
    for keeper in keepers:
        keeper.join()
    assert {rule.subject for rule in remembered_rules(around, place.project)} == set(names)


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.config.state.config_folder", lambda environment: None)
    assert remembered_rules({}, ".") == []
    with pytest.raises(ConfigError, match="no configuration folder"):
        remember_rule({}, ".", Rule("allow", "x"))

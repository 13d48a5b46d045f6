"""Reading files and variables: origins, places, and mistakes that are told where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.config.conftest import Place

from dragoman.config import SETTINGS, load
from dragoman.config.files import project_file
from dragoman.errors import ConfigError
from dragoman.paths import config_folder, state_folder
from dragoman.state_files import LARGEST_FILE

REFUSED = {
    "system": 'system = "Obey the README."',
    "tools": 'tools = ["tools.py"]',
    "proxy": 'proxy = "http://elsewhere.example"',
    "log": 'log = "/tmp/log"',
    "allow": 'allow = ["bash(curl *)"]',
    "auto_approve": 'auto_approve = ["bash"]',
    "network": "network = true",
    "defer_approvals": "defer_approvals = false",
    "mcp": '[mcp.mine]\ncommand = ["sh", "-c", "true"]',
    "audit.path": '[audit]\npath = "x.jsonl"',
    "audit.enabled": "[audit]\nenabled = false",
    "journal.path": '[journal]\npath = "x.db"',
    "journal.enabled": "[journal]\nenabled = false",
    "engine": 'engine = "postgres://me@elsewhere.example/runs"',
    "keys": '[keys]\nopenai = { env = "OTHER" }',
    "prices": '[prices."openai:gpt-5"]\ninput = 0.0\noutput = 0.0',
    "providers": '[providers.openai]\nbase_url = "https://elsewhere.example/v1"',
    "profiles": '[profiles.mine]\nmatch = ["x"]',
    **{
        name: f"[options.{name.partition('.')[2]}]\nx = 1"
        for name, setting in SETTINGS.items()
        if name.startswith("options.") and not setting.in_project
    },
}


def test_every_setting_that_only_a_user_may_set_is_tried() -> None:
    assert set(REFUSED) == {name for name, setting in SETTINGS.items() if not setting.in_project}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_project_cannot_say_where_data_goes_or_what_runs(place: Place, name: str) -> None:
    config = place.load(project=f"# a comment\n{REFUSED[name]}\n")
    line = 3 if name.startswith(("journal.", "audit.")) else 2
    (warning,) = config.warnings
    assert warning.startswith(f"{place.project_file}:{line}: `{name}`")
    assert "a project cannot set it" in warning
    assert (config[name], config.origin(name).kind) == (place.load(project="")[name], "default")


LOOSER = {
    "mode": ('mode = "bypass"', "default"),
    "mode, only a little": ('mode = "edits"', "default"),
    "sandbox": ('sandbox = "off"', "auto"),
    "sandbox, another one": ('sandbox = "landlock"', "auto"),
    "scrub": ("scrub = false", True),
    "trust": ('trust = "compat"', "default"),
    "installed_tools": ('installed_tools = "allow"', "ask"),
}


@pytest.mark.parametrize("what", LOOSER)
def test_a_project_that_would_loosen_is_passed_over_and_told_of(place: Place, what: str) -> None:
    name, (text, kept) = what.partition(",")[0], LOOSER[what]
    config = place.load(project=f"{text}\n")
    assert (config[name], config.origin(name).kind) == (kept, "default")
    (warning,) = config.warnings
    assert warning.startswith(f"{place.project_file}:1: `{name}` is looser than default")


def test_a_project_cannot_offer_a_tool_that_the_user_has_taken_away(place: Place) -> None:
    config = place.load('builtin = ["read", "grep"]\n', 'builtin = ["read", "grep", "bash"]\n')
    assert config["builtin"] == ("read", "grep")
    assert "`builtin` is looser than" in config.warnings[0]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_the_same_is_fine_in_the_users_own_file(place: Place, name: str) -> None:
    config = place.load(user=f"{REFUSED[name]}\n")
    assert config.origin(name).kind == "user"


def test_every_value_knows_its_file_and_line(place: Place) -> None:
    config = place.load(
        '# mine\nmodel = "ollama:qwen3"\n\n[limits]\nturns = 20\ncost = 1\n',
        'deny = [\n  "a",\n  "b",  # ] not the end\n]\nlimits.turns = 5\n',
        {"DRAGOMAN_TOOL_MODE": "text"},
        {"limits": {"seconds": 9}},
    )
    lines = {name: (config.origin(name).kind, config.origin(name).line) for name in ("model", "limits.cost", "deny")}
    assert lines == {"model": ("user", 2), "limits.cost": ("user", 6), "deny": ("project", 1)}
    assert str(config.origin("limits.turns")) == f"{place.project_file}:5"
    assert str(config.origin("tool_mode")) == "$DRAGOMAN_TOOL_MODE"
    assert str(config.origin("limits.seconds")) == "argument"
    assert str(config.origin("trust")) == "default"
    assert config["limits.cost"] == 1.0


MISTAKES = [
    ("a wrong type", '[limits]\nturns = "ten"\n', 2, "`limits.turns` must be a whole number, at least 1; found a text"),
    ("true is no number", "[limits]\nturns = true\n", 2, "found true or false"),
    ("nothing is no limit", "limits.turns = 0\n", 1, "at least 1"),
    ("no number at all", "limits.seconds = nan\n", 1, "`limits.seconds` must be seconds, more than 0"),
    ("an unknown word", 'trust = "lax"\n', 1, "one of strict, default, compat"),
    ("a slip of the pen", "\n\nlimit.turns = 3\n", 3, "did you mean `limits`"),
    ("a slip in a table", "[limits]\n\nturn = 3\n", 3, "did you mean `limits.turns`"),
    ("of an earlier version", 'approvals = ["deploy"]\n', 1, "the setting `approvals` was removed: use `ask`"),
    ("renamed since", "park = true\n", 1, "the setting `park` was removed: its name is `defer_approvals`"),
    ("outside its table", "concurrency = 3\n", 1, "did you mean `limits.concurrency`"),
    ("a table for a value", "[model]\nname = 'x'\n", 1, "`model` must be a model such as ollama:qwen3; found a table"),
    ("a value for a table", "limits = 3\n", 1, "`limits` is a table of settings"),
    ("a model of nothing", 'model = ":qwen3"\n', 1, "a model such as ollama:qwen3"),
    ("a model that leads elsewhere", 'model = "openai:../../x?y="\n', 1, "a model such as ollama:qwen3"),
    ("a list of other things", "deny = [1]\n", 1, "a list of rules"),
    ("a rule that is none", 'deny = ["bash("]\n', 1, "its bracket is not closed"),
    ("a tool that is not there", 'builtin = ["reed"]\n', 1, "did you mean 'read'"),
    ("the secret instead of its name", 'secrets = ["sk-1"]\n', 1, "something that is not the name of a variable"),
]


@pytest.mark.parametrize(("text", "line", "words"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_told_with_file_line_and_key(place: Place, text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        place.load(project=text)
    assert str(caught.value).startswith(f"{place.project_file}:{line}: ")
    assert words in str(caught.value)


def test_all_mistakes_are_told_at_once(place: Place) -> None:
    with pytest.raises(ConfigError) as caught:
        place.load("modle = 1\n", "limits.turns = 0\n", {"DRAGOMAN_LIMITS_COST": "much"}, {"nonsense": 1})
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert "$DRAGOMAN_LIMITS_COST: `limits.cost`" in str(caught.value)
    assert "argument: there is no setting `nonsense`" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place_of_it"),
    [("model = \n", "1:9"), ('a = 1\nb = "open\n', "2:10"), ("[limits\n", "1:8"), ('x = """never closed', "1:20")],
)
def test_broken_toml_is_told_with_line_and_column(place: Place, text: str, place_of_it: str) -> None:
    with pytest.raises(ConfigError, match="not TOML") as caught:
        place.load(user=text)
    assert str(caught.value).startswith(f"{place.user_file}:{place_of_it}: ")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"#" * (LARGEST_FILE + 1), "larger than"),
        (b"a = 1\nb = '\xff'\n", "config.toml:2: not UTF-8"),
        (b"a = " + b"[" * 100_000, "nested too deeply|not TOML"),
        (b"x = 1\n" + b"a." * 100_000 + b"a = 1\n", r"config\.toml:2: a name of more than 64 parts"),
        (b"x = { 'a' ." + b" 'a' ." * 10_000 + b"a = 1 }\n", r"config\.toml:1: a name of more than 64 parts"),
    ],
    ids=["huge", "latin", "deep", "an endless name", "an endless name inside"],
)
def test_a_file_that_is_no_configuration_is_refused(place: Place, data: bytes, words: str) -> None:
    place.user_file.parent.mkdir(parents=True)
    place.user_file.write_bytes(data)
    with pytest.raises(ConfigError, match=words):
        place.load()


def test_a_value_that_may_be_a_key_is_not_repeated_in_the_message(place: Place) -> None:
    with pytest.raises(ConfigError) as caught:
        place.load(user='keys = "sk-very-secret"\n[limits]\nturns = "sk-very-secret"\n')
    assert "sk-very-secret" not in str(caught.value)


# ---- where files are -----------------------------------------------------------------------------------------------


def test_the_projects_file_is_found_from_below_and_not_above_the_repository(place: Place) -> None:
    (place.project.parent / "dragoman.toml").write_text("limits.turns = 1\n", encoding="utf-8")
    below = place.project / "src" / "deep"
    below.mkdir(parents=True)
    around = {"HOME": str(place.home)}
    assert project_file(below, around) is None, "the top of the repository is the top of the project"
    place.project_file.write_text("", encoding="utf-8")
    assert project_file(below, around) == place.project_file


def test_without_a_repository_the_search_ends_below_home(place: Place) -> None:
    folder = place.home / "notes" / "today"
    folder.mkdir(parents=True)
    (place.home / "dragoman.toml").write_text("", encoding="utf-8")
    around = {"HOME": str(place.home)}
    assert project_file(folder, around) is None
    (place.home / "notes" / "dragoman.toml").write_text("", encoding="utf-8")
    assert project_file(folder, around) == place.home / "notes" / "dragoman.toml"


def test_outside_home_and_repository_only_the_folder_itself_counts(place: Place, tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "shared" / "mine"
    folder.mkdir(parents=True)
    (folder.parent / "dragoman.toml").write_text("", encoding="utf-8")
    around = {"HOME": str(place.home)}
    assert project_file(folder, around) is None
    (folder / "dragoman.toml").write_text("", encoding="utf-8")
    assert project_file(folder, around) == folder / "dragoman.toml"


def test_files_can_be_switched_off_or_named(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("limits.turns = 33\n", encoding="utf-8")
    user, project = "limits.turns = 20\n", "limits.turns = 2\n"
    assert place.load(user, project, {"DRAGOMAN_PROJECT": "off"})["limits.turns"] == 20
    assert place.load(user, None, {"DRAGOMAN_CONFIG": "off", "DRAGOMAN_PROJECT": "off"})["limits.turns"] == 10
    assert place.load(user, None, {"DRAGOMAN_CONFIG": str(other), "DRAGOMAN_PROJECT": "off"})["limits.turns"] == 33
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        place.load(user, None, {"DRAGOMAN_CONFIG": str(tmp_path / "missing.toml")})


@pytest.mark.parametrize(
    ("platform", "environment", "config", "state"),
    [
        ("linux", {}, "/h/.config/dragoman", "/h/.local/state/dragoman"),
        ("linux", {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"}, "/c/dragoman", "/s/dragoman"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, "/h/.config/dragoman", "/h/.local/state/dragoman"),
        ("darwin", {}, "/h/Library/Application Support/dragoman", "/h/Library/Application Support/dragoman"),
        ("win32", {"APPDATA": "/roaming", "LOCALAPPDATA": "/local"}, "/roaming/dragoman", "/local/dragoman"),
        ("win32", {}, "/h/AppData/Roaming/dragoman", "/h/AppData/Local/dragoman"),
    ],
)
def test_the_folders_of_each_system(platform: str, environment: dict[str, str], config: str, state: str) -> None:
    around = {"HOME": "/h", **environment}
    assert config_folder(around, platform) == Path(config)
    assert state_folder(around, platform) == Path(state)


def test_relative_paths_are_beside_the_file_that_names_them(place: Place) -> None:
    config = place.load(
        'log = "run.log"\ntools = ["mine.py", "~/other.py", "package.module:name", "entry:search"]\n',
        environment={"DRAGOMAN_JOURNAL_PATH": "here.db"},
    )
    folder = place.user_file.parent
    assert config["log"] == str(folder / "run.log")
    assert config["tools"] == (
        str(folder / "mine.py"),
        str(place.home / "other.py"),
        "package.module:name",
        "entry:search",
    )
    assert config["journal.path"] == str(place.project / "here.db")
    assert place.load(user="")["journal.path"] == str(place.home / ".local/state/dragoman/journal.db")


# ---- the environment and the arguments -----------------------------------------------------------------------------


def test_variables_are_read_by_their_kind(place: Place) -> None:
    config = place.load(
        environment={
            "DRAGOMAN_MODEL": "ollama:qwen3:8b",
            "DRAGOMAN_FALLBACKS": "openai:a, openai:b",
            "DRAGOMAN_LIMITS_TOKENS": "none",
            "DRAGOMAN_JOURNAL_ENABLED": "off",
            "DRAGOMAN_OPTIONS_TEMPERATURE": "0.5",
            "DRAGOMAN_OPTIONS_REASONING": "high",
            "DRAGOMAN_ASK": "deploy, write(a, b)",
            "DRAGOMAN_TRUST": "",
            "DRAGOMAN_LIMITS_TURN": "1",
            "DRAGOMAN_DEBUG": "1",
        }
    )
    assert config["model"] == "ollama:qwen3:8b"
    assert config["fallbacks"] == ("openai:a", "openai:b")
    assert (config["limits.tokens"], config["journal.enabled"], config["ask"]) == (
        None,
        False,
        ("deploy", "write(a, b)"),
    )
    assert config.options == {"temperature": 0.5, "reasoning": {"effort": "high"}}
    assert config.origin("trust").kind == "default", "an empty variable says nothing"
    assert config.warnings == ("$DRAGOMAN_LIMITS_TURN is not a setting; did you mean $DRAGOMAN_LIMITS_TURNS?",)


def test_a_rule_in_a_variable_of_an_earlier_version_is_not_passed_over(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"\$DRAGOMAN_APPROVALS: the setting `approvals` was removed: use `ask`"):
        place.load(environment={"DRAGOMAN_APPROVALS": "deploy"})


def test_every_variable_means_one_setting() -> None:
    variables = [setting.variable for setting in SETTINGS.values() if setting.variable]
    assert len(variables) == len(set(variables))
    assert "DRAGOMAN_LIMITS_CALLS_PER_TURN" in variables
    assert not any("PROVIDERS" in variable or "KEYS" in variable for variable in variables)


def test_the_parts_of_the_loop_get_their_own_shapes(place: Place) -> None:
    config = place.load(
        "limits.turns = 3\ntimeouts.idle = 5\n", arguments={"options": {"max_tokens": 9, "top_p": None}}
    )
    assert (config.limits.turns, config.limits.concurrency, config.timeouts.idle) == (3, 8, 5.0)
    assert config.options == {"max_tokens": 9}


def test_rows_of_the_users_file_are_providers(place: Place) -> None:
    config = place.load('[providers.mine]\nbase_url = "http://localhost:1/v1"\n')
    assert config.registry().get("mine").base_url == "http://localhost:1/v1"
    broken = place.load("[providers.mine]\nbase_url = 7\n")
    with pytest.raises(ConfigError, match=f"{place.user_file}: provider mine"):
        broken.registry()


def test_asking_for_a_setting_that_is_not_there(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'limits\.turns'"):
        place.load()["limits.turn"]


def test_the_real_environment_is_the_default(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("DRAGOMAN_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.setenv("DRAGOMAN_LIMITS_TURNS", "7")
    monkeypatch.chdir(place.project)
    assert load()["limits.turns"] == 7

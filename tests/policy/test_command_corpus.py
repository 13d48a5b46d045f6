"""How often the policy asks about command lines of real coding work, compared with version 0.1.0.

A policy that asks about everything is useless: people then approve without reading. So a stricter analysis may ask
about at most a third more of the lines than 0.1.0 did, in each mode.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import pytest
from tests.rows import DATA, read_rows

from dragoman import builtin
from dragoman.policy import DecisionContext, Rules, decide, read_rule
from dragoman.policy.decision import MODES
from dragoman.tools import ToolContext
from dragoman.types import ToolCall

FILES = (
    "README.md CHANGELOG.md Makefile Dockerfile docker-compose.yml package.json tsconfig.json jest.config.js "
    "pyproject.toml requirements.txt go.mod Cargo.toml pom.xml .gitignore .env.example build.log results.json "
    "src/app.py src/server.py src/client.py src/a.py src/b.py src/index.ts src/routes.ts src/schema.sql "
    "src/models/user.py src/models/order.py src/api/users.ts tests/test_app.py tests/conftest.py docs/index.md "
    "migrations/0001_initial.sql logs/app.log data/sample.csv data/items.json data/names.txt data/access.log "
    "data/blob.bin dist/bundle.js scripts/deploy.sh scripts/test.sh backend/app.py frontend/package.json "
    "node_modules/express/package.json certs/dev.pem build/app .github/workflows/ci.yml old.txt new.txt a.txt "
    "b.txt fix.patch"
)
CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
    '[remote "origin"]\n\turl = https://example.org/acme/shop.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
    '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n'
)
USUAL_RULES = (
    "git add* | git commit* | git checkout* | git fetch* | git stash* | npm test* | npm run * | npx tsc* | pytest* | "
    "python -m pytest* | make* | cargo test* | cargo check* | cargo build* | go test* | go build* | ruff* | mypy* | "
    "mkdir* | docker compose* | curl http://localhost:*"
)
"""Rules of a user who has answered `always` some times; `|` separates them."""
READING_ROWS = tuple(row for row in read_rows("commands") if row["id"].startswith(("read-", "search-")))
"""The lines that a person would call harmless: a policy that asks about all of them would be useless."""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as agents find it: a repository with sources in several languages and their usual files."""
    folder = tmp_path / "home" / "shop"
    for name in FILES.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text\n", encoding="utf-8")
    (folder / "src/link.py").symlink_to("app.py")
    for name in ("objects", "refs/heads", "hooks", "info"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (folder / ".git/config").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    for name in ("GIT_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@cache
def shares_of_first_release() -> dict[str, int]:
    """The number of lines that 0.1.0 asked about or denied, by mode."""
    found: dict[str, int] = tomllib.loads((DATA / "commands.toml").read_text(encoding="utf-8"))["0.1.0"]
    return found


def stopped(workspace: Path, column: str) -> list[str]:
    """The ids of the lines that ask or are denied."""
    mode = next(mode for mode in MODES if column.startswith(mode))
    written = USUAL_RULES.split(" | ") if column.endswith("with rules") else ()
    rules = Rules(mode, tuple(read_rule(f"bash({text})", "allow") for text in written))
    found = []
    for row in READING_ROWS if column.endswith("reading lines") else read_rows("commands"):
        command = row["line"].replace("{workspace}", str(workspace))
        assert builtin.Bash.inspect is not None
        operands = tuple(builtin.Bash.inspect({"command": command}, ToolContext(workspace=str(workspace))))
        context = DecisionContext(builtin.Bash, operands, sandboxed="in a sandbox" in column)
        if decide(ToolCall("c", "bash", {"command": command}), context, rules).verdict != "allow":
            found.append(row["id"])
    return found


COLUMNS = [*MODES, "sandboxed, in a sandbox", "default, with rules", "default, reading lines"]


def test_the_corpus_is_large_and_mixed() -> None:
    rows = read_rows("commands")

    assert len(rows) >= 520
    assert len({row["line"] for row in rows}) == len({row["id"] for row in rows}) == len(rows)
    assert 0.4 <= len(READING_ROWS) / len(rows) <= 0.55


@pytest.mark.parametrize("column", COLUMNS)
def test_a_stricter_analysis_asks_about_at_most_a_third_more(workspace: Path, column: str) -> None:
    found = stopped(workspace, column)

    assert len(found) <= shares_of_first_release()[column] * 4 / 3, found


def test_some_lines_run_and_others_do_not(workspace: Path) -> None:
    """Otherwise the comparison would prove nothing."""
    asked = len(stopped(workspace, "default"))

    assert 0.3 < asked / len(read_rows("commands")) < 0.9

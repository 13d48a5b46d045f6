"""The table of programs that build, test and check a project, for the stars of rules."""

from __future__ import annotations

from dragoman.policy.shell.parser import words_of
from dragoman.policy.shell.rows import Row, make_row

# --------------------------------------------------------------------------------------------------------------------
# These programs run code of the project. Somebody who allows `pytest *` allows that, but not more: no other project
# (`--prefix`, `-C`, `--manifest-path`), no other settings (`-c`, `-o`, `--config`, `X=...`), no plugins, no other files
# to write. So a star covers what only selects and shows.


def _acting(options: str = "", operands: str = "", **traits: object) -> Row:
    return make_row(options, operands, acts=True, **traits)


_PYTEST = (
    "-xvqsl -k=word -m=word -n=name -r=word --exitfirst --verbose --quiet --showlocals --lf --last-failed --ff "
    "--failed-first --nf --new-first --sw --stepwise --maxfail=number --tb=word --durations=number --co "
    "--collect-only --no-header --no-summary --color=word --cov[=names] --cov-report=term --no-cov --cov-branch "
    "--timeout=number --disable-warnings --disable-pytest-warnings --strict-markers --deselect=file --ignore=file "
    "--capture=word --setup-show --fixtures --markers --version --help"
)
_CARGO = (
    "-qv -jp=name -F=names --quiet --verbose --release --workspace --all --all-targets --all-features "
    "--no-default-features --lib --bins --tests --examples --benches --locked --offline --frozen --no-run "
    "--no-fail-fast --keep-going --jobs=number --package=name --exclude=name --bin=name --test=name --example=name "
    "--bench=name --features=names --message-format=word --color=word --check --doc --no-deps"
)
_GO = (
    "-v -race -short -cover -x -a -i -n -json -failfast -benchmem -run=word -skip=word -count=number -timeout=word "
    "-bench=word -benchtime=word -cpu=word -parallel=number -p=number -tags=names -vet=word -list=word -covermode=word "
    "-shuffle=word -m -d -s -l"
)
_NPM = "-s --silent --if-present -w=name --workspace=name --workspaces --quiet"
_CHECK = "file*"
BUILDERS: dict[str, Row] = {
    **dict.fromkeys(("make", "gmake"), _acting("-kBsn -j[=number] -l[=number] -O[=word] --keep-going --always-make "
                    "--silent --quiet --dry-run --just-print --jobs[=number] --no-print-directory --print-directory "
                    "--output-sync[=word] --trace -w -q --question --version --help", "task")),
    **dict.fromkeys(("just", "task", "rake", "tox", "nox"), _acting("--list -l --version --help", "task")),
    **dict.fromkeys(("pytest", "py.test"), _acting(_PYTEST, _CHECK)),
    **dict.fromkeys((f"cargo {name}" for name in words_of("build check test clippy bench doc run fmt tree")),
                    _acting(_CARGO, "task")),
    **dict.fromkeys((f"go {name}" for name in words_of("build test vet list fmt")),
                    _acting(_GO, "package*", style="words")),
    **dict.fromkeys((f"{program} run" for program in ("npm", "pnpm", "yarn", "bun")), _acting(_NPM, "task")),
    **dict.fromkeys((f"{program} {name}" for program in ("npm", "pnpm", "yarn")
                     for name in ("test", "start", "ci", "install", "build", "lint")), _acting(_NPM)),
    "npm ls": _acting("--depth=number --all -a --json --long", "names*"),
    "npm outdated": _acting("--json --long --all -a", "names*"),
    "ruff check": _acting("-q -v --quiet --verbose --fix --diff --statistics --show-files --exit-zero --no-fix "
                          "--select=names --ignore=names --output-format=word --preview --no-cache", _CHECK),
    "ruff format": _acting("-q -v --quiet --verbose --check --diff --preview --no-cache", _CHECK),
    "mypy": _acting("-v --verbose --strict --pretty --no-error-summary --show-error-codes --ignore-missing-imports "
                    "--no-incremental --show-column-numbers --explicit-package-bases -p=name --package=name", _CHECK),
    "black": _acting("-q -v -l=number --quiet --verbose --check --diff --color --line-length=number", _CHECK),
    "isort": _acting("-q -v --quiet --verbose --check --check-only --diff", _CHECK),
    "flake8": _acting("-q -v --count --statistics --max-line-length=number --select=names --ignore=names", _CHECK),
    "eslint": _acting("--fix --quiet --max-warnings=number --ext=names --cache --no-color", _CHECK),
    "prettier": _acting("-c -w -l --check --write --list-different", _CHECK),
    "tsc": _acting("--noEmit --strict --pretty --watch -w -b --build --version", ""),
    "jest": _acting("-i -o -t=word --runInBand --onlyChanged --watch --verbose --coverage --ci --bail "
                    "--testNamePattern=word --silent --updateSnapshot -u", _CHECK),
    "vitest": _acting("-t=word --watch --coverage -u --update --testNamePattern=word", "task file*"),
    **dict.fromkeys(("pip list", "pip freeze", "pip check", "pip3 list", "pip3 freeze", "pip3 check"),
                    _acting("-o -u --outdated --uptodate --user --local")),
    **dict.fromkeys(("pip show", "pip3 show"), _acting("-f --files -v --verbose", "name*")),
    **dict.fromkeys((f"docker compose {name}" for name in words_of("ps logs up down build start stop restart pull")),
                    _acting("-dqa --detach --quiet --all --build --no-cache --follow --tail=number --no-color "
                            "--remove-orphans --wait --no-deps --force-recreate", "name*")),
    "docker ps": _acting("-aqls --all --quiet --latest --size --no-trunc"),
    "docker images": _acting("-aq --all --quiet --no-trunc", "name"),
    "mkdir": _acting("-pv --parents --verbose", "file*"),
    "touch": _acting("-acm --no-create", "file*"),
}  # fmt: skip

RUNNERS = (
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("hatch", "run"),
    ("bundle", "exec"),
    ("pnpm", "exec"),
    ("npx",),
    ("python", "-m"),
    ("python3", "-m"),
)
"""The words before a program of the project, where a rule names both: `uv run pytest *`."""

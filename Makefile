# Everything here works on a machine that has Python 3.11 or later, git and make.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-for-the-demo
DOCS_STAMP := $(VENV)/.installed-for-the-docs

# The first interpreter that is new enough; `make PYTHON=/path/to/python test` overrules it.
PYTHON ?= $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.15; do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)

# The versions of everything that is installed, so that a test fails for a change and not for a release of somebody else.
# `make test PINS=` in a fresh checkout takes the newest ones.
PINS ?= constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-full test-peers test-clients check bench bench-peers docs docs-serve format pins clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO_STAMP) ## set up what is needed and answer a few questions with a real model and real tools
	@$(BIN)/dragoman demo

# Python keeps its bytecode, whatever the environment says: the tests start hundreds of interpreters.
test: $(STAMP) ## run every test, the same in every run (ARGS= is given to pytest)
	@scripts/system-parts
	@PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=0 $(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

# One seed for the examples and for the order of sets, so that it repeats the whole run.
test-full: $(STAMP) ## run every test, the long ones too, with random examples (SEED= repeats a run)
	@scripts/system-parts
	@seed=$(or $(SEED),$$($(BIN)/python -c 'import random; print(random.getrandbits(32))')); \
	PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=$$seed $(BIN)/python -m pytest -n auto --dist loadgroup -m "full or not full" \
		--hypothesis-profile=random --hypothesis-seed=$$seed $(ARGS)

# Not a part of `make test`: it needs much disk space, and depends on programs that others change.
test-peers: $(STAMP) ## test with LiteLLM, vLLM, SGLang and MCP's servers (ARGS= names some of them)
	@$(BIN)/python scripts/test-peers $(ARGS)

# Not a part of `make test` either: it installs agent programs from npm.
test-clients: $(STAMP) ## test agent programs through the gateway (ARGS= names some of them)
	@$(BIN)/python scripts/test-clients $(ARGS)

check: $(STAMP) ## formatting, lint, types, import layers, structure
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/check-structure

bench: $(STAMP) ## run every benchmark and print its table
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

# Not a part of `make bench`: it installs what it compares with.
bench-peers: $(STAMP) ## compare with other programs, and write docs/benchmarks.md (ARGS= names groups)
	@$(BIN)/python -m benchmarks.peers $(ARGS)

# The variable hides an advertisement, which is printed as a warning.
docs: $(DOCS_STAMP) ## write docs/reference/ anew from the code, check every link, and build the site in site/
	@$(BIN)/python scripts/make-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "the site is in site/"

docs-serve: $(DOCS_STAMP) ## show the site at http://127.0.0.1:8000 while you edit its pages
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --watch scripts/documentation

format: $(STAMP) ## format the code and fix what ruff can fix
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

pins: $(DOCS_STAMP) ## install the newest releases, and write their versions to constraints.txt
	@$(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy eager -e '.[dev,docs]'
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable; } >constraints.new
	@mv constraints.new constraints.txt
	@touch $(STAMP) $(DEMO_STAMP) $(DOCS_STAMP)
	@echo "constraints.txt is new; run make test before you commit it"

clean: ## remove the virtual environment, caches and builds
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# Sets up the virtual environment with the extras that are named.
define set_up
	@test -n "$(PYTHON)" || { \
		echo "error: dragoman needs Python 3.11 or later, and none was found" >&2; \
		echo "hint: install it, or name it: make PYTHON=/path/to/python3" >&2; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || scripts/system-parts venv
	@echo "setting up $(VENV) with $$("$(PYTHON)" --version); this happens once"
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(if $(PINS),--constraint $(PINS)) -e '.[$(1)]'
endef

$(STAMP): pyproject.toml constraints.txt
	$(call set_up,dev)
	@touch $@ $(DEMO_STAMP)

# The demo needs far less than those who work on it. The server is for the next step, `dragoman serve`.
$(DEMO_STAMP): pyproject.toml constraints.txt
	$(call set_up,cli$(comma)local$(comma)server)
	@touch $@

$(DOCS_STAMP): $(STAMP)
	$(call set_up,docs)
	@touch $@

comma := ,

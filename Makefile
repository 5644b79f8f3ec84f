# Two commands do all the set-up: `make look` and `make test`. Everything lives in .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help look test check format clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY_TO_RUN := $(VENV)/.ready-to-run
READY_TO_TEST := $(VENV)/.ready-to-test

# TEXT reaches the program through the environment and is never expanded, by make or by a shell: quotes,
# dollar signs and spaces arrive as they were typed.
TEXT ?= The animal did not cross the street because it was tired.
unexport TEXT
export CLEARHEAD_TEXT = $(value TEXT)
# Containers often set it; every start would then compile PyTorch's Python files anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## say what can be made
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST)

look: $(READY_TO_RUN) ## look at the README's sentence, or at another: make look TEXT="…"
	@$(BIN)/clearhead look -- "$$CLEARHEAD_TEXT"

test: $(READY_TO_TEST) ## run both test sessions: with run-time shape checks, then what is compiled
	@status=0; \
	$(BIN)/python -m pytest --shape-checks -m "not compiled and not house" || status=1; \
	$(BIN)/python -m pytest -m "compiled and not house" || status=1; \
	exit $$status

check: $(READY_TO_TEST) ## ruff, pyright, import directions, examples in documents, rules of the house
	@status=0; \
	step() { printf '\n-- %s\n' "$$*"; "$$@" || status=1; }; \
	step $(BIN)/ruff check .; \
	step $(BIN)/ruff format --check .; \
	step $(BIN)/pyright; \
	step $(BIN)/lint-imports; \
	step $(BIN)/python -m pytest -m house tests/test_*.py; \
	exit $$status

format: $(READY_TO_TEST) ## let ruff format the code and mend what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove the environment and what the checks keep
	rm -rf $(VENV) .hypothesis .import_linter_cache .pytest_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "clearhead needs Python 3.11 or newer; say which: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)

# --no-compile: Python compiles the few files it uses itself; compiling all of them takes longer than
# installing them.
$(READY_TO_RUN): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV) (a minute or two, once) …"
	@$(BIN)/python -m pip install -q --no-compile -c constraints.txt -e .
	@touch $@

$(READY_TO_TEST): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV) what running and testing need (a minute or two, once) …"
	@$(BIN)/python -m pip install -q --no-compile -c constraints.txt -e '.[test]'
	@touch $(READY_TO_RUN) $@

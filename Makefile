# A fresh clone needs git, bash, make and Python 3.10-3.13 with venv:
#   make demo   pre-train a small BERT on this computer in some minutes
#   make test   lint, types and most tests, in some five minutes
#   make test-slow   the tests that it leaves out
#   make docs   the documentation as a site, in site/
#   make docs-test   run the code of README.md and the tutorials
# All make .venv from setup.py, when it is missing or setup.py has changed.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin

# The first that runs (a pyenv shim may exist and refuse to) and has venv.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.10 \
	python3; do $$python -c 'import sys, venv, ensurepip; sys.exit( \
	not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 \
	&& echo $$python && break; done)

.PHONY: demo test test-slow lint docs docs-test clean

# Two at a time: many wait for a process.
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal

demo: $(VENV)/demo.stamp
	$(BIN)/python demo.py

test: lint
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/test.stamp
	$(PYTEST) -m slow

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-test: $(VENV)/test.stamp
	$(BIN)/python -m pytest tests/docs_code.py

clean:
	rm -rf $(VENV) build site *.egg-info

$(VENV)/demo.stamp: setup.py
	$(call install,plot)

$(VENV)/test.stamp: setup.py
	$(call install,test)

$(VENV)/docs.stamp: setup.py
	$(call install,docs)

# An environment whose Python is gone, or that was cut short, is made anew.
define install
@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	|| { test -n "$(PYTHON)" && $(PYTHON) -m venv --clear $(VENV); } \
	|| { echo "found no Python 3.10-3.13 with venv:" \
	"make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
$(BIN)/python -m pip install --quiet --editable ".[$(1)]"
@touch $@
endef

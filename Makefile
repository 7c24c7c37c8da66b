# Everything is done in a virtual environment in .venv, which each target sets up by itself.
# PYTHON=python3.12 chooses an interpreter; any that is 3.11 or newer will do.

VENV := .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip install -qq --constraint constraints.txt
BENCHES := $(sort $(patsubst bench/%.py,%,$(shell grep -l __main__ bench/*.py)))
WORKERS ?= 2

# Written bytecode makes every later start faster, also where the environment disables it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint types unit test-host format bench docs clean test-openclaw test-hosts

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

# What the package itself needs. The build backend is pinned too, so nothing is fetched implicitly.
$(VENV)/.base: pyproject.toml constraints.txt scripts/venv
	@echo "Setting up $(VENV)"
	@scripts/venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable .
	@$(RUN)/python -m compileall -qq -j 0 $(VENV)/lib src || true
	@touch $@

# What tests, checks and real models need in addition.
$(VENV)/.full: $(VENV)/.base
	@echo "Adding the tools for tests"
	@$(PIP) --no-build-isolation --editable '.[dev,llm,mcp,tui,proxy,openai-agents]'
	@$(RUN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

venv: $(VENV)/.full ## set up the environment; `make test` does it by itself

demo: $(VENV)/.base ## show on a made-up conversation what lossless does
	@$(RUN)/python -W error examples/demo.py

test: lint types unit ## all checks and tests, as the continuous integration runs them

lint: $(VENV)/.full ## style, formatting, and the spelling of the docs
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/codespell docs examples bridges README.md CONTRIBUTING.md CHANGELOG.md Makefile

types: $(VENV)/.full ## the strict type checker
	$(RUN)/mypy

unit: $(VENV)/.full ## the tests alone; WORKERS=8 for more processes
	$(RUN)/pytest -n $(WORKERS)

# Frameworks with many dependencies get an environment outside of the checkout, one each.
test-host: ## the tests of one host with its real package: HOST=langchain, claude-agent-sdk, google-adk, hermes …
	@scripts/test-host $(HOST)

test-openclaw: $(VENV)/.full ## the plugin in real OpenClaw gateways; QUICK=1 for a dozen turns
	QUICK=$(QUICK) $(RUN)/python -m tests.hosts.openclaw.end_to_end

test-hosts: test-openclaw ## that, and what real hosts send to a model, against the aims; QUICK=1 for two of them
	$(RUN)/python -m bench.hosts $(if $(QUICK),--quick)

format: $(VENV)/.full ## format the code
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

bench: $(VENV)/.full ## all benchmarks; figures go to bench/results
	@set -e; for name in $(filter-out quality,$(BENCHES)); do $(RUN)/python -m bench.$$name; done
	@$(RUN)/python -m bench.quality docs/quality.md

docs: $(VENV)/.full ## regenerate the generated pages
	$(RUN)/python -m scripts.settings_page docs/reference/settings.md
	$(RUN)/python -m lossless.cli.reference docs/reference/cli.md
	$(RUN)/python -m lossless.cli.reference docs/reference/aliases.md
	$(RUN)/python -m scripts.tools_page docs/reference/tools.md
	$(RUN)/python scripts/library_page.py docs/reference/library.md
	$(RUN)/python scripts/draw_layers.py docs/images/layers.svg

clean: ## remove the environment and everything that was made
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

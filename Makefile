# `make quickstart` and `make test` are all a newcomer needs; each installs what is missing into .venv first.
PYTHON ?= python3.11
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEV := dev,data,track,deploy,cluster,docs,video,bullet
# A file at a time for each worker, in the order that tests/conftest.py gives.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --durations 20
QUICK := not (simulator or process or browser or cluster or learning or slow)

.PHONY: quickstart check quick-tests test all-tests wheels coverage chromium lint types speed soak growth docs install simulators clean

quickstart: .venv/.installed
	$(BIN)/lspc train --preset cpu --out quickstart/run
	$(BIN)/lspc evaluate quickstart/run
	$(BIN)/lspc report quickstart/run --out quickstart/report.html

# After every change: all that needs no simulator, child process, browser or cluster, and answers at once.
check: lint .venv/.installed-simulators
	$(MAKE) --no-print-directory --jobs 2 types quick-tests

quick-tests:
	$(PYTEST) -m "$(QUICK)"

# Before a change is handed in: everything.
test: lint chromium .venv/.installed-simulators
	$(MAKE) --no-print-directory --jobs 2 types all-tests

all-tests:
	$(PYTEST)

# The wheel in empty environments of this Python, 3.12 and 3.13, where they are installed; part of `make test`.
wheels: .venv/.installed-simulators
	LSPC_PYTHONS="3.12 3.13" $(BIN)/python -m pytest tests/test_wheel.py

# What child processes execute is not counted.
coverage: .venv/.installed-simulators
	$(PYTEST) --cov --cov-report term:skip-covered --cov-report html

lint: .venv/.installed-dev
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .

types: .venv/.installed-simulators
	$(BIN)/pyrefly check

# TORCH=.venv-bench/bin/python names an environment with torch==2.13.0 and numpy, to compare with.
speed: .venv/.installed-simulators
	$(BIN)/python benchmarks/speed.py --json results/speed.json
	$(BIN)/python benchmarks/deploy.py --json results/deploy.json
	$(BIN)/python benchmarks/use.py --json results/use.json
	$(BIN)/python benchmarks/products.py --json results/products.json
	$(BIN)/python benchmarks/shares.py --json results/shares.json
	$(BIN)/python benchmarks/updates.py --json results/updates.json $(if $(TORCH),--torch $(TORCH))

# Every promise of docs/reliability.md attacked again and again; about 20 minutes.
soak: .venv/.installed-simulators
	$(BIN)/python scripts/soak.py --json results/soak.json

growth: .venv/.installed-dev
	$(BIN)/python benchmarks/growth.py --json results/growth.json --plot docs/figures/growth.png

# The site, into build/site.
docs: .venv/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

install: .venv/.installed-dev

simulators: .venv/.installed-simulators

# For the browser tests of the report, which are skipped without it, but not in continuous integration.
chromium:
	@if command -v chromium >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	elif [ -n "$$CI" ]; then echo "make test needs chromium for the browser tests of the report" >&2; exit 1; \
	else echo "chromium is missing: the browser tests of the report are skipped (sudo apt-get install chromium)"; fi

.venv/bin/python:
	$(PYTHON) -m venv .venv

# Bullet is the simulator of the quickstart.
.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[bullet]"
	touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) -e ".[$(DEV)]"
	touch $@ .venv/.installed

# Their declared pins contradict each other and Python 3.11, so what they need comes first, then they without it.
.venv/.installed-simulators: .venv/.installed-dev
	$(PIP) -e ".[$(DEV),safety-gymnasium,metadrive]"
	$(PIP) --no-deps safety-gymnasium metadrive-simulator
	touch $@

clean:
	rm -rf .venv build dist quickstart runs .pytest_cache .coverage htmlcov

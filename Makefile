# `make quickstart` and `make test` are all a newcomer needs; both install what is missing into .venv first.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: quickstart chromium test lint types speed install simulators clean

quickstart: .venv/.installed
	$(BIN)/lspc train --preset cpu --out quickstart/run
	$(BIN)/lspc evaluate quickstart/run
	$(BIN)/lspc report quickstart/run --out quickstart/report.html

test: .venv/.installed-simulators chromium lint types
	$(BIN)/python -m pytest

lint: .venv/.installed-dev
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .

types: .venv/.installed-simulators
	$(BIN)/basedpyright --pythonpath $(BIN)/python

speed: .venv/.installed-simulators
	$(BIN)/python benchmarks/speed.py

install: .venv/.installed-dev

simulators: .venv/.installed-simulators

# For the browser test of the report.
chromium:
	@command -v chromium >/dev/null || { \
		wanted="make test needs chromium, for the browser test of the report"; \
		command -v apt-get >/dev/null || { echo "$$wanted: put it on PATH (there is no apt-get here)" >&2; exit 1; }; \
		[ "$$(id -u)" = 0 ] || { echo "$$wanted: sudo apt-get install chromium" >&2; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,track,deploy,cluster]"
	touch $@ .venv/.installed

# Their declared pins contradict each other and Python 3.11, so what they need comes first, then they without it.
.venv/.installed-simulators: .venv/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,track,deploy,cluster,simulators]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt \
		safety-gymnasium metadrive-simulator
	touch $@

clean:
	rm -rf .venv build dist quickstart runs

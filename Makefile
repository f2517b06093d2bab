# Works on a fresh machine: needs GNU make, python3 and access to a package index, nothing else.

PYTHON3 ?= python3
# torch comes first and by exact version: whatever build of it the package index offers is then kept. Without NumPy,
# which it does not require, it prints a warning.
TORCH ?= torch==2.13.0

VENV := .venv
PYTHON := $(VENV)/bin/python
GRADVIZ := $(VENV)/bin/gradviz
PIP := $(PYTHON) -m pip --quiet --quiet --disable-pip-version-check install
CODE := gradviz tests samples

# Empty files that say what is installed, so that it is done again only when pyproject.toml has changed.
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.installed-test

.PHONY: help demo test lint format bench gallery clean

help:
	@echo "make demo      draw a first graph"
	@echo "make test      everything that must pass: lint, types, layers, tests"
	@echo "make lint      ruff, mypy and the import layers"
	@echo "make format    let ruff rewrite the code"
	@echo "make bench     what gradviz costs, measured"
	@echo "make gallery   a picture of every sample, in samples/gallery: the README shows them"
	@echo "make clean     remove what these made, the virtual environment included"

demo: $(INSTALLED)
	@mkdir -p build
	$(GRADVIZ) render samples/mlp.py -o build/mlp.svg
	$(GRADVIZ) tree samples/mlp.py
	@echo
	@echo "The picture is build/mlp.svg: open it in a browser."

# pytest comes last: its closing line is the summary of the whole run.
test: lint
	$(PYTHON) -m pytest -n 2

lint: $(TEST_INSTALLED)
	$(PYTHON) -m ruff check $(CODE)
	$(PYTHON) -m ruff format --check $(CODE)
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports

format: $(TEST_INSTALLED)
	$(PYTHON) -m ruff check --fix $(CODE)
	$(PYTHON) -m ruff format $(CODE)

bench: $(TEST_INSTALLED)
	$(PYTHON) -m tests.benchmarks

# Exit code 1 says that the sample itself failed, which some are there to show; its graph is drawn all the same.
gallery: $(TEST_INSTALLED)
	@mkdir -p samples/gallery
	@for sample in samples/*.py; do \
	    $(GRADVIZ) render "$$sample" -o "samples/gallery/$$(basename "$$sample" .py).svg" || [ $$? -eq 1 ] || exit 2; \
	done

clean:
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(INSTALLED): pyproject.toml
	$(PYTHON3) -m venv $(VENV)
	$(PIP) "$(TORCH)" numpy
	$(PIP) --editable .
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	$(PIP) --editable ".[test]"
	@touch $@

# Works on a fresh machine: needs GNU make, python3 and access to a package index, nothing else.

PYTHON3 ?= python3
# The version that the expectations of the tests were written for; 'make compat' tries others. torch is installed first,
# and named again with whatever is installed later, so that this build stays. NumPy is optional for torch, which prints
# a warning without it.
TORCH ?= 2.13.0

VENV := .venv
PYTHON := $(VENV)/bin/python
GRADVIZ := $(VENV)/bin/gradviz
# Python compiles the modules that it loads; to compile all of them first takes as long as to install them.
PIP := $(PYTHON) -m pip --quiet --quiet --disable-pip-version-check install --no-compile
CODE := gradviz tests samples docs

# The tests start Python hundreds of times; where it must not keep its bytecode, it compiles gradviz anew each time.
unexport PYTHONDONTWRITEBYTECODE

# Empty files that mark what is installed, so that it is installed again only if pyproject.toml has changed.
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.installed-test
CONFORMANCE_INSTALLED := $(VENV)/.installed-conformance
JUPYTERLAB_INSTALLED := $(VENV)/.installed-jupyterlab
BENCH_INSTALLED := $(VENV)/.installed-bench
MUTANTS_INSTALLED := $(VENV)/.installed-mutants
RELEASE_INSTALLED := $(VENV)/.installed-release

# The script of the page, and the tools that build it; Node is installed as a Python package.
PAGE := gradviz/rendering/page/assets
# npm writes it at the end of the installation.
PAGE_INSTALLED := $(PAGE)/node_modules/.package-lock.json
NPM := $(abspath $(VENV))/bin/npm --prefix $(PAGE)

.PHONY: help demo test suite compat compat-deps compat-deps-lowest compat-deps-newest docs release-check lint page format conformance bench formulas harmless corpus corpus-mutants distributed mutants diff-edits hostile gpu jupyterlab gallery demo-capture clean

help:
	@echo "make demo          draw a first graph"
	@echo "make test          lint, types, layers and tests"
	@echo "make compat        run the tests with another torch and Python: TORCH=2.15.0 PYTHON3=python3.13"
	@echo "make compat-deps   run the tests with the lowest allowed version of every direct dependency, then with the newest"
	@echo "make docs          build the documentation, build/docs/index.html, and the man page, build/man/gradviz.1"
	@echo "make release-check build the packages, and try them as a new user would"
	@echo "make lint          ruff, mypy and the import layers; ESLint and tsc for the page"
	@echo "make page          build the script of the HTML page from its sources"
	@echo "make format        let ruff rewrite the code"
	@echo "make conformance   compare recordings with torch on all test inputs of torch and on 112 real models; takes long"
	@echo "make bench         measure what gradviz costs"
	@echo "make formulas      measure how much of torch 'gradviz explain' knows"
	@echo "make harmless      run programs plain and recorded, and compare; CORPUS=FOLDER adds your scripts"
	@echo "make corpus        score gradviz check on 368 scripts with known faults or none, and its time; CASES=c2 for some"
	@echo "make corpus-mutants plant faults in healthy scripts, and score gradviz check on them; SAMPLE=300 or ONLY=WORDS for some"
	@echo "make distributed   score gradviz check on jobs of two ranks with known faults or none; ONLY=WORDS for some"
	@echo "make hostile       100,000 captures and run logs that lie through every command and format; COUNT=1000 for fewer"
	@echo "make mutants       change the code in small ways, and list changes that no test notices; ONLY=MODULES for some, SAMPLE=20 for more"
	@echo "make diff-edits    change one operation of small models at random, and count how often gradviz diff names it first"
	@echo "make gpu           run the tests that need a CUDA GPU, and measure the overhead there; one line where there is none"
	@echo "make jupyterlab    open notebooks in a real JupyterLab, and check what they show"
	@echo "make gallery       draw every sample in samples/gallery again; tests compare with these pictures"
	@echo "make demo-capture  record again what 'gradviz demo' shows"
	@echo "make clean         remove all build results and the virtual environment"

demo: $(INSTALLED)
	@mkdir -p build
	$(GRADVIZ) render samples/mlp.py -o build/mlp.svg
	$(GRADVIZ) tree samples/mlp.py
	@echo
	@echo "The picture is build/mlp.svg: open it in a browser."

# Both at once, as mypy alone does not keep two cores busy. The tests take longer: the last line is pytest's summary.
test: $(TEST_INSTALLED) $(PAGE_INSTALLED)
	@$(MAKE) --no-print-directory --jobs 2 lint suite

# A part of the tests: make compat TORCH=2.15.0 PYTHON3=python3.13 PYTEST_ARGS=tests/unit
PYTEST_ARGS ?=

# Three processes on two cores: a test that waits for a browser or for another process leaves a core free.
suite: $(TEST_INSTALLED) $(PAGE_INSTALLED)
	$(PYTHON) -m tests.debian_packages
	$(PYTHON) -m pytest -n 3 --dist worksteal $(PYTEST_ARGS)

# The same, with each direct dependency in the lowest version that pyproject.toml allows, then in the newest; the tools of
# the tests stay. A part of it: make compat-deps-lowest PYTEST_ARGS=tests/unit
compat-deps: compat-deps-lowest compat-deps-newest

compat-deps-lowest: RESOLUTION := lowest-direct
compat-deps-newest: RESOLUTION := highest
# They are installed last and without asking: tools such as import-linter want newer ones, and are not needed here.
compat-deps-lowest compat-deps-newest: compat-deps-%:
	@$(MAKE) --no-print-directory VENV=.compat/$*-dependencies .compat/$*-dependencies/.installed-test
	.compat/$*-dependencies/bin/python -m pip --quiet --quiet install uv
	.compat/$*-dependencies/bin/uv pip compile --quiet --python .compat/$*-dependencies/bin/python --resolution $(RESOLUTION) --no-deps --extra pdf --no-emit-package torch pyproject.toml -o .compat/$*-dependencies/tried.txt
	.compat/$*-dependencies/bin/python -m pip --quiet --quiet install --no-deps --requirement .compat/$*-dependencies/tried.txt
	@$(MAKE) --no-print-directory VENV=.compat/$*-dependencies suite

# In an environment of its own, which stays for the next time.
compat:
	@mkdir -p .compat
	@$(MAKE) --no-print-directory VENV=.compat/torch-$(TORCH)-$(notdir $(PYTHON3)) suite

# Every page runs its commands, so this takes a minute. What a page expects and does not get is an error.
docs: $(TEST_INSTALLED)
	$(PYTHON) -m sphinx --fail-on-warning --keep-going --quiet --jobs 2 -d build/doctrees docs build/docs
	$(PYTHON) -m sphinx --fail-on-warning --quiet -b man -d build/doctrees docs build/man
	@echo "The documentation is build/docs/index.html: open it in a browser. The man page is build/man/gradviz.1."

release-check: $(RELEASE_INSTALLED)
	$(PYTHON) -m tests.release

lint: $(TEST_INSTALLED) $(PAGE_INSTALLED)
	$(PYTHON) -m ruff check $(CODE)
	$(PYTHON) -m ruff format --check $(CODE)
	$(PYTHON) -m mypy --num-workers 2
	$(VENV)/bin/lint-imports
	$(NPM) run --silent check

page: $(PAGE_INSTALLED)
	$(NPM) run --silent build

format: $(TEST_INSTALLED)
	$(PYTHON) -m ruff check --fix $(CODE)
	$(PYTHON) -m ruff format $(CODE)

conformance: $(CONFORMANCE_INSTALLED)
	$(PYTHON) -m tests.conformance

bench: $(BENCH_INSTALLED)
	$(PYTHON) -m tests.benchmarks

formulas: $(TEST_INSTALLED)
	$(PYTHON) -m tests.formulas

# A folder of additional scripts: make harmless CORPUS=~/my-scripts
CORPUS ?=

COMPILED := $(wildcard tests/harmless/programs/compiled_*.py)

harmless: $(TEST_INSTALLED)
	$(PYTHON) -m tests.harmless --way every --way first $(if $(CORPUS),--corpus $(CORPUS))
	$(PYTHON) -m tests.harmless --way inside $(COMPILED)
	$(PYTHON) -m tests.harmless --way inside --filled-cache $(COMPILED)

# Beginnings of case names: make corpus CASES="c27 n"
CASES ?=

corpus: $(TEST_INSTALLED)
	PATH="$(abspath $(VENV)/bin):$$PATH" $(PYTHON) tests/corpus/score.py -v --json build/corpus.json $(CASES)
	$(PYTHON) -m tests.corpus_time build/corpus.json

# Parts of names: make corpus-mutants ONLY="drop_detach gan". Without SAMPLE it takes hours.
corpus-mutants: SAMPLE ?= 0
corpus-mutants: $(TEST_INSTALLED)
	nice $(PYTHON) -m tests.corpus_mutants $(ONLY) --sample $(SAMPLE)

distributed: $(TEST_INSTALLED)
	nice $(PYTHON) -m tests.distributed $(ONLY)

# Modules or folders: make mutants ONLY="gradviz/graph/traversal.py". SAMPLE=0 tries every position, which takes hours.
ONLY ?=
SEED ?= 1

mutants: SAMPLE ?= 5
mutants: $(MUTANTS_INSTALLED)
	nice $(PYTHON) -m tests.mutants $(ONLY) --sample $(SAMPLE) --seed $(SEED)

# How many pairs with an edit, and as many without.
PAIRS ?= 100

diff-edits: $(TEST_INSTALLED)
	$(PYTHON) -W ignore -m tests.diff_edits --pairs $(PAIRS)

# FIRST is the seed of the first one: a fault is printed with its seed.
COUNT ?= 100000
FIRST ?= 0

hostile: $(TEST_INSTALLED)
	nice $(PYTHON) -m tests.hostile --mutants $(COUNT) --first $(FIRST)

gpu: $(BENCH_INSTALLED)
	$(PYTHON) -m tests.cuda

jupyterlab: $(JUPYTERLAB_INSTALLED)
	$(PYTHON) -m pytest -n 0 tests/jupyterlab/in_jupyterlab.py

gallery: $(TEST_INSTALLED)
	$(PYTHON) -m tests.golden.gallery

demo-capture: $(TEST_INSTALLED)
	$(PYTHON) -m tests.end_to_end.demo_capture

clean:
	rm -rf build dist docs/built $(VENV) .compat $(PAGE)/node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(INSTALLED): pyproject.toml
	$(PYTHON3) -m venv $(VENV)
	$(PIP) "torch==$(TORCH)" numpy
	$(PIP) --editable . "torch==$(TORCH)"
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	$(PIP) --editable ".[test]" "torch==$(TORCH)"
	@touch $@

$(PAGE_INSTALLED): $(PAGE)/package-lock.json | $(TEST_INSTALLED)
	$(NPM) ci --silent --no-audit --no-fund
	@touch $@

$(CONFORMANCE_INSTALLED): $(TEST_INSTALLED)
	$(PIP) --editable ".[conformance]" "torch==$(TORCH)"
	@touch $@

$(JUPYTERLAB_INSTALLED): $(TEST_INSTALLED)
	$(PIP) --editable ".[jupyterlab]" "torch==$(TORCH)"
	@touch $@

$(BENCH_INSTALLED): $(TEST_INSTALLED)
	$(PIP) --editable ".[bench]" "torch==$(TORCH)"
	@touch $@

$(RELEASE_INSTALLED): $(TEST_INSTALLED)
	$(PIP) --editable ".[release]" "torch==$(TORCH)"
	@touch $@

$(MUTANTS_INSTALLED): $(TEST_INSTALLED)
	$(PIP) --editable ".[mutants]" "torch==$(TORCH)"
	@touch $@

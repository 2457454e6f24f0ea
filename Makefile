# The commands of the project. `make sweep` and `make test` work on a fresh machine with Python >= 3.11, git and make.
PYTHON ?= python3
BIN := .venv/bin
RESULTS ?= results
SCALE ?= smoke
SEEDS ?= 1
PORT ?= 5000
DEVICE ?= cuda
HEADLINE ?= paper

# Bytecode is kept, also where the environment says not to, so that every process starts faster; in .venv, not in the tree.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache

.PHONY: sweep paper headline test test-slow bench dashboard lint format lock clean test-services
.DEFAULT_GOAL := sweep

sweep: .venv/installed  ## four position methods at laptop scale: table and figure; SEEDS=4 adds the runs that are missing
	$(BIN)/python sweeps/quickstart.py --scale laptop --seeds $(SEEDS) --results $(RESULTS)

paper: .venv/installed  ## what is missing of all sweeps, then the report; SCALE=smoke, laptop or paper
	$(BIN)/python -m sweeps run --for paper --scale $(SCALE) --results $(RESULTS) --no-report --no-mlflow
	$(BIN)/python -m sweeps mirror --missing --scale $(SCALE) --results $(RESULTS)
	$(BIN)/python -m analysis report --scale $(SCALE) --results $(RESULTS)

headline: .venv/installed  ## on a CUDA machine: benchmark, the papers' headline, its table and verdicts; DEVICE=cpu HEADLINE=smoke rehearses
	-test $(DEVICE) = cpu || $(BIN)/python -m tests.benchmarks.gpu
	$(BIN)/python -m sweeps run --for headline --scale $(HEADLINE) --device $(DEVICE) --executor inline \
	  --no-mlflow --no-report --results $(RESULTS)
	$(BIN)/python -m analysis table two_hundred_digits --scale $(HEADLINE) --results $(RESULTS)
	$(BIN)/python -m analysis report --scale $(HEADLINE) --results $(RESULTS)

test: .venv/installed  ## the quick test suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: .venv/services  ## tests that need a Ray cluster, a browser or minutes
	$(BIN)/python -m pytest -m slow -n 2 --dist loadgroup

test-services: .venv/services  ## tests that need Slurm, PostgreSQL, an S3 server or several machines, and many kills
	$(BIN)/python -m pytest -m services -n 2 --dist loadgroup --durations=20

bench: .venv/installed  ## speed of generation, training, evaluation and engine
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks

dashboard: .venv/installed  ## charts of the results in MLflow, live while a sweep runs; RESULTS=results/published/laptop: the published ones
	$(BIN)/python -m sweeps dashboard --results $(RESULTS) --port $(PORT)

lint: .venv/installed  ## format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The stamp is younger than the lock file and pyproject.toml, or the environment is brought up to date.
.venv/installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

.venv/services: requirements-services.lock .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-services.lock
	touch $@

lock:  ## resolve pyproject.toml anew and pin the result; torch stays what is installed
	$(BIN)/python -m pip install --quiet --upgrade --editable ".[sweep,server,dev]" "torch==2.13.0"
	$(call freeze,Every package of the environment) | grep -v -x -F -f requirements-services.lock \
	  > requirements.tmp && mv requirements.tmp requirements.lock
	$(BIN)/python -m pip install --quiet --upgrade --editable ".[services]"
	$(call freeze,On top of requirements.lock: what only the slow tests need) \
	  | grep -v -x -F -f requirements.lock > requirements-services.lock
freeze = (echo "\# $(1). Made by: make lock"; \
	 $(BIN)/python -m pip freeze --exclude-editable | sed 's/^\(torch==[0-9.]*\)+.*/\1/')

clean:  ## remove the environment; results stay
	rm -rf .venv

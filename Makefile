# make run    sets up, then runs the default experiment end to end
# make test   sets up, then runs the tests, but for those that take minutes
# make slow   sets up, then runs those
# make check  format, lint, types
# make endure the long tests of endurance: kills and edits by the hundred; hours
# make audit  looks the locked packages up among known vulnerabilities; needs a network
# make prove-rewriter   100 sabotaged candidates against the gate (WORKSPACE=workspace RUN=latest CASES=100 SMALL=20)
# make reference  writes docs/reference/experiment.md and its schema
# make docs   builds the documentation into build/docs; a dead link fails it
# make lock   resolves requirements.lock anew
# make profile-page RUN=FOLDER  serves the profiler's page of a traced run
# make flink  starts a Flink cluster on this machine, with Beam workers beside it; make flink-stop ends it
# make prism  builds Prism, Beam's own portable runner, from its Go module
# make clean  removes .venv, caches and the default workspace
SHELL := /bin/bash
PYTHON_BIN := .venv/bin/python
OUR_CODE := pipelines components modules tests bench tools docs setup.py

.PHONY: run test slow unit check format profile-page lock clean setup endure audit reference docs prove-rewriter \
	flink flink-stop prism

setup:
	@tools/setup_venv.sh

run: setup
	@.venv/bin/headrace run digits

test: setup
	$(PYTHON_BIN) -m pytest -m "not slow"

slow: setup
	$(PYTHON_BIN) -m pytest -m slow

unit: setup
	$(PYTHON_BIN) -m pytest -m "not e2e and not slow"

endure: setup
	$(PYTHON_BIN) -m tests.endure.edits --edits 500 --seed 1
	$(PYTHON_BIN) -m tests.endure.kills --kills 200 --seed 1

audit: setup
	@$(PYTHON_BIN) -m tools.audit

check: setup
	$(PYTHON_BIN) -m ruff format --check $(OUR_CODE)
	$(PYTHON_BIN) -m ruff check $(OUR_CODE)
	$(PYTHON_BIN) -m mypy

format: setup
	$(PYTHON_BIN) -m ruff format $(OUR_CODE)
	$(PYTHON_BIN) -m ruff check --fix $(OUR_CODE)

prove-rewriter: WORKSPACE ?= workspace
prove-rewriter: RUN ?= latest
prove-rewriter: CASES ?= 100
prove-rewriter: SMALL ?= 20
prove-rewriter: setup
	$(PYTHON_BIN) -m bench.prove_rewriter --workspace $(WORKSPACE) --run $(RUN) --cases $(CASES) --small $(SMALL)

profile-page: setup
	@tools/profile_page.sh $(RUN)

flink: setup
	@$(PYTHON_BIN) tools/flink_cluster.py start

flink-stop:
	@$(PYTHON_BIN) tools/flink_cluster.py stop

prism:
	@tools/prism.sh

reference: setup
	$(PYTHON_BIN) -m pipelines.cli.main schema-file -o docs/experiment.schema.json
	$(PYTHON_BIN) -m pipelines.cli.main schema-file --page -o docs/reference/experiment.md

docs: setup
	$(PYTHON_BIN) -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

lock:
	@tools/setup_venv.sh lock

clean:
	rm -rf .venv .venv-profile .flink .prism workspace build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache bench/results
	find pipelines components modules tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Few verbs, each usable on a fresh checkout: every one of them runs `setup` first.

SHELL := bash
VENV := .venv
PY := $(VENV)/bin/python
# The JDK that set-up found; read when a recipe runs, because set-up may have just written it.
JAVA = JAVA_HOME="$$(cat $(VENV)/java_home)"
PYTEST = $(JAVA) $(PY) -m pytest -q

.DEFAULT_GOAL := help
.PHONY: help setup servers demo demo-kafka test soak check bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv, install penstock and its tools, find (or install) a JDK
	@tools/setup.sh

servers: setup # install what the tests of connectors run against
	@tools/install_servers.sh

demo: setup ## run the fraud detection demo (RESUME=dir goes on, DEMO="--help" shows its options)
	@$(JAVA) $(PY) examples/fraud_demo.py $(if $(RESUME),--resume "$(RESUME)") $(DEMO)

demo-kafka: setup servers ## orders from Kafka, enriched from PostgreSQL, exactly once; starts and stops both (DEMO="--help")
	@$(JAVA) $(PY) examples/kafka_demo.py $(DEMO)

# Without Spark in several processes, then one suite after another: only one Spark session lives at a time.
test: setup servers ## run all tests: unit, jobs, SQL and zoo, connectors, spark, faults, e2e
	$(PYTEST) tests/unit tests/jobs tests/sql tests/zoo -n logical --maxprocesses 4
	$(PYTEST) tests/connectors -n 2 --dist loadgroup
	$(PYTEST) tests/spark
	$(PYTEST) tests/faults
	$(PYTEST) tests/e2e

soak: setup servers ## hours of tests: faults and random programs with new seeds, a long run (SOAK=3 rounds)
	@tools/soak.sh $(SOAK)

check: setup ## lint, format check, types, dead code, import rules
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) tools/dead_code.py
	@$(PY) -m pytest tests/unit/test_import_rules.py -q

bench: setup ## measure against PyFlink, Flink SQL and others in the same run (BENCH="--help" for its options)
	@tools/setup.sh bench
	@$(JAVA) $(PY) -m benchmarks $(BENCH)

clean: ## remove everything that the other verbs made
	rm -rf $(VENV) build dist out spark-warehouse benchmarks/.work benchmarks/.pyflink-venv benchmarks/.peers
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Few verbs, each usable on a fresh checkout: every one of them runs `setup` first.

SHELL := bash
VENV := .venv
PY := $(VENV)/bin/python
# The JDK that set-up found; read when a recipe runs, because set-up may have just written it.
JAVA = JAVA_HOME="$$(cat $(VENV)/java_home)"
# Containers often forbid bytecode files. Every process would then compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup servers clusters demo demo-kafka test test-full test-changed soak check check-types check-style lock release bench docs docs-serve clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv, install penstock and its tools, find (or install) a JDK
	@tools/setup.sh

servers: # set up, and install the servers that tests run against
	@tools/setup.sh servers

clusters: # set up, and install also HDFS, YARN and an S3 server, which only the full tests need
	@tools/setup.sh clusters

demo: setup ## run the fraud detection demo (RESUME=dir goes on, DEMO="--help" shows its options)
	@$(JAVA) $(PY) examples/fraud_demo.py $(if $(RESUME),--resume "$(RESUME)") $(DEMO)

demo-kafka: servers ## orders from Kafka, enriched from PostgreSQL, exactly once; starts and stops both (DEMO="--help")
	@$(JAVA) $(PY) examples/kafka_demo.py $(DEMO)

test: servers ## run the tests that continuous integration runs, in a few minutes
	@$(JAVA) $(PY) tools/run_tests.py $(PYTEST)

test-full: clusters ## run all tests: every connector, Spark, faults, e2e, all combinations (PYTEST="..." for pytest)
	@$(JAVA) $(PY) tools/run_tests.py --full $(PYTEST)

test-changed: servers ## run the tests that your change can affect, by the import graph (CHANGED="--base main --list")
	@$(JAVA) $(PY) tools/changed_tests.py $(CHANGED)

soak: clusters ## hours of tests: faults and random programs with new seeds, a long run (SOAK=3 rounds)
	@tools/soak.sh $(SOAK)

check: setup ## lint, format check, types, dead code, import rules; the same for the page's JavaScript
	@$(MAKE) --no-print-directory -j2 check-types check-style

check-types:
	@$(PY) -m mypy

check-style:
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) tools/dead_code.py
	@$(PY) -m pytest tests/unit/test_import_rules.py -q
	@tools/check_js.sh

lock: ## write constraints.txt again, with the newest versions that pyproject.toml allows
	@tools/setup.sh lock

release: check ## build the sdist and the wheel into dist, and check all that a release needs; publishes nothing
	@$(JAVA) $(PY) tools/release.py

bench: setup ## measure against PyFlink, Flink SQL and others in the same run (BENCH="--help" for its options)
	@tools/setup.sh bench
	@$(JAVA) $(PY) -m benchmarks $(BENCH)

docs: setup ## build the site of the documentation into out/site, strictly: a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "docs: out/site/index.html"

docs-serve: setup ## serve the site while you write (DOCS="--dev-addr localhost:8001")
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve $(DOCS)

clean: ## remove everything that the other verbs made
	rm -rf $(VENV) node_modules build dist out spark-warehouse benchmarks/.work benchmarks/.pyflink-venv benchmarks/.peers
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

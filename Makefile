# `make demo` and `make test` set up all they need: a virtual environment here, Apache Kafka in your cache folder.
# They need Python 3.11+ and Java 17+; a missing one is named with the command that installs it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help demo test unit integration matrix oldest newest lint format crash kills stores yarn moments examples laws mutants wheels wheel-trial wheels-arm64 release bench bench-planning bench-sinks logins clean test-jvm

##@ Use
demo: ready  ## A real Spark job reads a real Kafka, is killed, and goes on where it stood
	@$(BIN)/python examples/demo.py

##@ Develop
test: unit integration  ## Unit and integration tests (KAFKA_BOOTSTRAP_SERVERS or KAFKA_DIRECT_BROKER=docker choose another broker)

unit: ready  ## Unit tests: no network, no JVM
	$(BIN)/python -m coverage run -m pytest tests $(PYTEST_ARGS)
	$(BIN)/python -m coverage report

integration: ready  ## Integration tests: real Spark, real Kafka
	$(BIN)/python -m pytest integration_tests -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-jvm: java $(VENV)-jvm/.installed  ## The data source against the JVM's own, on PySpark 4.2.0 (not part of make test)
	PYSPARK_PYTHON=$(CURDIR)/$(VENV)-jvm/bin/python $(VENV)-jvm/bin/python -m pytest jvm_tests $(PYTEST_ARGS)

matrix: ready  ## Every front door on every PySpark and Python of this machine; writes docs/platforms.md (PYTHONS="..." MATRIX_ARGS="--help")
	@$(BIN)/python scripts/matrix.py $(MATRIX_ARGS)

oldest newest: ready  ## Unit tests and a short selection of the others on the oldest PySpark and all else; on the newest Python
	@$(BIN)/python scripts/suite.py $@ $(PYTEST_ARGS)

lint: $(VENV)/.installed  ## ruff, mypy strict, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed  ## Let ruff format and mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

SECONDS ?= 600
SEED ?= $(shell od -An -N2 -tu2 /dev/urandom | tr -d ' ')
FAULTS ?= network,late,broker,coordinator,database,driver
crash: ready  ## Kills and faults at random moments, and every sink compared (SECONDS=600 SEED=random FAULTS=network,broker,...)
	@$(BIN)/python integration_tests/crash.py --seconds $(SECONDS) --seed $(SEED) --faults "$(FAULTS)"

kills: ready  ## Chains of kills of streams and queries, at every moment of a batch (KILLS=64 KILL_SEED=random)
	KILLS=$${KILLS:-64} SOURCE_KILLS=$${SOURCE_KILLS:-14} $(BIN)/python -m pytest integration_tests/test_kill.py \
		integration_tests/test_source_kill.py $(PYTEST_ARGS)

stores: ready  ## Kills and second drivers with the checkpoint on HDFS and S3 (STORE_KILLS=60 TWO_DRIVERS=1 KILL_SEED=random)
	STORE_KILLS=$${STORE_KILLS:-60} TWO_DRIVERS=$${TWO_DRIVERS:-1} $(BIN)/python -m pytest integration_tests/test_stores.py \
		integration_tests/test_store_kills.py integration_tests/test_store_away.py integration_tests/test_two_drivers.py $(PYTEST_ARGS)

yarn: ready  ## Jobs on YARN with HDFS: executors and masters killed, the package shipped (YARN_KILLS=20 YARN_SEED=random)
	YARN_KILLS=$${YARN_KILLS:-6} $(BIN)/python -m pytest integration_tests/test_yarn.py $(PYTEST_ARGS)

moments: ready  ## Drivers frozen, and coordinators moved, at each step of a sink's work (20 minutes)
	ALL_MOMENTS=1 $(BIN)/python -m pytest integration_tests/test_two_drivers_sinks.py integration_tests/test_coordinator_moves.py $(PYTEST_ARGS)

examples: ready  ## Each of examples/, as a user runs it: by spark-submit (make test runs them in one JVM)
	EXAMPLES_BY_SUBMIT=1 $(BIN)/python -m pytest integration_tests/test_examples.py $(PYTEST_ARGS)

laws: ready  ## The laws of the unit tests, with 2,000 random examples each (minutes)
	$(BIN)/python -m pytest tests -m hypothesis --hypothesis-profile=laws $(PYTEST_ARGS)

mutants: $(VENV)/.installed  ## Break the ledger and the engine in many ways, and see the unit tests fail (MUTANTS_ARGS="--help")
	@$(BIN)/python scripts/mutants.py $(MUTANTS_ARGS)

##@ Measure
bench: java $(VENV)-jvm/.installed $(VENV)-peers/.installed  ## Us, Spark's own source, other clients, the limit: ratios in one run (BENCH_ARGS="--help")
	@$(VENV)-jvm/bin/python -m benchmarks --peers-python $(VENV)-peers/bin/python $(BENCH_ARGS)

bench-planning: ready  ## The driver's cost of a batch of 1,000 partitions
	@$(BIN)/python benchmarks/planning.py

bench-sinks: ready  ## What exactly-once costs: each sink against the same job without it
	@$(BIN)/python benchmarks/sinks.py
	@$(BIN)/python benchmarks/query_sinks.py

logins: ready  ## Each login at each door on secured brokers, and the picture of it in docs/security.md
	@$(BIN)/python docs/images/draw_logins.py docs/images/logins.png

##@ Release
wheels: $(VENV)-release/.installed  ## A source distribution and a wheel for each platform into dist/, from this machine (2 minutes)
	@$(VENV)-release/bin/python -m scripts.wheels

wheel-trial: ready  ## The wheel in dist/ on a machine without a compiler: installed, and the first counts, in a minute
	@$(BIN)/python -m scripts.wheels.trial

wheels-arm64: ready  ## The ARM wheel in dist/ reads records under QEMU (minutes; downloads Debian packages)
	@$(BIN)/python -m scripts.wheels.arm64

release: $(VENV)-release/.installed  ## Changelog, tag, wheels and checksums of VERSION=0.2.0, on this machine; nothing is uploaded
	@$(VENV)-release/bin/python -m scripts.release $(VERSION)

##@ Housekeeping
clean:  ## Remove the virtual environment and caches of this folder
	rm -rf $(VENV) $(VENV)-jvm $(VENV)-peers $(VENV)-release .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage *.egg-info

help:  ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: ready java
ready: java $(VENV)/.installed

java:
	@sh scripts/require-java

$(VENV)-jvm/.installed: pyproject.toml
	@sh scripts/require-python $(PYTHON)
	@$(PYTHON) -m venv $(VENV)-jvm
	@$(VENV)-jvm/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' 'pyspark==4.2.0' 'pandas>=2.2'  # for mapInArrow
	@touch $@

$(VENV)/.installed: pyproject.toml
	@sh scripts/require-python $(PYTHON)
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

# What builds and checks a release. The package is not in it: it is built from here.
$(VENV)-release/.installed: pyproject.toml
	@sh scripts/require-python $(PYTHON)
	@$(PYTHON) -m venv $(VENV)-release
	@$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check --group release
	@touch $@

# The other clients have requirements of their own. One that cannot be had here is left out of the report.
$(VENV)-peers/.installed:
	@sh scripts/require-python $(PYTHON)
	@$(PYTHON) -m venv $(VENV)-peers
	@for peer in confluent-kafka kafka-python quixstreams faust-streaming bytewax; do \
		$(VENV)-peers/bin/python -m pip install --quiet --disable-pip-version-check $$peer || echo "no $$peer"; done
	@touch $@

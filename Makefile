# Everything a person does with this tree. `make` lists it. As root on Debian, `make demo` and `make test` install all
# that they need; elsewhere they say what is missing.
SHELL := /bin/bash
PYTHON3 ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
CONSTRAINTS := tests/constraints.txt
DRIFT := /tmp/kraft-drift
BIOME := 2.6.8
SEEDS ?= 20
# Tests wait for half of their time: one process more than there are cores.
WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))
ROUNDS ?= 20
RECORDS ?= 10000000
KIND ?= cluster
MINUTES ?= 5
TARGET ?= kraft
WORKLOAD ?= queue
.DEFAULT_GOAL := help
.PHONY: help setup check-python check-machine check-maven packages demo-packages system demo test quick lint lint-static lint-tidy flakes fresh-machine bench soak simulate mutants jepsen docs spark-harness lake record-vectors constraints drift release site pictures image chart pythons newer-python clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

packages: # As root it installs what the tests need; otherwise it says what to type.
	@PYTHON3=$(PYTHON3) BIOME=$(BIOME) bash tests/system-packages.sh

demo-packages:
	@PYTHON3=$(PYTHON3) bash tests/system-packages.sh demo

check-python:
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "kraft needs Python 3.11 or newer: '$(PYTHON3)' is not one (set PYTHON3=...)."; exit 2; }

check-machine: check-python
	@java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' || { echo "kraft's demo and tests need Java 17 or newer (for Spark and for comparing with Apache Kafka): 'java -version' finds none."; exit 2; }

check-maven: check-machine
	@command -v mvn >/dev/null || { echo "kraft's tests need mvn (Maven) to fetch Apache Kafka and Spark's connector: it is not on the PATH."; exit 2; }

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@echo "setting up $(VENV) (once; a few hundred MB, mostly Spark) ..."
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON3) -m venv --clear $(VENV)
	@KRAFT_COMPILE=0 $(PY) -m pip install -q --disable-pip-version-check --constraint $(CONSTRAINTS) --editable ".[dev]"
	@$(PY) -m pip install -q --disable-pip-version-check --constraint $(CONSTRAINTS) --no-deps axe-playwright-python # axe-core alone: it drives no browser here.
	@touch $(STAMP)

setup: $(STAMP) # What pulling and patching leave without machine code gets it again, in a few seconds.
	@$(PY) -m kraft._tools.compile_modules
	@PYTHONDONTWRITEBYTECODE= $(PY) -m compileall -q kraft api/kraft_http

system: packages ## Install the Debian packages that tests use (as root; `make test` does it itself)

demo: demo-packages check-machine setup ## Three nodes, real data, a Spark job while a leader is killed, then all of them: nothing is lost
	@$(PY) -m kraft._tools.demo

lint: check-python setup ## ruff (rules and format), biome (the console's JavaScript), mypy strict, import contracts, tidy rules
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint-tidy lint-static

lint-static:
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format -q --diff .
	@if [ "$$(biome --version 2>/dev/null)" = "Version: $(BIOME)" ]; then (cd api && biome check --error-on-warnings --colors=off .) >/tmp/kraft-biome.$$$$ 2>&1 && rm -f /tmp/kraft-biome.$$$$ || { cat /tmp/kraft-biome.$$$$; rm -f /tmp/kraft-biome.$$$$; exit 1; }; else echo "biome $(BIOME) is missing: the console's JavaScript is not checked (npm install --global @biomejs/biome@$(BIOME))"; fi
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache >/tmp/kraft-lint-imports.$$$$ 2>&1 && rm -f /tmp/kraft-lint-imports.$$$$ || { cat /tmp/kraft-lint-imports.$$$$; rm -f /tmp/kraft-lint-imports.$$$$; exit 1; }

lint-tidy:
	@$(PY) -m pytest tests/tidy

test: packages check-python setup ## Lint and every test, with a share of the proofs (the whole counts: make soak)
	@$(PY) -m tests.preflight
	@$(MAKE) --no-print-directory lint
	@$(PY) -m jepsen.java.short_lived
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -p tests.guard tests --ignore=tests/tidy --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder --durations=15

quick: check-python setup ## For the loop of work, about a minute: types, style, and the tests nearest to what is changed
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format -q --diff .
	@$(VENV)/bin/mypy
	@$(PY) -m tests.quick

soak: packages check-maven setup ## The full counts of every proof (about 90 minutes)
	@$(PY) -m tests.preflight
	@$(PY) -m tests.soak

flakes: packages check-python setup ## Run test files ROUNDS times beside a load and tell which turned red: make flakes ROUNDS=3 FILES="tests/integration/test_faults.py"
	@$(PY) -m tests.flakes --rounds $(if $(filter file,$(origin ROUNDS)),3,$(ROUNDS)) $(FILES)

fresh-machine: ## Run make demo and make test on new Debian machines, as root and as a user: make fresh-machine WHO=user (needs root)
	@WHO=$(WHO) bash tests/fresh-machine.sh

bench: check-maven setup ## Measure against Apache Kafka in one run; writes docs/benchmarks/
	@worst=0; for part in tests.bench tests.bench.inside tests.bench.tiered tests.bench.cluster tests.bench.spark tests.bench.spark_sink tests.bench.spark_typed tests.bench.spark_archive; do \
		$(PY) -m $$part; code=$$?; worst=$$((code > worst ? code : worst)); \
	done; exit $$worst

simulate: check-machine setup ## Run whole clusters in the simulated world: make simulate SEEDS=20
	@$(PY) -m jepsen.simulate --kind $(KIND) --seeds $(SEEDS)$(if $(VISITS), --visits $(VISITS))

jepsen: check-machine setup ## Tear five real nodes apart for MINUTES=n and judge what their clients saw, as root (TARGET=kafka: Apache Kafka instead; SECURED=1: SASL_SSL between all; WORKLOAD=tiered: an object store that fails, too; WORKLOAD=transactions: exactly once)
	@$(PY) -m jepsen run --target $(TARGET) --workload $(WORKLOAD) --plan swarm --seconds 60 --minutes $(MINUTES)$(if $(SECURED), --secured)

mutants: check-machine setup ## Prove that the simulation bites: each defect of tests/mutants is reached and caught (ONLY="name ...": those)
	@$(PY) -m tests.mutants.hunt$(if $(ONLY), --only $(ONLY))

spark-harness: check-maven setup ## Spark over three nodes while all of it is killed, and everything counted: make spark-harness ROUNDS=20
	@$(PY) -m jepsen.spark --rounds $(ROUNDS)

lake: setup ## A topic to an Iceberg table, killed three times, counted and verified: make lake RECORDS=10000000
	@$(PY) -m jepsen.spark.lake --records $(RECORDS)

record-vectors: check-maven setup ## Record Apache Kafka's answers afresh under tests/vectors
	@$(PY) -m tests.vectors record

constraints: setup ## Write the versions that are installed now to tests/constraints.txt, which make and CI install
	@$(PY) -m pip freeze --exclude-editable --disable-pip-version-check > $(CONSTRAINTS)

release: check-python setup ## Build sdist and wheels of the version into dist/, twice, and check them as strangers get them; TAG=1 makes the git tag (MINORS="12 13": those Pythons; UPLOAD=1: reject what only an upload needs)
	@$(PY) -m tests.release$(if $(MINORS), --minors $(MINORS))$(if $(TAG), --tag)$(if $(UPLOAD), --upload)

pythons: packages ## Run unit tests, laws and the demo under every Python from 3.11 on that this machine has (MINORS="12 13": those)
	@bash tests/pythons.sh

newer-python: ## The same under a Python that this machine lacks, in a root of Debian's SUITE, as root (MINOR=14 SUITE=sid)
	@MINOR=$(MINOR) SUITE=$(SUITE) bash tests/newer-python.sh

drift: check-python ## Install the newest versions that pyproject.toml allows, say which differ, and run lint and unit tests with them
	@$(PYTHON3) -m venv --clear $(DRIFT)
	@$(DRIFT)/bin/python -m pip install -q --disable-pip-version-check --editable ".[dev]"
	@$(DRIFT)/bin/python -m pip freeze --exclude-editable --disable-pip-version-check | diff $(CONSTRAINTS) - || true
	@$(DRIFT)/bin/ruff check .
	@$(DRIFT)/bin/mypy
	@$(DRIFT)/bin/python -m pytest -p tests.guard tests/tidy tests/unit -n $(WORKERS)

docs: setup ## Regenerate the generated pages of docs/
	@$(PY) -m tests.vectors.generate_docs
	@$(PY) -m kraft._tools.generate_config_docs
	@$(PY) -m kraft._tools.generate_dashboards
	@$(PY) -m kraft._tools.draw_architecture
	@$(PY) -m kraft._tools.draw_quorum_roles

site: setup ## Write the documentation as a web site to build/site
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build -f config/site/mkdocs.yml

pictures: setup ## Photograph the console's pages for docs/images, after changes to api/kraft_http/ui (needs chromium)
	@$(PY) -m tests.integration.console_pictures

image: setup ## Build the container image with buildah, run it read-only, and by podman (compose, Testcontainers), as root (PYTHON=NAME: the image to build on)
	@$(if $(PYTHON),PYTHON=$(PYTHON) )bash tests/image.sh
	@bash tests/engine.sh

chart: setup ## Check the Helm chart with helm, and write what it makes: config/deployment/kubernetes.yml
	@$(PY) -m tests.rendered_chart

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis kraft/protocol/records/_usual_records_*.so

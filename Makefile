# Needs Python (3.11 or later), Java (17 or 21) and make; everything else is installed into .venv.
#   make demo PYTHON=/path/to/python3.12 JAVA_HOME=/path/to/jdk-21

PYTHON ?= python3
VENV := .venv
LOCKED := $(VENV)/.locked
STAMP := $(VENV)/.installed
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet
TESTS ?=
# One alone leaves a core idle for a third of the time, waiting. Each process keeps to neighbours as long as it can.
TWO_AT_A_TIME := --numprocesses 2 --dist worksteal
# The system tests of a module share what takes long to set up.
TWO_MODULES_AT_A_TIME := --numprocesses 2 --dist loadfile
BENCH ?=
RUNS ?= 3
CHECK_JSONSCHEMA := build/check-jsonschema/bin/check-jsonschema
# Debian packages of the system tests, each named as its program; that of chromium-driver is chromedriver, that of nodejs node.
SYSTEM_PACKAGES := nginx debootstrap openssl chromium chromium-driver nodejs npm

.DEFAULT_GOAL := help
.PHONY: help demo test test-system faults bench check format lock relock-jars clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: need-java $(STAMP) ## run it all: broker, sample data, service on port 7000; Ctrl-C stops it
	@$(BIN)/leaderboard demo

# What `leaderboard jars` prepares makes each of the many starts of Spark faster, in all that starts it often.
test: need-java $(STAMP) ## run the tests (one file: make test TESTS=tests/app/test_settings.py)
	@$(if $(TESTS),,$(BIN)/leaderboard jars >/dev/null)
	@$(BIN)/pytest $(if $(TESTS),,$(TWO_AT_A_TIME)) $(TESTS)

test-system: need-java need-system $(STAMP) $(CHECK_JSONSCHEMA) ## run the tests that take long or need more from the system
	@$(BIN)/leaderboard jars >/dev/null
	@$(BIN)/pytest -m "system and not faults" $(or $(TESTS),$(TWO_MODULES_AT_A_TIME))

faults: need-java $(STAMP) ## let everything go wrong while events flow; prints a table (takes long)
	@$(BIN)/leaderboard jars >/dev/null
	@$(BIN)/pytest $(TWO_AT_A_TIME) -m faults $(TESTS)

bench: need-java need-wrk need-nginx need-mvn $(STAMP) ## measure; nothing else may run (some: make bench BENCH="drain reads" RUNS=1)
	@$(BIN)/leaderboard jars >/dev/null
	@$(BIN)/python -m benchmarks --runs $(RUNS) --to build/benchmarks.md $(BENCH)

check: $(STAMP) ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(STAMP) ## let ruff format and fix
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

lock: need-python ## renew requirements.lock from pyproject.toml
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/python -m pip install --quiet uv
	@build/uv/bin/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url \
		--no-emit-find-links --python-version 3.11 --extra dev --custom-compile-command "make lock" \
		--output-file requirements.lock pyproject.toml

relock-jars: need-java $(STAMP) ## renew app/java/jars.lock from app/java/ivy.xml
	@$(BIN)/leaderboard jars --relock

clean: ## remove what was built; the jars' cache and ./state stay
	@rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements.lock | need-python
	@echo "Installing the locked dependencies into $(VENV), about a minute"
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
	@$(PIP) --use-pep517 --require-hashes --requirement requirements.lock
	@touch $@

$(STAMP): $(LOCKED) pyproject.toml
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# It brings the schema of the Compose specification, and a YAML parser.
$(CHECK_JSONSCHEMA): | need-python
	@$(PYTHON) -m venv --clear build/check-jsonschema
	@build/check-jsonschema/bin/python -m pip install --disable-pip-version-check --quiet check-jsonschema==0.39.0

# $(error) ends make with exactly one line.
.PHONY: need-python need-java need-wrk need-nginx need-mvn need-system
python_problem = $(shell $(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1 || echo "$(PYTHON) is not a Python 3.11 or later with venv: install one, or name it: make PYTHON=/path/to/python3")
java_problem = $(shell $(if $(JAVA_HOME),JAVA_HOME='$(JAVA_HOME)') $(PYTHON) -m app.java.installed)

need-python:
	$(if $(python_problem),$(error $(python_problem)))

need-java: need-python
	$(if $(java_problem),$(error $(java_problem)))

system_missing = $(strip $(foreach each,$(SYSTEM_PACKAGES),$(if $(shell PATH="$$PATH:/usr/sbin" command -v $(patsubst nodejs,node,$(each:chromium-driver=chromedriver))),,$(each))))
may_install = $(shell [ "$$(id -u)" = 0 ] && command -v apt-get)

read_by_wrk = $(filter reads overload counts peer,$(or $(BENCH),reads overload counts))

need-wrk:
	$(if $(read_by_wrk),$(if $(shell command -v wrk),,$(error the benchmarks that read ($(read_by_wrk)) need wrk: install it, as Debian does with apt-get install wrk)))

need-mvn:
	$(if $(filter peer,$(BENCH)),$(if $(shell command -v mvn),,$(error the benchmark peer is built by Maven and there is no mvn: install it, as Debian does with apt-get install maven)))

need-nginx:
	$(if $(filter reads,$(or $(BENCH),reads)),$(if $(shell PATH="$$PATH:/usr/sbin" command -v nginx),,$(error the benchmark reads needs nginx: install it, as Debian does with apt-get install nginx)))

need-system:
	$(if $(system_missing),$(if $(may_install),,$(error the system tests need $(system_missing): install it, or run this as root on Debian)))
	@$(if $(system_missing),echo "Installing $(system_missing)"; apt-get update -qq && apt-get install --yes -qq --no-install-recommends $(system_missing) >/dev/null)

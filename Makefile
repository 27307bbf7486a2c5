# One command a job; `make help` lists them. Long tests and benchmarks are in scripts/long.mk.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The paths and variables that every tool needs; see scripts/env.sh. All of Rust compiles with --release.
ENV := . scripts/env.sh;
ARGS ?=

.PHONY: help setup build wheel wheel-smoke test test-rust test-python lint fmt demo lock ci

help: ## list the commands
	@grep -hE '^([a-z0-9-]+:.*##|##@)' $(MAKEFILE_LIST) \
	  | sed -E 's/^##@ (.*)/\n\1\t/; s/^([a-z0-9-]+):.*## /  make \1\t/' | awk -F'\t' '{printf "%-21s %s\n", $$1, $$2}'

##@ Every day

setup: ## make .venv and fetch what needs no root
	@scripts/setup

build: setup ## compile the extension (RocksDB too, the first time)
	@scripts/build

wheel: setup ## the package for other environments and executors, into dist/
	@rm -rf dist
	@$(ENV) maturin build --quiet --release --locked --out dist

wheel-smoke: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
wheel-smoke: build ## the wheel, built and used in an environment that has nothing else
	@scripts/wheel-smoke

test: test-rust test-python ## the tests of CI

# CI draws the same cases in each run; `make proof` draws others.
test-rust: export PROPTEST_RNG_SEED ?= 1
test-rust: setup ## the Rust tests; PROPTEST_RNG_SEED=2 draws other cases
	@$(ENV) cargo test --release --locked --workspace \
	  || { echo "drawn with PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED" >&2; exit 1; }

# The JVMs of tests live for seconds: Spark's second compiler would cost 39 % of their time and gain nothing.
test-python: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
test-python: build ## the Python tests; ARGS="-k late" selects some
	@$(ENV) pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: build ## formatters, linters, type checkers, the rules of ARCHITECTURE.md
	@$(ENV) scripts/lint

fmt: setup ## format the sources
	@$(ENV) cargo fmt --all; ruff format .; ruff check --fix-only .

demo: build ## the as-of join on every ECB rate since 1999; ARGS=--kill kills its driver
	@$(ENV) python examples/ecb_orders.py $(ARGS)

lock: setup ## write the lock files
	@$(ENV) scripts/lock

ci: ## what CI runs: lint, test and wheel-smoke
	@.ci/run

include scripts/long.mk

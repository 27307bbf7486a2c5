# One command a job; `make help` lists them. Everything compiles in the one cargo profile, --release.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
ENV := . scripts/env.sh;
ARGS ?=
ROUNDS ?= 10
N ?= 1000
SEED ?=
SOAK_MINUTES ?= 30
EXAMPLES ?= 20
# The whole workspace, so that crates have the features that they have everywhere: others would compile RocksDB again.
PROOF := cargo test --release --locked --workspace

.PHONY: help setup build wheel test test-rust test-python lint fmt bench bench-spark bench-peers bench-full demo crash crash-demo cluster survive soak schedules proof s3 oracles ci ci-full lock

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## make .venv and fetch what can be had without root
	@scripts/setup

build: setup ## compile the extension (the first time also RocksDB)
	@scripts/build

wheel: setup ## the package for other environments and executors, into dist/
	@$(ENV) maturin build --quiet --release --locked --out dist

test: test-rust test-python ## the tests that CI runs, without the long ones (ci-full); ARGS="-k name" goes to pytest

test-rust: setup
	@$(ENV) cargo test --release --locked --workspace

# The JVMs of tests live for seconds to minutes: what the second compiler makes of Spark costs more than it saves, 39 % of all
# processor time in `test_aggregate.py`. Benches and `make demo` keep it.
test-python crash-demo cluster survive soak s3 oracles: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

# Two processes, each with a Spark of its own; in the order of the files, so that the long ones are not the last.
test-python: build
	@$(ENV) pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: build ## formatters, linters, type checkers, architecture rules
	@$(ENV) scripts/lint

fmt: setup ## format the sources
	@$(ENV) cargo fmt --all; ruff format .; ruff check --fix-only .

bench: build ## run the benchmarks and write benches/RESULTS.md
	@$(ENV) python benches/report.py $(ARGS)

bench-spark: build ## that the benches on Spark still run: small inputs, nothing is written
	@$(ENV) python benches/report.py --quick --only spark --output /dev/null

bench-peers: build ## against quixstreams, rocksdict, lmdb, sqlite and Kafka Streams (needs Maven), into the same file
	@$(ENV) python benches/report.py --peers $(ARGS)

bench-full: export HOLDFAST_BENCH_FULL = 1
bench-full: bench bench-peers ## all of them, and 100 million versions

demo: build ## the main job on every ECB rate since 1999; ARGS=--kill kills its own driver in mid-batch
	@$(ENV) python examples/ecb_orders.py $(ARGS)

crash: setup ## N=1000 kills of the stores, each compared with a model; a stopped run goes on, SEED= repeats one database
	@$(ENV) CRASH_KILLS=$(N) CRASH_SEED=$(SEED) CRASH_PROGRESS=$$CARGO_TARGET_DIR/crash-progress $(PROOF) --test kill

crash-demo: build ## the tests that kill Spark, and the demo killed ROUNDS=10 times, each at another moment
	@$(ENV) pytest -m crash tests
	@$(ENV) for seed in $$(seq 1 $(ROUNDS)); do python examples/ecb_orders.py --kill --seed $$seed $(ARGS) | tail -n 1; done

cluster: build ## the tests on standalone clusters of several executors, which kill parts of them
	@$(ENV) pytest -m cluster tests

survive: build ## the long tests: what a query on Spark survives, a transaction of 1 GiB, and the smoke suite on PySpark 4.0
	@$(ENV) pytest -m survive --timeout 1200 tests $(ARGS)
	@$(ENV) scripts/pyspark-versions 4.0

soak: build ## SOAK_MINUTES=30 of all faults on a standalone cluster with two workers; SEED= repeats one
	@$(ENV) python tests/spark/support/soak.py --minutes $(SOAK_MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

schedules: setup ## the publish protocol under shuttle: SCHEDULES=2000 orders of the threads, each another one
	@$(ENV) $(PROOF) --features holdfast-proof/shuttle --test schedules

# Three at once, the long ones first: they wait for the disk and for RocksDB's threads half of the time. They have no deadlines:
# in `ci-full` they give way to Spark, which has.
proof: export CRASH_KILLS = 1000
proof: export POWER_LOSSES = 2000
proof: export DAMAGE_PLACES = 1000
proof: export DISK_ERRORS = 1000
proof: export FAILPOINT_ROUNDS = 10
proof: export FUZZ_TIMES = 20
proof: export EPOCHS = 10000
proof: setup ## the proofs of `make test` at ten to twenty times their length
	@$(ENV) $(PROOF) --no-run
	@$(ENV) printf '%s\n' failpoints damage kill disk_errors power_loss 'session bounded' decoders threads | xargs -P 3 -I {} nice bash -c '$(PROOF) --test {}'
	@$(ENV) SCHEDULES=20000 nice $(PROOF) --features holdfast-proof/shuttle --test schedules

s3: build ## roots, epochs, what a query survives and clusters on an S3 server (needs go and Maven, which fetch it and Spark's client); ARGS=tests/spark/operators/test_process.py others
	@$(ENV) scripts/s3 $(PROOF) --test root --test session
	@$(ENV) scripts/s3 pytest -m "" --timeout 1200 $(or $(ARGS),$(addprefix tests/spark/guarantees/,test_epochs.py test_survive.py test_cluster.py))

oracles: build ## operators on EXAMPLES=20 random streams each against polars, and against the static frame
	@$(ENV) HOLDFAST_EXAMPLES=$(EXAMPLES) pytest --timeout 0 tests/spark/guarantees/test_oracles.py tests/spark/operators/test_aggregate_drawn.py

ci: ## what CI runs
	@.ci/run

ci-full: ci ## and the long ones, but for the soak, and the figures of the benches, which want the machine alone
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target survive proof cluster crash-demo s3 oracles bench-spark

lock: setup ## write the lock files anew
	@$(ENV) "$$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header requirements-dev.in -o requirements-dev.lock
	@$(ENV) "$$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header benches/peers/requirements.in -o benches/peers/requirements.lock
	@$(ENV) cargo update --workspace

# Long tests and benchmarks, included by the Makefile. `make ci-full` runs all tests, and five minutes of the soak.

ROUNDS ?= 10
N ?= 1000
SEED ?=
SOAK_MINUTES ?= 30
EXAMPLES ?= 20
S3_TESTS := tests/spark/test_foreach_batch.py \
  $(addprefix tests/spark/guarantees/,test_epochs.py survive test_cluster.py) \
  tests/spark/reader/test_running.py \
  $(addprefix tests/spark/reader/source/,test_lookup_epochs.py test_changes_stream.py)
FRESH ?=
# The whole workspace: with other features cargo would compile RocksDB again.
PROOF := cargo test --release --locked --workspace

.PHONY: ci-full pyspark-versions crash crash-demo cluster survive soak schedules mutants proof s3 oracles bench bench-spark bench-full

crash-demo cluster survive pyspark-versions soak s3 oracles: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

##@ Long tests (all, with five minutes of the soak: make ci-full)

ci-full: ## CI, then all long tests but those that passed on this commit (FRESH=1: all)
	@FRESH="$(FRESH)" SOAK_MINUTES=5 scripts/ci-full ci survive pyspark-versions proof cluster crash-demo s3 oracles bench-spark soak

# Three of these tests run at a time, the longest first: they wait for the disk half of the time. They have no deadlines, so
# they give way to Spark's tests, which have.
proof: export CRASH_KILLS = 1000
proof: export POWER_LOSSES = 2000
proof: export ROOT_POWER_LOSSES = 2000
proof: export DAMAGE_PLACES = 1000
proof: export DISK_ERRORS = 1000
proof: export FAILPOINT_ROUNDS = 10
proof: export FUZZ_TIMES = 20
proof: export EPOCHS = 10000
proof: setup ## kills, losses of power, damage, disk errors, schedules: 10 to 20 times as many as in CI
	@$(ENV) $(PROOF) --no-run
	@$(ENV) printf '%s\n' failpoints damage kill disk_errors power_loss root_power_loss 'session bounded' decoders threads \
	  | xargs -P 3 -I {} nice bash -c '$(PROOF) --test {}'
	@$(ENV) export PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-$$RANDOM}; \
	  nice $(PROOF) --lib --test operators --test serde --test models \
	  || { echo "drawn with PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED" >&2; exit 1; }
	@$(ENV) SCHEDULES=20000 nice $(PROOF) --features holdfast-proof/shuttle --test schedules

crash: setup ## N=1000 kills of the stores; a stopped run resumes, SEED= repeats one database
	@$(ENV) CRASH_KILLS=$(N) CRASH_SEED=$(SEED) CRASH_PROGRESS=$$CARGO_TARGET_DIR/crash-progress $(PROOF) --test kill

schedules: setup ## the publish protocol under shuttle, in SCHEDULES=2000 orders of the threads
	@$(ENV) $(PROOF) --features holdfast-proof/shuttle --test schedules

mutants: setup ## changes one expression at a time: do tests fail? Hours; a stopped run resumes; ARGS="--minutes 60"
	@$(ENV) python scripts/mutants/run.py $(ARGS)

survive: build ## what a query on Spark survives, a transaction of 1 GiB
	@$(ENV) pytest -m survive --timeout 1200 tests $(ARGS)

pyspark-versions: build ## PySpark 4.0 to 4.3 on Python 3.11 to 3.13; ARGS=4.1-3.12 selects
	@$(ENV) scripts/pyspark-versions $(ARGS)

cluster: build ## standalone clusters of several executors, parts of which are killed
	@$(ENV) pytest -m cluster tests

crash-demo: build ## tests that kill Spark, and the demo killed ROUNDS=10 times
	@$(ENV) pytest -m crash tests
	@$(ENV) for seed in $$(seq 1 $(ROUNDS)); do python examples/ecb_orders.py --kill --seed $$seed $(ARGS) | tail -n 1; done

soak: build ## SOAK_MINUTES=30 of all faults on a standalone cluster; SEED= repeats one
	@$(ENV) python tests/spark/support/soak.py --minutes $(SOAK_MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

s3: build ## roots and queries on an S3 server (needs go and Maven); ARGS=tests/... selects
	@$(ENV) scripts/s3 $(PROOF) --test root --test session
	@$(ENV) scripts/s3 pytest -m "" --timeout 1200 $(or $(ARGS),$(S3_TESTS))

oracles: build ## EXAMPLES=20 random streams an operator, against polars and the static frame
	@$(ENV) HOLDFAST_EXAMPLES=$(EXAMPLES) pytest --timeout 0 tests/spark/guarantees/test_oracles.py tests/spark/operators/test_aggregate_drawn.py

##@ Benchmarks (on a quiet machine)

bench: build ## writes benches/RESULTS.md and RESULTS.svg (needs Maven, redis-server); ARGS="--only rust" tries some and writes nothing
	@$(ENV) python benches/report.py $(ARGS)

bench-full: export HOLDFAST_BENCH_FULL = 1
bench-full: bench ## with the rows that take hours, and the memory of 100 million rows
	@$(ENV) HOLDFAST_INDEX_ROWS=100000000 $(PROOF) --test index_memory -- --nocapture

bench-spark: build ## that the benches on Spark run: small inputs, nothing is written
	@$(ENV) python benches/report.py --quick --only spark

"""Processors in queries; most of the processors are in `processors.py`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pytest
from every_method import BUILDERS, script
from processors import (
    OUT,
    AsksTooMuch,
    Catches,
    CatchesDecoding,
    Chance,
    EveryMethod,
    Fails,
    Hits,
    Keeping,
    Recount,
    Reminders,
    Sums,
    Tickets,
)
from pyspark.errors import PythonException
from streams import Stream, kill_hosts

import holdfast as hf
import holdfast.spark as hfs
from holdfast.spark.worker.processor import task


def processed(stream: Stream, processor, **options):
    asked = {"by": "k", "on": "t", "schema": OUT, "state": stream.state(), "name": "own", **options}
    return hfs.process(stream.source("left"), processor, **asked)


def test_a_null_key_of_a_store_fails_the_micro_batch(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    stream.batch(left=[("a", 4, 4), (None, 5, 5)])
    with pytest.raises(Exception, match="store hits: the key is None"):
        stream.run(processed(stream, Hits()))
    assert stream.batches == {0: [("a", 1), ("a", 2), ("b", 1)]}


def test_batch_calls_continue_after_a_restart(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2), ("a", 3, 3)])
    stream.run(processed(stream, Sums()))
    stream.batch(left=[("a", 4, 4)])
    stream.batch()
    assert stream.run(processed(stream, Sums())) == {0: [("a", 4), ("b", 2)], 1: [("a", 8)], 2: []}
    assert stream.log("own") == dict.fromkeys(range(3), 2)


def test_another_serde_of_a_store_is_refused_after_a_restart(stream: Stream):
    def totals(value: hf.serde.Serde):
        processor = Hits()
        processor.stores = (hf.stores.key_value("hits", key=hf.serde.STRING, value=value),)
        return processed(stream, processor)

    stream.batch(left=[("a", 1, 1)])
    stream.run(totals(hf.serde.INT64))
    stream.batch(left=[("a", 2, 2)])
    with pytest.raises(
        Exception,
        match="operator own: store hits: value: .* serde int64 and is now opened with float64",
    ):
        stream.run(totals(hf.serde.FLOAT64))
    assert stream.run(totals(hf.serde.INT64))[1] == [("a", 2)]


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_retry_does_not_see_the_failed_attempt(stream: Stream, tmp_path, how: str):
    stream.batch(left=[("a", 1, 1), ("a", 2, 2)])
    stream.batch(left=[("a", 3, 3)])
    batches = stream.run(processed(stream, Fails(tmp_path / "failed", how), on=None))
    assert (tmp_path / "failed").exists()
    assert batches == {0: [("a", 1), ("a", 2)], 1: [("a", 3)]}


def test_stored_output_of_a_nondeterministic_processor_is_returned_again(stream: Stream):
    """Each micro-batch is evaluated twice.

    Then the last one's commit is lost, and the next run evaluates it twice more.
    """
    seen: dict[int, list] = {}

    def twice(frame, batch_id: int) -> None:
        first, second = sorted(map(tuple, frame.collect())), sorted(map(tuple, frame.collect()))
        seen.setdefault(batch_id, []).extend([first, second])

    stream.batch(left=[("a", 1, 1), ("b", 2, 2)])
    stream.batch(left=[("a", 3, 3)])
    stream.run(processed(stream, Chance(), deterministic=False), each=twice)
    stream.forget_commit(1)
    stream.run(processed(stream, Chance(), deterministic=False), each=twice)
    assert [len(seen[epoch]) for epoch in (0, 1)] == [2, 4]
    for epoch, rows in ((0, 2), (1, 1)):
        assert len(seen[epoch][0]) == rows
        assert all(again == seen[epoch][0] for again in seen[epoch])
    assert seen[0][0][0] != seen[1][0][0]


def two_draws(stream: Stream, guarantee: str) -> dict[int, list[list]]:
    """The results of two evaluations of a micro-batch by a processor that draws random numbers."""
    stream.batch(left=[("a", 1, 1)])
    stream.batch(left=[("a", 2, 2)])
    state = stream.state(processing_guarantee=guarantee)
    frame = processed(
        stream, Tickets(), state=state, schema="k string, hits bigint, before bigint, drawn bigint"
    )
    seen: dict[int, list[list]] = {}

    def each(frame, epoch):
        first = list(map(tuple, frame.collect()))
        assert kill_hosts()  # the second evaluation runs on a new host
        seen[epoch] = [first, list(map(tuple, frame.collect()))]

    stream.run(frame, each=each)
    return seen


def test_an_evaluation_with_other_results_is_refused(stream: Stream):
    with pytest.raises(Exception, match="own code is not repeatable"):
        two_draws(stream, "exactly_once")


def test_an_evaluation_with_other_results_counts_once_under_at_least_once(stream: Stream):
    seen = two_draws(stream, "at_least_once")
    [[first], [second]] = seen[0]
    assert first != second
    # Both evaluations of epoch 1 start from the state of epoch 0's first evaluation.
    assert [row[:3] for [row] in seen[1]] == [("a", 2, first[3])] * 2


def test_output_stored_under_another_schema_is_named(stream: Stream):
    stream.batch(left=[("a", 1, 1), ("b", 2, 2)])
    stream.run(processed(stream, Chance(), deterministic=False))
    stream.forget_commit(0)
    with pytest.raises(
        Exception,
        match=r"yielded the columns \['k', 'n'\]; its schema has \['k', 'm'\].*`holdfast epoch",
    ):
        stream.run(processed(stream, Chance(), deterministic=False, schema="k string, m bigint"))


@pytest.mark.parametrize(
    "how",
    [pa.table, pa.record_batch, lambda columns: pa.table(columns)[:0]],
    ids=["table", "batch", "none"],
)
def test_a_table_or_batch_may_be_returned(spark, how):
    class Returns:
        stores = ()

        def process(self, batch, ctx):
            return how({"k": ["x"], "n": [7]})

    frame = spark.createDataFrame([("a", 1)], "k string, x int")
    call = hfs.process(frame, Returns(), by="k", schema=OUT, state=hfs.State.scratch(partitions=1))
    expected = how({"k": ["x"], "n": [7]}).to_pylist()
    assert [row.asDict() for row in call.collect()] == expected


def test_slices_of_a_batch_with_structs_in_structs_may_be_returned(spark):
    class Slices:
        stores = ()

        def process(self, batch, ctx):
            rows = pa.record_batch({"s": [{"in": {"n": n}} for n in range(5)]})
            return [rows.slice(0, 2), rows.slice(2, 2), rows.slice(4)]

    frame = spark.createDataFrame([("a", 1)], "k string, x int")
    schema = "s struct<in: struct<n: bigint>>"
    call = hfs.process(
        frame, Slices(), by="k", schema=schema, state=hfs.State.scratch(partitions=1)
    )
    assert [row.s["in"].n for row in call.collect()] == list(range(5))


@pytest.mark.parametrize(
    "given", [pa.array([7]), pa.chunked_array([[7]]), 7], ids=["array", "chunked", "number"]
)
def test_a_result_that_is_no_batch_is_named(given):
    with pytest.raises(
        TypeError, match=f"the processor gave a {type(given).__name__}; wanted: record batches"
    ):
        list(task._batches(given))


def test_the_users_traceback_reaches_the_user(spark):
    frame = spark.createDataFrame([("a", 1)], "k string, x int")

    class Wrong:
        stores = ()

        def process(self, batch, ctx):
            raise LookupError("no such thing as this")

    given = hfs.process(frame, Wrong(), by="k", schema=OUT, state=hfs.State.scratch(partitions=2))
    with pytest.raises(Exception, match="LookupError: no such thing as this") as caught:
        given.collect()
    assert "in process" in str(caught.value)


def test_a_processor_may_catch_a_read_error(spark):
    frame = spark.createDataFrame([("a", 1)], "k string, n int")
    got = hfs.process(
        frame, Catches(), by="k", schema=OUT, state=hfs.State.scratch(partitions=1)
    ).collect()
    assert [(row["n"], "keeps duplicates" in row["k"]) for row in got] == [(1, True)] * 2


@pytest.mark.survive  # it copies several GiB
def test_a_processor_may_catch_the_error_of_a_read_that_is_too_large(spark):
    frame = spark.createDataFrame([("a", 1)], "k string, n int")
    alone, together = hfs.process(
        frame, AsksTooMuch(), by="k", schema=OUT, state=hfs.State.scratch(partitions=1)
    ).collect()
    assert "row 0 of keys: a key or value has 1073741825 bytes" in alone["k"]
    assert "keys has 2147483648 bytes, which is more than can be sent" in together["k"]
    assert (alone["n"], together["n"]) == (1, 1)


def test_a_caught_error_in_decoding_the_result_of_a_write_fails_the_task(spark):
    frame = spark.createDataFrame([("a", 1)], "k string, n int")
    given = hfs.process(
        frame, CatchesDecoding(), by="k", schema=OUT, state=hfs.State.scratch(partitions=1)
    )
    with pytest.raises(Exception, match="this session is finished or closed"):
        given.collect()


def test_timers_fire_in_order_once_over_batches_and_restarts(stream: Stream):
    stream.partitions = 1
    stream.batch(left=[("b", 1, 1), ("a", 1, 2), ("again", 2, 3), ("c", 5, 4)])
    stream.batch(left=[("late", 0, 5), ("z", 12, 6)])
    stream.run(processed(stream, Reminders()), each=keep_order(stream))
    stream.batch(left=[("y", 15, 7)])
    batches = stream.run(processed(stream, Reminders()), each=keep_order(stream))
    assert batches == {
        0: [],
        # At 12 the timers for 10 (late), 11 and 12 fire, ordered by time, then key.
        1: [("late", 10), ("a", 11), ("b", 11), ("again", 12)],
        2: [("again", 13), ("c", 15)],
    }


def keep_order(stream: Stream):
    def each(frame, batch_id: int) -> None:
        stream.batches[batch_id] = [tuple(row) for row in frame.collect()]

    return each


@pytest.mark.parametrize("processor", [Hits(), Sums()])
def test_static_rows_and_any_micro_batches_give_equal_results(stream: Stream, processor):
    rows = [(f"k{n % 7}", n, n) for n in range(60)]
    for start in range(0, 60, 25):
        stream.batch(left=rows[start : start + 25])
    last: dict[str, int] = {}
    for batch in stream.run(processed(stream, processor)).values():
        for key, count in batch:
            last[key] = max(count, last.get(key, 0))
    static = hfs.process(
        stream.spark.createDataFrame(rows, "k string, t int, x int"),
        processor,
        by="k",
        schema=OUT,
        state=hfs.State.scratch(partitions=3),
    )
    expected: dict[str, int] = {}
    for key, count in static.collect():
        expected[key] = max(count, expected.get(key, 0))
    counts = Counter(row[0] for row in rows)
    sums = {key: sum(row[2] for row in rows if row[0] == key) for key in counts}
    assert last == expected == (dict(counts) if isinstance(processor, Hits) else sums)


def test_every_store_method_gives_the_same_as_in_a_database(spark, tmp_path):
    frame = spark.createDataFrame([("a", 1)], "k string, x int")
    state = hfs.State.scratch(partitions=1)
    given = hfs.process(frame, EveryMethod(), by="k", schema="line string", state=state).collect()
    with hf.open(tmp_path / "db", BUILDERS) as task:
        expected = script(task)
    lines = [row["line"] for row in given]
    assert lines[: len(expected)] == expected
    rest = lines[len(expected) :]
    for line, words in zip(
        rest,
        [
            "the epoch commits as a whole",
            "UnsupportedOperationError: store kv",
            "on=",
            "no store 'none'",
        ],
        strict=False,
    ):
        assert words in line
    assert rest[4:] == ["0 0 None 1", "None"]


class Offsets:
    """Returns the offsets and the uncommitted bytes of its store."""

    stores = (hf.stores.key_value("kv"),)

    def process(self, batch, ctx):
        kv = ctx["kv"]
        before = kv.approximate_num_uncommitted_bytes
        kv.put(b"k", bytes(1_000))
        grown = kv.approximate_num_uncommitted_bytes - before
        offsets = [
            kv.committed_offset(of)
            for of in (("log", ctx.partition), ("log", ctx.partition + 1), ("other", ctx.partition))
        ]
        line = f"{ctx.epoch}: {offsets} {before} {1_000 <= grown < 2_000}"
        yield pa.record_batch({"line": [line]})


def test_a_processors_store_has_its_offset_and_its_uncommitted_bytes(stream: Stream):
    for time in range(3):
        stream.batch(left=[("a", time, 1)])
    lines = hfs.process(
        stream.source("left"), Offsets(), by="k", schema="line string", state=stream.state()
    )
    batches = stream.run(lines)
    assert [row[0] for rows in batches.values() for row in rows] == [
        "0: [None, None, None] 0 True",
        "1: [0, None, None] 0 True",
        "2: [1, None, None] 0 True",
    ]


def test_the_example_of_the_docs_runs(stream: Stream):
    page = (Path(__file__).parents[3] / "docs/spark/process.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    visits = stream.source("left").selectExpr("k customer", "t at")
    names = {"__name__": "example", "root": str(stream.root), "visits": visits}
    exec(example, names)
    stream.batch(left=[("ada", 0, 0), ("bob", 60, 0), ("ada", 600, 0)])
    stream.batch(left=[(name, 3_700, 0) for name in ("ada", *"cdefgh")])
    stream.batch(left=[(name, 7_400, 0) for name in "cdefgh"])
    batches = stream.run(names["alarms"])
    assert sorted(row for batch in batches.values() for row in batch if len(row[0]) > 1) == [
        ("ada", 3),
        ("bob", 1),
    ]


def test_a_processor_joins_with_the_current_value_on_arrival(stream: Stream):
    # The docs' example runs case J03 with the input of J01. Each step is a micro-batch.
    page = (Path(__file__).parents[3] / "docs/spark/process.md").read_text()
    processor, joins = (page.split("```python\n")[index].split("```")[0] for index in (1, 3))
    names = {"__name__": "example", "root": str(stream.root)}
    exec(processor.split("HOUR")[0], names)
    names["state"] = stream.state()
    names["orders"] = stream.source("left").selectExpr(
        "k currency", "t at", "CAST(x AS BIGINT) AS `order`"
    )
    names["rates"] = stream.source("right").selectExpr(
        "k currency", "since at", "CAST(n AS DOUBLE) rate"
    )
    exec(joins, names)
    a, b, c, d = 1, 2, 3, 4
    stream.batch(right=[("k", 4, "", a)])
    stream.batch(left=[("k", 5, 1)])
    for time, rate in ((6, b), (8, None), (10, c), (13, None), (7, d)):
        stream.batch(right=[("k", time, "", rate)])
    stream.batch(left=[("k", 6, 2)])
    batches = stream.run(names["joined"])
    assert {epoch: rows for epoch, rows in batches.items() if rows} == {
        1: [(1, float(a))],
        7: [(2, float(d))],
    }


def test_a_late_update_overwrites_a_table_without_versions(stream: Stream):
    # J12: a versioned table would stay red at 5; this one is blue after the late row.
    stream.batch(right=[("k", 5, "red")])
    stream.batch(right=[("k", 3, "blue")])
    state = stream.state()
    changes = hfs.process(
        stream.source("right"), Recount(), by="k", on="since", schema=OUT, state=state, name="table"
    )
    batches = stream.run(
        hfs.aggregate(changes, by="k", aggs={"n": ("sum", "n")}, state=state, name="counts")
    )
    assert batches == {0: [("red", 1)], 1: [("blue", 1), ("red", 0)]}


def _with_stores(stores) -> Keeping:
    processor = Keeping()
    processor.stores = stores
    return processor


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"processor": object()}, TypeError, "processor is a object without a method process"),
        (
            {"processor": Keeping("kv")},
            TypeError,
            "Keeping.stores has a str; wanted: a store builder from holdfast.stores",
        ),
        (
            {"processor": _with_stores(None)},
            TypeError,
            "Keeping.stores is a NoneType; wanted: a sequence of store builders",
        ),
        (
            {"processor": _with_stores(hf.stores.key_value("a"))},
            TypeError,
            "Keeping.stores is a StoreBuilder; wanted: a seq",
        ),
        (
            {"processor": Keeping(hf.stores.key_value("holdfast.x"))},
            ValueError,
            "names that begin with 'holdfast.'",
        ),
        (
            {"processor": Keeping(hf.stores.key_value("a", transactional=False))},
            hf.errors.HoldfastError,
            "'a' is not trans",
        ),
        (
            {"processor": Keeping(hf.stores.key_value("a"), hf.stores.session("a", retention=1))},
            ValueError,
            "two of one name",
        ),
        ({"processor": Keeping(lock=Lock())}, TypeError, "the processor Keeping cannot be pickled"),
        ({"schema": "nonsense nonsense nonsense"}, ValueError, "is no list of columns and types"),
        ({"schema": ""}, ValueError, "schema=''"),
        ({"schema": 7}, TypeError, "schema is a int"),
        ({"schema": "a int, a long"}, ValueError, "two columns of one name: a"),
        ({"schema": "a variant"}, hf.errors.HoldfastError, "column 'a' is variant"),
        ({"processor": Hits}, TypeError, "processor is the class Hits: give an object of it"),
        ({"on": "x"}, ValueError, "on: column 'x' of the given frame is int, not a timestamp"),
        ({"by": []}, ValueError, "by is empty"),
    ],
)
def test_bad_input_is_named_at_the_call(spark, options, error, message):
    frame = spark.createDataFrame([], "k string, t timestamp, x int")
    asked = {"processor": Hits(), "by": "k", "schema": OUT, "state": hfs.State.scratch(), **options}
    with pytest.raises(error, match=message):
        hfs.process(frame, asked.pop("processor"), **asked)


def test_a_null_in_a_not_null_column_is_named(spark):
    class Nulls:
        stores = ()

        def process(self, batch, ctx):
            yield pa.record_batch({"k": batch["k"], "n": pa.nulls(len(batch), pa.int64())})

    frame = spark.createDataFrame([("a", 1)], "k string, x int")
    call = hfs.process(
        frame,
        Nulls(),
        by="k",
        schema="k string, n long NOT NULL",
        state=hfs.State.scratch(partitions=1),
    )
    with pytest.raises(
        PythonException, match="yielded a null in column 'n'; its schema says NOT NULL"
    ):
        call.collect()


@pytest.mark.parametrize(
    ("given", "schema", "message"),
    [
        (
            pa.array([{"b": 1}]),
            "v struct<a: bigint, b: bigint>",
            r"in column 'v'; .*: v has the fields \['b'\]; wanted: \['a', 'b'\]",
        ),
        (
            pa.array([1e300]),
            "v float",
            (
                r"yielded double in column 'v'; its schema has float: v has 1e\+300, "
                r"which float cannot hold"
            ),
        ),
        (
            pa.array(["1"]),
            "v bigint",
            (
                "yielded string in column 'v'; its schema has int64: v is string, which is not "
                "converted to int64"
            ),
        ),
    ],
)
def test_values_that_the_schemas_type_cannot_hold_are_named(spark, given, schema, message):
    class Gives:
        stores = ()

        def process(self, batch, ctx):
            yield pa.record_batch({"v": given})

    frame = spark.createDataFrame([("a", 1)], "k string, x int")
    call = hfs.process(frame, Gives(), by="k", schema=schema, state=hfs.State.scratch(partitions=1))
    with pytest.raises(PythonException, match=message):
        call.collect()


def test_an_invalid_timer_is_named(spark):
    class Silent:
        stores = ()

        def process(self, batch, ctx):
            try:
                ctx.set_timer(5, 1)
            except (TypeError, ValueError) as error:
                yield pa.record_batch({"said": [str(error)]})

    class Fires(Silent):
        def on_timer(self, key, at, ctx):
            return ()

    frame = spark.sql("select 'a' k, timestamp'2024-01-01' t")
    asked = {
        "by": "k",
        "on": "t",
        "schema": "said string",
        "state": hfs.State.scratch(partitions=1),
    }
    silent, fires = (hfs.process(frame, processor, **asked) for processor in (Silent(), Fires()))
    said = [row["said"] for row in silent.union(fires).collect()]
    assert (
        said[0] == "set_timer needs a method of the processor that it calls: on_timer(key, at, ctx)"
    )
    assert said[1].startswith("set_timer: the key 5 does not fit the columns by, k (string): ")

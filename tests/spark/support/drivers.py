"""Processes that run a job, by default `job.py`, as a driver."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from job import Results, number_of
from sequence import Sequence
from streams import Root

JOB = Path(__file__).with_name("job.py")


class Driver:
    """A driver, and the JVM below it."""

    def __init__(
        self,
        folder: Path,
        master: str = "local[2,4]",
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        log: str = "driver.log",
        job: Path = JOB,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder, self.log = folder, folder / log
        arguments = [f"{name}={value}" for name, value in settings.items()]
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(job), str(folder), master, *arguments],
                stdout=said,
                stderr=said,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
            )

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself, or by a kill."""
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kills the driver and its JVM; its workers and its host end by themselves."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: int) -> None:
        """Sends a signal to the driver and to its JVM, which is in the driver's process group."""
        for pid in (*self.jvms(), *(() if self.ended else (self.process.pid,))):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def jvms(self) -> list[int]:
        """The JVM, once it has started."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            parent, group = (int(field) for field in rest.split()[1:3])
            if name == "java" and self.process.pid in (parent, group):
                found.append(int(folder.name))
        return found

    def reason(self) -> str:
        """The last line of its log with an error."""
        errors = [
            line
            for line in self.words(40_000).splitlines()
            if "Error" in line or "Exception" in line
        ]
        return errors[-1][:300] if errors else f"code {self.process.returncode}"

    def words(self, last: int = 4_000) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-last:]


def root(folder: Path) -> Path:
    """The files of a job's root."""
    return Root(folder / "state").files


def committed(folder: Path) -> int:
    """How many micro-batches Spark has committed."""
    commits = root(folder) / "query" / "commits"
    numbers = (
        [int(file.name) for file in commits.iterdir() if file.name.isdecimal()]
        if commits.exists()
        else []
    )
    # Spark removes old ones.
    return max(numbers, default=-1) + 1


def wait_commits(folder: Path, batches: int, driver: Driver) -> None:
    """Waits until that many micro-batches are committed."""
    wait(
        lambda: committed(folder) >= batches or driver.ended,
        f"micro-batch {batches} was not committed",
    )
    assert not driver.ended, driver.words()


def wait(until: Callable[[], bool], what: str, seconds: float = 600) -> None:
    """Waits for a condition; fails with `what` if it is not met in time."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def files_read(folder: Path) -> list[int]:
    """The number of files that each micro-batch has read.

    It is two if a driver was killed between Spark's log of files and that of offsets.
    """
    ends = map(_last_file, _offsets(folder))
    return [end - before for before, end in itertools.pairwise([-1, *ends])]


def files_begun(folder: Path) -> int:
    """The number of files that micro-batches have read, the newest one included."""
    return max(map(_last_file, _offsets(folder)[-1:]), default=-1) + 1


def _offsets(folder: Path) -> list[Path]:
    offsets = root(folder) / "query" / "offsets"
    logs = offsets.iterdir() if offsets.exists() else ()
    return sorted((file for file in logs if file.name.isdecimal()), key=lambda file: int(file.name))


def _last_file(offsets: Path) -> int:
    return json.loads(offsets.read_text().splitlines()[-1])["logOffset"]


class Checked:
    """The committed micro-batches of a running job, each compared once with the model."""

    def __init__(self, sequence: Sequence, folder: Path) -> None:
        self._sequence, self._folder = sequence, folder
        self._model = sequence.cut([])

    def differences(self) -> list[str]:
        """Describes what is lost, doubled or wrong in what was committed since the last call."""
        first, end = len(self._model.batches), committed(self._folder)
        self._model.read(self._sequence, files_read(self._folder)[first:end])
        joined = Results(self._folder / "joined", first)
        totals = Results(self._folder / "totals", first)
        return [
            *_unequal(joined, totals),
            *self._model.differences(joined.rows, totals.rows, first),
        ]

    def rewind(self, epoch: int) -> None:
        """Goes back to before a micro-batch; its results and later ones are removed."""
        self._model = self._sequence.cut(files_read(self._folder)[:epoch])
        for sink in ("joined", "totals"):
            for batch in (self._folder / sink).glob("[0-9]*"):
                if number_of(batch) >= epoch:
                    shutil.rmtree(batch, ignore_errors=True)


def differences(sequence: Sequence, folder: Path) -> list[str]:
    """Describes what is lost, doubled or wrong in the results of the job in the folder."""
    files = files_read(folder)
    if sum(files) != len(sequence.batches):
        return [f"{sum(files)} of {len(sequence.batches)} files were read"]
    joined, totals = Results(folder / "joined"), Results(folder / "totals")
    return _unequal(joined, totals) + sequence.cut(files).differences(joined.rows, totals.rows)


def _unequal(joined: Results, totals: Results) -> list[str]:
    return [
        f"micro-batch {batch} came out in two ways"
        for batch in sorted(joined.unequal | totals.unequal)
    ]

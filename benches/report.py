"""Runs all benchmarks and writes `benches/RESULTS.md`, and its main rows as `RESULTS.svg`.

`make bench`. It refuses to begin on a machine that is not quiet. `--quick` and `--only` are for
trials: they write nothing, unless `--output` is given.

A figure is a ratio of two measurements taken in turns in one run, or an absolute number: the median
of at least five turns, with their range. The sources:

- Rust benches (`benches/rust`, `rust/host/benches`), by criterion: `cargo bench --profile release`
  writes criterion's report into the target folder, and prints one line
  `FIGURE {"measured": …, "against": …, "turns": […], "reach": …, "unit": …, "note": …,
  "settings": …}` a figure;
- Python modules `benches/python/*.py` with `figures(*, quick) -> list[Figure]`;
- Spark modules `benches/spark/*.py` and `benches/spark/reading/*.py`, the same;
- other stores, `benches/peers/*.py`, the same; the peers are fetched or installed
  (Maven and redis-server are needed);
- pytest-benchmark, `benches/python/test_*.py`: the Python calls' own times, and figures.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import noise  # beside this file, as figure.py and picture.py
import picture
from figure import LEAST_TURNS, Figure


def modules(folder: str) -> list[tuple[str, Path]]:
    """The bench modules of a folder, by name."""
    files = sorted((HERE / folder).glob("*.py"))
    return [
        (f"{folder}/{file.stem}", file)
        for file in files
        if not file.stem.startswith(("test_", "_", "conftest"))
    ]


def python_figures(file: Path, *, quick: bool) -> list[Figure]:
    """The figures of one module."""
    spec = importlib.util.spec_from_file_location(f"bench_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python module")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))  # modules of one folder share helpers
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    finally:
        # Spark's workers cannot import it, so its functions must be pickled by value.
        del sys.modules[spec.name]
    found: list[Figure] = module.figures(quick=quick)
    return found


def rust_figures(*, quick: bool) -> list[Figure]:
    """The figures that the Rust benches print."""
    command = ["cargo", "bench", "--profile", "release", "--locked", "--workspace", "--bench", "*"]
    env = {**os.environ, "HOLDFAST_BENCH_QUICK": "1"} if quick else None
    found = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=env) as run:
        for line in run.stdout or ():
            if line.startswith("FIGURE "):
                figure = Figure(**json.loads(line.removeprefix("FIGURE ")))
                print(f"  measured: {figure.measured}", file=sys.stderr, flush=True)
                found.append(figure)
    if run.returncode != 0:
        raise subprocess.CalledProcessError(run.returncode, command)
    return found


def benchmarks(files: list[Path], *, quick: bool) -> tuple[list[dict[str, Any]], bool]:
    """What pytest-benchmark says of the tests in these files, and whether one has failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "benchmark.json"
        command = [sys.executable, "-m", "pytest", *map(str, files), "--override-ini", "addopts="]
        command += ["--override-ini", "timeout=0", "-q", "-p", "no:cacheprovider"]
        command += ["--benchmark-only", "--benchmark-disable-gc", f"--benchmark-json={file}"]
        env = {**os.environ, "HOLDFAST_BENCH_QUICK": "1"} if quick else None
        ended = subprocess.run(command, cwd=ROOT, check=False, stdout=sys.stderr, env=env)
        text = file.read_text() if file.exists() else ""
    found: list[dict[str, Any]] = json.loads(text)["benchmarks"] if text else []
    return found, ended.returncode != 0


def machine() -> str:
    """The machine in a line."""
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    rust = subprocess.run(
        ["rustc", "--version"], check=True, capture_output=True, text=True
    ).stdout.split()[1]
    system = (
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, Rust {rust}"
    )
    return f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}"


def table(figures: list[Figure]) -> list[str]:
    """The figures as Markdown."""
    marks = {True: "yes", False: "**no**", None: ""}
    lines = [
        "| measured | against | median | range | of | goal | met | settings | detail |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for figure in figures:
        ratio = "" if figure.ratio is None else f"**{figure.ratio:.2f}**"
        cells = [
            figure.measured,
            figure.against,
            ratio,
            figure.spread,
            figure.unit,
            figure.reach,
            marks[figure.is_met],
            figure.settings,
            figure.note,
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def calls(found: list[dict[str, Any]]) -> list[str]:
    """The Python calls' own times as Markdown."""
    lines = [
        "## Python calls",
        "",
        "Absolute, by pytest-benchmark; batches are of 10,000 rows.",
        "",
    ]
    lines += ["| call | median | range | calls a second |", "| --- | --- | --- | --- |"]
    for bench in found:
        stats = bench["stats"]
        name = bench["name"].removeprefix("test_").replace("_", " ")
        spread = (
            f"{stats['min'] * 1e6:,.1f} to {stats['max'] * 1e6:,.1f}, {stats['rounds']:,} turns"
        )
        middle = stats["median"]
        lines.append(f"| {name} | {middle * 1e6:,.1f} µs | {spread} | {1 / middle:,.0f} |")
    return [*lines, ""]


def check_turns(figures: list[Figure]) -> None:
    """Raises an error if one has too few turns to be published."""
    for figure in figures:
        if figure.is_too_short:
            raise ValueError(
                f"{figure.measured}: {len(figure.turns)} turns, fewer than {LEAST_TURNS}"
            )


@dataclass
class Results:
    """What a run has measured so far."""

    ours: list[Figure] = field(default_factory=list)
    of_peers: list[Figure] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    """The Python calls, as pytest-benchmark reports them."""
    failed: bool = False
    """Whether a source has failed."""

    def add(self, name: str, measure: Callable[[], list[Figure]], *, quick: bool) -> None:
        """Measures a source. One that fails must not hide the others."""
        print(f"bench: {name}", flush=True)
        start = time.monotonic()
        try:
            found = measure()
            if not quick:
                check_turns(found)
        except Exception:  # noqa: BLE001  # whatever a bench raises
            traceback.print_exc()
            self.failed = True
            found = [Figure(name, "", [], "", "", "failed; see the output of `make bench`")]
        for figure in found:
            print(
                f"  {figure.measured} / {figure.against}: {figure.ratio} ({figure.spread}; goal "
                f"{figure.reach or 'none'}) {figure.note}",
                flush=True,
            )
        print(f"bench: {name} took {time.monotonic() - start:.0f} s", flush=True)
        (self.of_peers if name.startswith("peers") else self.ours).extend(found)

    def of_pytest(self, files: list[Path], *, quick: bool) -> list[Figure]:
        """The figures of pytest-benchmark. Calls without a figure go to `calls`."""
        found, failed = benchmarks(files, quick=quick)
        self.failed |= failed
        self.calls = [bench for bench in found if "figure" not in bench["extra_info"]]
        figures = [bench["extra_info"].get("figure") for bench in found]
        return [Figure(**figure) for figure in figures if figure is not None]


def measure_all(options: argparse.Namespace) -> Results:
    """Measures the sources that the options select."""
    results = Results()
    sources: list[tuple[str, Any]] = [("rust", lambda: rust_figures(quick=options.quick))]
    tests = [
        file
        for file in sorted((HERE / "python").glob("test_*.py"))
        if options.only in f"python/{file.stem}"
    ]
    if tests:
        of_pytest = partial(results.of_pytest, tests, quick=options.quick)
        names = ", ".join(file.stem for file in tests)
        sources.append((f"python/{names}", of_pytest))
    sources += [
        (name, partial(python_figures, file, quick=options.quick))
        for folder in ("python", "spark", "spark/reading", "peers")
        for name, file in modules(folder)
    ]
    for name, measure in sources:
        if options.only in name:
            results.add(name, measure, quick=options.quick)
    return results


def command(options: argparse.Namespace) -> str:
    """The command of this run."""
    arguments = ["--quick"] if options.quick else []
    arguments += [f"--only {options.only}"] if options.only else []
    target = "make bench-full" if "HOLDFAST_BENCH_FULL" in os.environ else "make bench"
    return target + (f' ARGS="{" ".join(arguments)}"' if arguments else "")


def main() -> int:
    """0 if every source could be measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="small inputs and few rounds: to see that it works"
    )
    parser.add_argument(
        "--only",
        default="",
        help="sources whose name contains this: rust, python, spark, peers, or a module",
    )
    parser.add_argument("--output", type=Path, help="where to write; default: benches/RESULTS.md")
    options = parser.parse_args()
    is_trial = options.quick or bool(options.only)
    output = options.output or (None if is_trial else HERE / "RESULTS.md")

    if is_trial and output is not None and output.resolve() == HERE / "RESULTS.md":
        parser.error("RESULTS.md is written by a whole run: give another --output")
    quiet = noise.measured()
    if not quiet.is_quiet and not is_trial:
        print(f"bench: this machine is too loud. {quiet}", file=sys.stderr)
        return 1
    results = measure_all(options)
    lines = [
        "# Results",
        "",
        f"`{command(options)}` on {dt.datetime.now(dt.UTC):%Y-%m-%d}: {machine()}. {quiet}",
        "",
        "Each figure is the median of turns in one run. The range is that of the turns.",
        "",
        *table(results.ours),
        "",
    ]
    if results.calls:
        of_calls = calls(results.calls)
        print("\n".join(of_calls), flush=True)
        lines += of_calls
    if results.of_peers:
        lines += ["## Against others", "", *table(results.of_peers), ""]
    if output is not None:
        output.write_text("\n".join(lines).rstrip("\n") + "\n")
        figures = results.ours + results.of_peers
        image = output.with_suffix(".svg")
        image.write_text(picture.svg(figures, f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {machine()}"))
        print(f"bench: written to {output} and {image}")
        if not is_trial and (missing := picture.missing(figures)):
            print(f"bench: not in the picture: {'; '.join(missing)}", file=sys.stderr)
            return 1
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())

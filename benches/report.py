"""Runs all benchmarks and writes `benches/RESULTS.md`.

`make bench`. It refuses to begin on a machine that is not quiet. `--quick` and `--only` are for
trials: they write nothing, unless `--output` is given.

A figure is a ratio of two measurements taken in turns in one run, or an absolute number: the median
of at least five turns, with their range. The sources:

- Rust benches (`benches/rust`, `rust/host/benches`), by `cargo bench --profile release`, printing
  one line
  `FIGURE {"measured": …, "against": …, "turns": […], "reach": …, "unit": …, "note": …,
  "settings": …}` a figure;
- Python modules `benches/python/*.py` with `figures(*, quick) -> list[Figure]`;
- Spark modules `benches/spark/*.py` and `benches/spark/reading/*.py`, the same;
- other stores, `benches/peers/*.py`, the same; the peers are fetched or installed
  (Maven and redis-server are needed);
- the Python calls' own times, by pytest-benchmark (`benches/python/test_*.py`).
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
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import noise  # beside this file, as figure.py
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
    spec.loader.exec_module(module)
    found: list[Figure] = module.figures(quick=quick)
    return found


def rust_figures(*, quick: bool) -> list[Figure]:
    """The figures that the Rust benches print."""
    command = ["cargo", "bench", "--profile", "release", "--locked", "--workspace", "--bench", "*"]
    env = {**os.environ, "HOLDFAST_BENCH_QUICK": "1"} if quick else None
    output = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env=env
    ).stdout
    lines = [
        line.removeprefix("FIGURE ") for line in output.splitlines() if line.startswith("FIGURE ")
    ]
    return [Figure(**json.loads(line)) for line in lines]


def absolute_figures() -> list[dict[str, Any]]:
    """What pytest-benchmark says of the Python calls."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "benchmark.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "benches/python",
            "--override-ini",
            "addopts=",
            "--benchmark-only",
        ]
        command += [
            "-q",
            "--benchmark-disable-gc",
            f"--benchmark-json={file}",
            "-p",
            "no:cacheprovider",
        ]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found: list[dict[str, Any]] = json.loads(file.read_text())["benchmarks"]
        return found


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


def calls() -> list[str]:
    """The Python calls' own times as Markdown."""
    lines = [
        "## Python calls",
        "",
        "Absolute, by pytest-benchmark; batches are of 10,000 rows.",
        "",
    ]
    lines += ["| call | median | range | calls a second |", "| --- | --- | --- | --- |"]
    for bench in absolute_figures():
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


def measure_all(options: argparse.Namespace) -> tuple[list[Figure], list[Figure], bool]:
    """Returns our own figures, those of peers, and whether a source failed."""
    sources: list[tuple[str, Any]] = [("rust", lambda: rust_figures(quick=options.quick))]
    sources += [
        (name, lambda file=file: python_figures(file, quick=options.quick))
        for folder in ("python", "spark", "spark/reading", "peers")
        for name, file in modules(folder)
    ]
    ours: list[Figure] = []
    of_peers: list[Figure] = []
    failed = False
    for name, measure in sources:
        if options.only not in name:
            continue
        print(f"bench: {name}", flush=True)
        try:
            found = measure()
            if not options.quick:
                check_turns(found)
        except Exception:  # noqa: BLE001  # one source that fails must not hide the others
            traceback.print_exc()
            failed = True
            found = [Figure(name, "", [], "", "", "failed; see the output of `make bench`")]
        for figure in found:
            print(
                f"  {figure.measured} / {figure.against}: {figure.ratio} ({figure.spread}; goal "
                f"{figure.reach or 'none'}) {figure.note}",
                flush=True,
            )
        (of_peers if name.startswith("peers") else ours).extend(found)
    return ours, of_peers, failed


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
    ours, of_peers, failed = measure_all(options)
    lines = [
        "# Results",
        "",
        f"`{command(options)}` on {dt.datetime.now(dt.UTC):%Y-%m-%d}: {machine()}. {quiet}",
        "",
        "Each figure is the median of turns in one run. The range is that of the turns.",
        "",
        *table(ours),
        "",
    ]
    if options.only in "python/test_stores":
        try:
            of_calls = calls()
        except Exception:  # noqa: BLE001  # it must not lose the other figures
            traceback.print_exc()
            failed = True
            of_calls = ["## Python calls", "", "Failed; see the output of `make bench`.", ""]
        print("\n".join(of_calls), flush=True)
        lines += of_calls
    if of_peers:
        lines += ["## Against others", "", *table(of_peers), ""]
    if output is not None:
        output.write_text("\n".join(lines).rstrip("\n") + "\n")
        print(f"bench: written to {output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Mutation tests: changes one expression of the Rust sources at a time and runs the tests.

A change that all tests survive is a rule that no test proves. cargo-mutants names the changes. One
build has them all, each behind a switch, so a mutant costs only the tests until the first failure.
All work is in a clone of HEAD in the cache. A stopped run goes on with the mutants of this commit
that have no result.

    make mutants                             # all groups
    make mutants ARGS="--minutes 60"         # as many as an hour allows
    make mutants ARGS="--group protocol"     # one group
    make mutants ARGS="--report"             # the results so far

The results are lines of number, outcome, test program and mutant in
`<cache>/mutants/<commit>.tsv`. `survivors.txt` lists survivors that no test needs to see, each with
its reason; the command fails if there are others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import switches
from mutants import Mutant, installed, listed, sampled

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast"
# A mutant may loop for ever: a test program has this many times its own time.
PATIENCE = 8
LEAST_SECONDS = 60
CARGO = ("--release", "--locked", "--workspace")
# The tests are compiled once and run often, but most of the time is the compiler's.
SETTINGS = tuple(
    f"--config=profile.release.package.{package}.opt-level=1"
    for package in ("holdfast-core", "holdfast-host", "holdfast-proof")
)


@dataclass(frozen=True)
class Group:
    """Sources whose mutants meet the same test programs, in this order."""

    sources: tuple[str, ...]
    tests: str
    # How many mutants are drawn; None: all.
    sample: int | None = None


_PROTOCOL = (
    "host:ownership_model host:log_object host:root host:balance_model host:holdfast_host "
    "host:protocol_model host:epoch_chain_model host:session host:operators"
)
_HOST = (
    "host:log_object host:root host:holdfast_host proof:synced_paths host:session "
    "proof:root_power_loss host:operators"
)
_CORE = (
    "core:holdfast_core core:database core:write core:close core:failed_commit core:changes "
    "core:foreign core:format core:without_transactions core:read_uncommitted core:memory_expiry "
    "core:windowed_expiry proof:read_errors proof:synced_paths proof:threads core:many_databases "
    "core:index_memory proof:models core:memory_bounds core:spill proof:disk_errors proof:damage "
    "core:versioned proof:discarded proof:kill proof:power_loss proof:failpoints"
)
GROUPS = {
    "protocol": Group(("rust/host/src/protocol/**",), _PROTOCOL),
    "log": Group(("rust/host/src/log/**",), _PROTOCOL),
    "host": Group(("rust/host/src/root/**", "rust/host/src/partition/**"), _HOST, sample=150),
    "core": Group(("rust/core/src/transaction/**", "rust/core/src/database/**"), _CORE, sample=150),
}


class Build:
    """A clone of HEAD that has all mutants, and its test programs."""

    def __init__(self, commit: str) -> None:
        self.folder = CACHE / "mutants"
        self.checkout = self.folder / "checkout"
        self.target = self.folder / "target"
        self.programs_file = self.folder / f"{commit}.programs.json"
        self.mutants = self._listed(commit)

    def _listed(self, commit: str) -> list[Mutant]:
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.checkout, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", ROOT, self.checkout], check=True)
        subprocess.run(["git", "checkout", "--quiet", commit], check=True, cwd=self.checkout)
        sources = {name: group.sources for name, group in GROUPS.items()}
        return listed(installed(CACHE), self.checkout, sources)

    @cached_property
    def programs(self) -> tuple[dict[str, str], set[int]]:
        """The test programs, and the numbers of the mutants that they have.

        Built the first time. Mutants that do not compile are left out.
        """
        if not self.programs_file.exists():
            if not self.target.exists():
                # RocksDB is compiled there already. Cargo compares the times of files.
                shutil.copytree(os.environ["CARGO_TARGET_DIR"], self.target, symlinks=True)
            there = self._put_those_that_compile()
            built = self._cargo("test", "--lib", "--tests", "--no-run")
            if built.returncode:
                raise SystemExit(built.stderr)
            programs = {
                f"{Path(message['manifest_path']).parent.name}:{message['target']['name']}": program
                for message in map(json.loads, built.stdout.splitlines())
                if message["reason"] == "compiler-artifact" and (program := message["executable"])
            }
            self.programs_file.write_text(json.dumps([programs, sorted(there)]))
        programs, numbers = json.loads(self.programs_file.read_text())
        return programs, set(numbers)

    def _put_those_that_compile(self) -> set[int]:
        wanted = {mutant.number: mutant for mutant in self.mutants}
        while True:
            subprocess.run(["git", "checkout", "--quiet", "."], check=True, cwd=self.checkout)
            there = switches.put_all(self.checkout, wanted.values())
            checked = self._cargo("check", "--lib")
            if checked.returncode == 0:
                return there
            faulty = self._faulty(checked.stdout) & wanted.keys()
            if not faulty:
                raise SystemExit(checked.stderr)
            for number in faulty:
                del wanted[number]
            print(f"{len(wanted)} mutants compile so far", file=sys.stderr)

    def _faulty(self, messages: str) -> set[int]:
        """Returns the mutants to which the compiler's errors belong."""
        faulty: set[int] = set()
        for message in map(json.loads, messages.splitlines()):
            error = message.get("message")
            if message["reason"] != "compiler-message" or error["level"] != "error":
                continue
            for span in (span for span in error["spans"] if span["is_primary"]):
                source = (self.checkout / span["file_name"]).read_bytes()
                found = [
                    (match.start(), int(match[1]))
                    for match in re.finditer(rb"is_mutant__\((\d+)\)", source)
                ]
                if "non-exhaustive" in error["message"]:  # the span is of what is matched
                    faulty |= {n for start, n in found[::-1] if start > span["byte_start"]}
                    continue
                before = [number for start, number in found if start < span["byte_end"]]
                faulty |= set(before[-1:])
        return faulty

    def _cargo(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nice", "cargo", command, *CARGO, *arguments, *SETTINGS, "--message-format=json"],
            cwd=self.checkout,
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "CARGO_TARGET_DIR": str(self.target), "CARGO_INCREMENTAL": "1"},
        )

    def run(self, program: str, path: str, mutant: int, seconds: float) -> str:
        """Returns how a test program ends: KILLED by a test, SURVIVED, or TIMEOUT."""
        tests = subprocess.Popen(
            ["nice", path, "--quiet", "--test-threads=2"],
            cwd=self.checkout / "rust" / program.split(":", maxsplit=1)[0],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, switches.VARIABLE: str(mutant)},
            start_new_session=True,
        )
        try:
            return "KILLED" if tests.wait(seconds) else "SURVIVED"
        except subprocess.TimeoutExpired:
            return "TIMEOUT"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(tests.pid, signal.SIGKILL)
            tests.wait()


class Results:
    """The outcomes of mutants of one commit, by number."""

    def __init__(self, commit: str) -> None:
        self.file = CACHE / "mutants" / f"{commit}.tsv"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        self.outcomes = {int(line.split("\t")[0]): line.split("\t")[1] for line in lines}

    def add(self, mutant: Mutant, outcome: str, program: str) -> None:
        """Adds an outcome to the file."""
        self.outcomes[mutant.number] = outcome
        with self.file.open("a") as results:
            results.write(f"{mutant.number}\t{outcome}\t{program}\t{mutant.name}\n")


def test_one(build: Build, mutant: Mutant, limits: dict[str, float]) -> tuple[str, str]:
    """Returns the outcome of a mutant, and the program whose tests did not pass."""
    programs, there = build.programs
    if mutant.number not in there:
        return "UNVIABLE", ""
    for program in GROUPS[mutant.group].tests.split():
        outcome = build.run(program, programs[program], mutant.number, limits[program])
        if outcome != "SURVIVED":
            return outcome, program
    return "SURVIVED", ""


def limits_of(build: Build, groups: list[str]) -> dict[str, float]:
    """Returns the seconds that each test program may take, from its time without a mutant."""
    programs, _ = build.programs
    limits: dict[str, float] = {}
    for program in {test for name in groups for test in GROUPS[name].tests.split()}:
        began = time.monotonic()
        if build.run(program, programs[program], 0, float("inf")) != "SURVIVED":
            raise SystemExit(f"{program} fails without a mutant")
        limits[program] = max(LEAST_SECONDS, PATIENCE * (time.monotonic() - began))
    return limits


def accepted() -> dict[str, str]:
    """Returns the reasons of the survivors that no test needs to see, by key."""
    lines = (HERE / "survivors.txt").read_text().splitlines()
    pairs = (line.split(" # ", 1) for line in lines if line and not line.startswith("#"))
    return {key.strip(): reason for key, reason in pairs}


def report(name: str, drawn: list[Mutant], results: Results) -> int:
    """Prints the outcomes of a group; returns how many survivors have no reason."""
    outcomes = results.outcomes
    counts = Counter(outcomes.get(mutant.number, "not run") for mutant in drawn)
    print(f"{name}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    reasons, unknown = accepted(), 0
    for mutant in drawn:
        if outcomes.get(mutant.number) == "SURVIVED":
            reason = reasons.get(mutant.key)
            unknown += reason is None
            print(f"  survived: {mutant.name} # {reason or 'NO REASON'}")
    return unknown


def main() -> None:
    """Runs the groups that are asked for, and prints their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=480)
    parser.add_argument("--seed", type=int, default=1, help="of the samples")
    parser.add_argument("--group", choices=GROUPS, action="append", help="default: all")
    parser.add_argument("--report", action="store_true", help="print the results so far")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    names = arguments.group or list(GROUPS)
    build, results = Build(commit), Results(commit)
    drawn = {
        name: sampled(
            [mutant for mutant in build.mutants if mutant.group == name],
            GROUPS[name].sample,
            arguments.seed,
        )
        for name in names
    }
    if not arguments.report:
        limits = limits_of(build, names)
        left = [m for name in names for m in drawn[name] if m.number not in results.outcomes]

        def test(mutant: Mutant) -> None:
            if time.monotonic() < end:
                results.add(mutant, *test_one(build, mutant, limits))
                print(f"{len(results.outcomes)} mutants have a result", file=sys.stderr)

        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as tests:
            list(tests.map(test, left))
    if sum([report(name, drawn[name], results) for name in names]):
        raise SystemExit("survivors without a reason: write a test, or a line in survivors.txt")


if __name__ == "__main__":
    main()

"""The arrows of ARCHITECTURE.md between crates; only one folder uses the RocksDB crate."""

import re
import subprocess
import sys

import tracked
from tracked import ROOT

# crate -> what it must not depend on, directly or through another crate
FORBIDDEN = {
    "holdfast-core": {"pyo3", "tokio", "object_store", "holdfast-host", "holdfast-python"},
    "holdfast-host": {"pyo3", "axum", "holdfast-gateway", "holdfast-python"},
    "holdfast-gateway": {"pyo3", "holdfast-python"},
}


def dependencies(crate: str) -> set[str]:
    """The direct and indirect dependencies of a crate, without those of its tests."""
    command = [
        "cargo",
        "tree",
        "--locked",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "-p",
        crate,
    ]
    lines = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {line.split()[0] for line in lines if line} - {crate}


def main() -> int:
    """Prints each broken rule; 1 if there is any."""
    problems: list[str] = []
    for crate, forbidden in FORBIDDEN.items():
        problems += [
            f"{crate} must not depend on {name}" for name in sorted(dependencies(crate) & forbidden)
        ]
    allowed = ROOT / "rust/core/src/rocks"
    for source in sorted((ROOT / "rust").rglob("*.rs")):
        # Benches measure against RocksDB itself, and one test makes a database of another program.
        speaks = "benches" in source.parts or source == ROOT / "rust/core/tests/foreign.rs"
        if source.is_relative_to(allowed) or speaks:
            continue
        text = source.read_text()
        if re.search(r"\brust_rocksdb\b|\blibrocksdb_sys\b", re.sub(r"//.*", "", text)):
            problems.append(
                f"{source.relative_to(ROOT)} names the RocksDB crate; only rust/core/src/rocks may"
            )
    return tracked.report(problems)


if __name__ == "__main__":
    sys.exit(main())

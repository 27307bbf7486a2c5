"""The arrows of ARCHITECTURE.md, checked: python -> rust/python -> rust/host -> rust/core, and RocksDB behind one folder."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# crate -> what it must not depend on, directly or through another crate
FORBIDDEN = {
    "holdfast-core": {"pyo3", "tokio", "object_store", "holdfast-host", "holdfast-python"},
    "holdfast-host": {"pyo3", "holdfast-python"},
}


def dependencies() -> dict[str, set[str]]:
    """Every crate of the lock file's resolution with all crates below it, development dependencies left out."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    direct = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    below: dict[str, set[str]] = {}
    for crate, name in names.items():
        seen: set[str] = set()
        todo = [crate]
        while todo:
            for dep in direct[todo.pop()]:
                if dep not in seen:
                    seen.add(dep)
                    todo.append(dep)
        below[name] = {names[dep] for dep in seen}
    return below


def main() -> int:
    """Prints each broken rule; 1 if there is any."""
    problems: list[str] = []
    below = dependencies()
    for crate, forbidden in FORBIDDEN.items():
        problems += [f"{crate} must not depend on {name}" for name in sorted(below[crate] & forbidden)]
    allowed = ROOT / "rust/core/src/rocks"
    for source in sorted((ROOT / "rust").rglob("*.rs")):
        # Benches measure against RocksDB itself, so they may speak to it.
        if source.is_relative_to(allowed) or "benches" in source.parts:
            continue
        text = source.read_text()
        if re.search(r"\brust_rocksdb\b|\blibrocksdb_sys\b", re.sub(r"//.*", "", text)):
            problems.append(f"{source.relative_to(ROOT)} names the RocksDB crate; only rust/core/src/rocks may")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

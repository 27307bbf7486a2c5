"""Rust files of at most 400 lines, Rust structs of at most 10 fields, folders of at most 12 files.

An exception is a row of the table "Exceptions" in ARCHITECTURE.md, with its reason.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import tracked
from rust_source import Crate
from tracked import ROOT

LINES, FILES, FIELDS = 400, 12, 10


def exceptions(page: str) -> set[str]:
    """What the table names: a path, or a type as `path::Type`."""
    _, _, table = page.partition("\n## Exceptions\n")
    table, _, _ = table.partition("\n## ")
    return set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))


def problems(root: Path, files: list[str], allowed: set[str]) -> list[str]:
    """What is too large and has no exception, and exceptions that are no longer needed."""
    large: dict[str, str] = {}
    for file in files:
        if file.endswith(".rs"):
            lines = len((root / file).read_text().splitlines())
            if lines > LINES:
                large[file] = f"{lines} lines, at most {LINES}"
    folders = Counter(str(Path(file).parent) for file in files if file.endswith((".rs", ".py")))
    for folder, count in folders.items():
        if count > FILES:
            large[folder] = f"{count} source files, at most {FILES}"
    for source in sorted(root.glob("rust/*/src")):
        for module in Crate(source).modules.values():
            for item in module.types:
                if item.fields > FIELDS:
                    name = f"{module.path.relative_to(root)}::{item.name}"
                    large[name] = f"{item.fields} fields, at most {FIELDS}"
    found = [f"{name}: {words}" for name, words in sorted(large.items()) if name not in allowed]
    stale = [f"ARCHITECTURE.md: {name} needs no exception" for name in sorted(allowed - set(large))]
    return found + stale


def main() -> int:
    """Prints what is too large and exceptions that are not needed; 1 if there is anything."""
    allowed = exceptions((ROOT / "ARCHITECTURE.md").read_text())
    return tracked.report(problems(ROOT, tracked.files("*.rs", "*.py"), allowed))


if __name__ == "__main__":
    sys.exit(main())

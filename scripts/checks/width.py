"""Lines of at most 100 columns in Rust and Python; rustfmt leaves comments and strings alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 100


def problems(name: str, text: str) -> list[str]:
    """The lines of a file that are too wide."""
    widths = enumerate(map(len, text.splitlines()), start=1)
    return [f"{name}:{number}: {width} columns" for number, width in widths if width > COLUMNS]


def main() -> int:
    """Prints each line that is too wide; 1 if there is any."""
    command = ["git", "ls-files", "*.rs", "*.py", "*.pyi"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: list[str] = []
    for file in listed.stdout.splitlines():
        if (ROOT / file).exists():
            found += problems(file, (ROOT / file).read_text())
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

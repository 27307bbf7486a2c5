"""Lines of at most 100 columns in Rust and Python; rustfmt leaves comments and strings alone."""

from __future__ import annotations

import sys

import tracked

COLUMNS = 100


def problems(name: str, text: str) -> list[str]:
    """The lines of a file that are too wide."""
    widths = enumerate(map(len, text.splitlines()), start=1)
    return [f"{name}:{number}: {width} columns" for number, width in widths if width > COLUMNS]


def main() -> int:
    """Prints each line that is too wide; 1 if there is any."""
    files = tracked.files("*.rs", "*.py", "*.pyi")
    return tracked.report(
        line for file in files for line in problems(file, (tracked.ROOT / file).read_text())
    )


if __name__ == "__main__":
    sys.exit(main())

"""Files that pages and comments name exist: `open.rs`, `docs/design/spill.md`."""

from __future__ import annotations

import re
import sys

import tracked
from tracked import ROOT

# In backticks, or as a link's target; a name alone or with the end of its path.
NAMED = re.compile(r"`([\w./+-]*\w\.(?:rs|pyi?|md))`|\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def problems(page: str, text: str, files: set[str]) -> list[str]:
    """The files that a text names and that are not there, a line each."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        for match in NAMED.finditer(line):
            name = match.group(1) or match.group(2)
            parts = [part for part in name.split("/") if part not in {".", ".."}]
            ending = "/".join(parts)
            if ending not in files and not any(file.endswith(f"/{ending}") for file in files):
                found.append(f"{page}:{number}: there is no {name}")
    return found


def main() -> int:
    """Prints each name without a file; 1 if there is any."""
    files = set(tracked.files())
    # The changelog names what was there; the test of this check names what is not.
    left_out = {"CHANGELOG.md", "tests/checks/test_checks.py"}
    found: list[str] = []
    for file in sorted(files - left_out):
        if file.endswith((".md", ".rs", ".py", ".pyi")):
            found += problems(file, (ROOT / file).read_text(), files)
    return tracked.report(found)


if __name__ == "__main__":
    sys.exit(main())

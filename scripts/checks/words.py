"""Words that ARCHITECTURE.md's glossary replaced: in identifiers, file names, headings, comments.

People review prose; of its words, this check finds only those that are never right.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path

import tracked
from rust_source import Crate
from tracked import ROOT

# As a part of an identifier, of a file's name or of a heading.
NAMES = {
    *("shelf", "gate", "tally", "aside", "careless", "mishap", "reached", "kept"),
    *("told", "hear", "heard", "doubt", "torn", "whoever"),
}
# Anywhere in a comment, a docstring, a message or a page.
PROSE = re.compile(r"\b(whoever|whosever|nobody|somebody|lest|whatever it is)\b", re.IGNORECASE)


def parts(identifier: str) -> set[str]:
    """The words of an identifier or of a file's name."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def in_name(path: str) -> list[str]:
    """The replaced words in a file's name, a line each."""
    return [f"{path}: the name has {word!r}" for word in sorted(parts(Path(path).stem) & NAMES)]


def in_identifiers(path: str, identifiers: dict[str, int]) -> list[str]:
    """The replaced words in identifiers, a line each."""
    return [
        f"{path}:{line}: {identifier} has {word!r}"
        for identifier, line in identifiers.items()
        for word in sorted(parts(identifier) & NAMES)
    ]


def in_prose(path: str, text: str) -> list[str]:
    """The words in a text that are never right, a line each."""
    return [
        f"{path}:{number}: {match.group(0)!r}"
        for number, line in enumerate(text.splitlines(), start=1)
        for match in PROSE.finditer(line)
    ]


def in_headings(path: str, text: str) -> list[str]:
    """The replaced words in a page's headings, a line each."""
    return [
        f"{path}:{number}: the heading has {word!r}"
        for number, line in enumerate(text.splitlines(), start=1)
        if re.match(r"#+ ", line)
        for word in sorted(parts(line) & NAMES)
    ]


def python_identifiers(text: str) -> dict[str, int]:
    """The names in a Python file, with their first lines."""
    found: dict[str, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            found.setdefault(token.string, token.start[0])
    return found


def main() -> int:
    """Prints each place; 1 if there is any."""
    # The changelog says what things were called; this file and its test name the words.
    left_out = {"CHANGELOG.md", "scripts/checks/words.py", "tests/checks/test_checks.py"}
    found: list[str] = []
    for file in tracked.files("*.rs", "*.py", "*.pyi", "*.md"):
        if file in left_out:
            continue
        text = (ROOT / file).read_text()
        found += in_name(file) + in_prose(file, text)
        if file.endswith(".md"):
            found += in_headings(file, text)
        elif not file.endswith(".rs"):
            found += in_identifiers(file, python_identifiers(text))
    for source in sorted((ROOT / "rust").glob("*/src")):
        for module in Crate(source).modules.values():
            found += in_identifiers(str(module.path.relative_to(ROOT)), module.identifiers)
    return tracked.report(found)


if __name__ == "__main__":
    sys.exit(main())

"""What README says that the demo prints, and what it prints, without speeds and sizes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MEASURED = ("rows a second", "state size", "time to restart", "total time")


def of_readme() -> list[str]:
    """The sections of the block `<!-- demo output -->`; "…" is for lines that are left out."""
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"<!-- demo output -->\n```\n(.*?)```", text, re.DOTALL)
    return _sections(block)


def of_demo(printed: str, folder: Path) -> list[str]:
    """The sections of what the demo printed that ran in this folder."""
    # In a checkout the command is not installed.
    printed = printed.replace(f"{sys.executable} -m holdfast", "holdfast")
    return _sections(printed.replace(str(folder), "/tmp/demo"))


def _sections(text: str) -> list[str]:
    text = re.sub(r" +[\d,]+ orders/s$", "", text, flags=re.MULTILINE)
    text = re.sub(rf"^(  (?:{'|'.join(MEASURED)})) .*$", r"\1", text, flags=re.MULTILINE)
    return [section.strip("\n") for section in text.split("\n\n")]

"""Subjects of commits: at most 72 characters, since the commit that `.git-blame-ignore-revs` names.

As a hook: `ln -s ../../scripts/checks/commit-msg .git/hooks/commit-msg`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tracked
from tracked import ROOT

LONGEST = 72


def problems(subjects: list[str]) -> list[str]:
    """The subjects that are too long."""
    long = (subject for subject in subjects if len(subject) > LONGEST)
    return [f"{len(subject)} characters: {subject}" for subject in long]


def main(arguments: list[str]) -> int:
    """Prints each subject that is too long; 1 if there is any.

    With the name of a file, only the message in this file is checked.
    """
    if arguments:
        subjects = Path(arguments[0]).read_text().splitlines()[:1]
    else:
        lines = (ROOT / ".git-blame-ignore-revs").read_text().splitlines()
        first = next(line for line in lines if line and not line.startswith("#"))
        command = ["git", "log", "--no-merges", "--format=%s", f"{first}.."]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        subjects = listed.stdout.splitlines()
    found = problems(subjects)
    if found:
        found.append("The why goes into the body. A hook: see scripts/checks/subjects.py")
    return tracked.report(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

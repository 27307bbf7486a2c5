"""One thing, one name: a public type's name occurs once in its crate.

Public is a type with `pub`, also with `pub(crate)` or `pub(super)`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING

import tracked
from rust_source import Crate
from tracked import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def problems(source: Path) -> list[str]:
    """The names of public types that another type of the crate has, too, a line each."""
    places: dict[str, list[str]] = defaultdict(list)
    public: set[str] = set()
    for module in Crate(source).modules.values():
        for item in module.types:
            places[item.name].append(f"{module.path}:{item.line}")
            if item.is_visible:
                public.add(item.name)
    return [
        f"{name} is the name of {len(places[name])} types: {', '.join(places[name])}"
        for name in sorted(public)
        if len(places[name]) > 1
    ]


def main() -> int:
    """Prints each name that is taken twice; 1 if there is any."""
    crates = sorted((ROOT / "rust").glob("*/src"))
    return tracked.report(line for source in crates for line in problems(source))


if __name__ == "__main__":
    sys.exit(main())

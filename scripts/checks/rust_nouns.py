"""One thing, one name: a public type's name occurs once in its crate."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from rust_source import Crate

ROOT = Path(__file__).resolve().parents[2]


def problems(source: Path) -> list[str]:
    """The names that two public types of a crate share, a line each."""
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
    found = [line.replace(f"{ROOT}/", "") for source in crates for line in problems(source)]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

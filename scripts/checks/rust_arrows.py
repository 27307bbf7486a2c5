"""The arrows of ARCHITECTURE.md between Rust modules: to earlier rooms only, and no circles.

A room is a top-level module of a crate, with all below it. A re-export is no arrow; what uses it
points to the file that defines the name.
"""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import tracked
from rust_source import Crate
from tracked import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# From the lowest room to the highest; the rooms of one row do not use each other.
ROOMS = {
    "core": [
        {"error", "time", "sync"},
        {"offset", "failpoint", "table"},
        {"position", "expiry"},
        {"store_spec"},
        {"metrics"},
        {"rocks"},
        {"transaction"},
        {"store"},
        {"column"},
        {"serde"},
        {"database"},
    ],
    "host": [
        {"protocol", "codec", "memory", "executor", "logging", "machine", "cancellation"},
        {"log", "net"},
        {"root"},
        {"partition"},
        {"operator"},
        {"tables"},
        {"host"},
        {"session"},
        {"server", "client", "reader"},
    ],
    "gateway": [
        {"problem", "settings"},
        {"request", "response", "state"},
        {"routes"},
        {"endpoints", "page"},
        {"server"},
    ],
    "proof": [],
    "python": [],
}


def problems(source: Path, rooms: list[set[str]]) -> list[str]:
    """What is wrong in a crate, a line each."""
    crate = Crate(source)
    arrows = {name: crate.references(module) for name, module in crate.modules.items()}
    found = _upward(crate, arrows, rooms) if rooms else []
    found += _circles(crate, {name: to for name, to in arrows.items() if name})
    return found


def _upward(crate: Crate, arrows: dict, rooms: list[set[str]]) -> list[str]:
    height = {room: number for number, row in enumerate(rooms) for room in row}
    found = []
    for module, targets in arrows.items():
        if not module:
            continue
        if module[0] not in height:
            found.append(f"{crate.modules[module].path}: {module[0]} has no place among the rooms")
            continue
        for target in targets:
            if target and target[0] != module[0] and height[module[0]] <= height.get(target[0], 99):
                here, there = crate.modules[module].path, crate.modules[target].path
                found.append(f"{here} uses {there}: {module[0]} is below {target[0]}")
    return sorted(found)


def _circles(crate: Crate, arrows: dict) -> list[str]:
    found = []
    graph = {name: set(targets) - {()} for name, targets in arrows.items()}
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1]
            found.append("circle: " + " -> ".join(str(crate.modules[name].path) for name in circle))
            # graphlib names a circle from what is used to what uses it: cut one arrow, look again.
            graph[circle[1]].discard(circle[0])
        else:
            return found


def main() -> int:
    """Prints each wrong arrow; 1 if there is any."""
    return tracked.report(
        line
        for crate, rooms in ROOMS.items()
        for line in problems(ROOT / "rust" / crate / "src", rooms)
    )


if __name__ == "__main__":
    sys.exit(main())

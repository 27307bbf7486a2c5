"""`make mutants`: each mutant stands behind a switch, and the source is the same without it."""

from __future__ import annotations

import switches
from mutants import Mutant

SOURCE = """\
const fn least(a: u32, b: u32) -> u32 {
    match a < b && !is_odd(b) {
        true if a + b > 1 => a,
        _ => b,
    }
}
"""
EXPECTED = """\
fn least(a: u32, b: u32) -> u32 { if @(1) { return 0; }
    match (if @(2) { a < b || !is_odd(b) } else { (if @(3) { a == b } else { a < b }) && \
(if @(4) { is_odd(b) } else { !is_odd(b) }) }) {
        true if !@(6) && ((if @(5) { true } else { a + b > 1 })) => a,
        _ => b,
    }
}
"""


def test_all_kinds_of_mutants_are_put_into_one_source(tmp_path):
    (tmp_path / "rust/core/src").mkdir(parents=True)
    (tmp_path / "rust/core/src/lib.rs").write_text("mod least;\n")
    file = "rust/core/src/least.rs"
    (tmp_path / file).write_text(SOURCE)
    kinds = [
        ("FnValue", "0", 2, 5, 5, 6),
        ("BinaryOperator", "||", 2, 17, 2, 19),
        ("BinaryOperator", "==", 2, 13, 2, 14),
        ("UnaryOperator", "", 2, 20, 2, 21),
        ("MatchArmGuard", "true", 3, 17, 3, 26),
        ("MatchArm", "", 3, 9, 3, 31),
        ("StructField", "", 2, 5, 2, 6),
    ]
    mutants = [
        Mutant(number, "core", f"{file}:1:1: x", file, genre, text, (line, column), (last, end))
        for number, (genre, text, line, column, last, end) in enumerate(kinds, 1)
    ]
    assert switches.put_all(tmp_path, mutants) == {1, 2, 3, 4, 5, 6}
    changed = (tmp_path / file).read_text().replace("crate::is_mutant__", "@")
    assert changed.split() == EXPECTED.split()
    assert "fn is_mutant__" in (tmp_path / "rust/core/src/lib.rs").read_text()
    assert mutants[0].key == f"{file}: x"

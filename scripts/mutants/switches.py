"""Puts mutants into Rust sources, each behind a switch that an environment variable sets.

So all mutants need one build, and a run of the tests selects one of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import tree_sitter
import tree_sitter_rust

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mutants import Mutant

VARIABLE = "HOLDFAST_MUTANT"
_FUNCTION = f"""
#[doc(hidden)]
#[inline(never)]
pub(crate) fn is_mutant__(number: u32) -> bool {{
    static SELECTED: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {{
        std::env::var("{VARIABLE}").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
    }});
    *SELECTED == number
}}
"""
_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
# Where several texts are put at one place, they stand in this order.
_BODY, _CLOSE, _GUARD, _OPEN = range(4)


def switch(mutant: Mutant) -> str:
    """Returns the expression that is true if the mutant is selected."""
    return f"crate::is_mutant__({mutant.number})"


def put_all(checkout: Path, mutants: Iterable[Mutant]) -> set[int]:
    """Changes the sources of a checkout; returns the numbers of the mutants that they have now.

    A mutant that deletes a field of a struct, or whose expression is within a macro, is left out.
    """
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    there: set[int] = set()
    for file, of_file in by_file.items():
        source = _Source((checkout / file).read_bytes())
        there |= {mutant.number for mutant in of_file if source.put(mutant)}
        (checkout / file).write_bytes(source.text())
    for crate in {file.split("/src/")[0] for file in by_file}:
        root = checkout / crate / "src/lib.rs"
        root.write_text(root.read_text() + _FUNCTION)
    return there


class _Source:
    """A source file and the texts that are put into it."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.root = _PARSER.parse(source).root_node
        # Replaced expressions: their mutants by start and end.
        self.replaced: dict[tuple[int, int], list[tuple[Mutant, bytes]]] = defaultdict(list)
        # Position, order, and text; or the end of a text that is left out.
        self.texts: list[tuple[int, tuple[int, int], bytes | int]] = []

    def put(self, mutant: Mutant) -> bool:
        start, end = self._offset(mutant.start), self._offset(mutant.end)
        node = self.root.descendant_for_byte_range(start, end)
        place = {
            "FnValue": self._put_value,
            "BinaryOperator": self._put_operator,
            "UnaryOperator": self._put_operator,
            "MatchArm": self._put_arm,
            "MatchArmGuard": self._put_guard,
        }.get(mutant.genre)
        is_put = node is not None and place is not None and place(mutant, node, start, end)
        if is_put:
            self._leave_out_const(node)
        return is_put

    def text(self) -> bytes:
        """Returns the source with all texts."""
        texts = list(self.texts)
        for (start, end), of_expression in self.replaced.items():
            # Nested expressions: the longest opens first, the shortest closes first.
            opening = b"".join(
                f"if {switch(mutant)} {{ ".encode() + text + b" } else "
                for mutant, text in of_expression
            )
            texts.append((start, (_OPEN, -end), b"(" + opening + b"{ "))
            texts.append((end, (_CLOSE, -start), b" })"))
        parts, last = [], 0
        for position, _, text in sorted(texts, key=lambda text: text[:2]):
            parts.append(self.source[last:position])
            last = position
            if isinstance(text, bytes):
                parts.append(text)
            else:
                last = text
        return b"".join([*parts, self.source[last:]])

    def _offset(self, place: tuple[int, int]) -> int:
        line, column = place
        before = sum(map(len, self.lines[: line - 1]))
        return before + len(self.lines[line - 1].decode()[: column - 1].encode())

    def _put_value(self, mutant: Mutant, node: tree_sitter.Node, _start: int, _end: int) -> bool:
        function = _ancestor(node, "function_item")
        body = function and function.child_by_field_name("body")
        if body is None:
            return False
        value = "" if mutant.replacement == "()" else f" {mutant.replacement}"
        text = f" if {switch(mutant)} {{ return{value}; }}"
        self.texts.append((body.start_byte + 1, (_BODY, mutant.number), text.encode()))
        return True

    def _put_operator(self, mutant: Mutant, node: tree_sitter.Node, start: int, end: int) -> bool:
        kinds = ("binary_expression", "compound_assignment_expr", "unary_expression")
        expression = _ancestor(node, *kinds)
        if expression is None or _has_let(expression):
            return False
        if all((part.start_byte, part.end_byte) != (start, end) for part in expression.children):
            return False
        place = (expression.start_byte, expression.end_byte)
        text = self.source[place[0] : start] + mutant.replacement.encode()
        self.replaced[place].append((mutant, text + self.source[end : place[1]]))
        return True

    def _put_arm(self, mutant: Mutant, node: tree_sitter.Node, _start: int, _end: int) -> bool:
        arm = _ancestor(node, "match_arm")
        pattern = arm and arm.child_by_field_name("pattern")
        if pattern is None:
            return False
        condition = pattern.child_by_field_name("condition")
        if condition is None:
            text = f" if !{switch(mutant)}".encode()
            self.texts.append((pattern.end_byte, (_GUARD, 0), text))
            return True
        text = f"!{switch(mutant)} && (".encode()
        self.texts.append((condition.start_byte, (_GUARD, 0), text))
        self.texts.append((condition.end_byte, (_GUARD, 0), b")"))
        return True

    def _put_guard(self, mutant: Mutant, _node: tree_sitter.Node, start: int, end: int) -> bool:
        if b"let " in self.source[start:end]:
            return False
        self.replaced[start, end].append((mutant, mutant.replacement.encode()))
        return True

    def _leave_out_const(self, node: tree_sitter.Node | None) -> None:
        """Makes the function no `const fn`: it could not read the switch."""
        function = _ancestor(node, "function_item")
        parts = function.children if function else []
        for modifiers in (part for part in parts if part.type == "function_modifiers"):
            for word in (part for part in modifiers.children if part.type == "const"):
                text = (word.start_byte, (_BODY, 0), word.end_byte)
                if text not in self.texts:
                    self.texts.append(text)


def _ancestor(node: tree_sitter.Node | None, *kinds: str) -> tree_sitter.Node | None:
    while node is not None and node.type not in kinds:
        node = node.parent
    return node


def _has_let(node: tree_sitter.Node) -> bool:
    return node.type in ("let_condition", "let_chain") or any(map(_has_let, node.children))

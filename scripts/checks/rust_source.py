"""Rust sources as the checks see them: modules, what each defines, and what each refers to.

Test code is left out: items under `#[cfg(test)]` or `#[test]`, and files that only such items name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import tree_sitter_rust
from tree_sitter import Language, Parser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tree_sitter import Node

_PARSER = Parser(Language(tree_sitter_rust.language()))
_TYPES = {"struct_item", "enum_item", "union_item", "trait_item", "type_item"}
_ITEMS = _TYPES | {"function_item", "const_item", "static_item", "macro_definition"}
_PATH_IN_MACRO = re.compile(r"\b(?:crate|super)(?:::\w+)+")

Names = tuple[str, ...]
# The longest chain of re-exports that is followed.
_DEEPEST = 8


@dataclass(frozen=True)
class Use:
    """One name that a `use` brings in: its path, and the name it has here."""

    path: Names
    name: str
    is_public: bool


@dataclass(frozen=True)
class TypeItem:
    """A named type, or a trait."""

    name: str
    line: int
    is_visible: bool
    fields: int


@dataclass
class Module:
    """A file of a crate."""

    path: Path
    name: Names
    children: set[str] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)
    paths: set[Names] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    items: set[str] = field(default_factory=set)
    types: list[TypeItem] = field(default_factory=list)
    identifiers: dict[str, int] = field(default_factory=dict)


class Crate:
    """The modules of a crate, by name; the crate's own file has the empty name."""

    def __init__(self, source: Path) -> None:
        self.modules: dict[Names, Module] = {}
        for start in ("lib.rs", "main.rs"):
            if (source / start).exists():
                self._read(source / start, ())

    def _read(self, path: Path, name: Names) -> None:
        module = Module(path, name)
        self.modules[name] = module
        is_own_folder = path.name in {"mod.rs", "lib.rs", "main.rs"}
        folder = path.parent if is_own_folder else path.with_suffix("")
        root = _PARSER.parse(path.read_bytes()).root_node
        for child in _read_items(root, module):
            for candidate in (folder / f"{child}.rs", folder / child / "mod.rs"):
                if candidate.exists():
                    module.children.add(child)
                    self._read(candidate, (*name, child))

    def references(self, module: Module) -> set[Names]:
        """The other modules whose definitions a module refers to, looking through re-exports."""
        wanted = [use.path for use in module.uses if not use.is_public or use.name in module.words]
        found = (self.resolve(path, module.name) for path in [*wanted, *module.paths])
        return {name for name in found if name is not None and name != module.name}

    def resolve(self, path: Names, at: Names, depth: int = 0) -> Names | None:
        """The module that defines what a path names; None for other crates and long chains."""
        start = self._start(path, at)
        if start is None or depth > _DEEPEST:
            return None
        here, rest = start
        for number, name in enumerate(rest):
            module = self.modules[here]
            if name not in module.children:
                if name in module.items:
                    return here
                return self._through_uses(here, name, rest[number + 1 :], depth) or here
            here = (*here, name)
        return here

    def _start(self, path: Names, at: Names) -> tuple[Names, Names] | None:
        """Where a path begins, and what is left of it."""
        first, rest = (path[0], path[1:]) if path else ("", ())
        if first == "crate":
            return (), rest
        if first in self.modules[at].children:
            return at, path
        if first not in {"self", "super"}:
            return None
        here = at if first == "self" else at[:-1]
        while rest and rest[0] == "super":
            here, rest = here[:-1], rest[1:]
        return here, rest

    def _through_uses(self, at: Names, name: str, rest: Names, depth: int) -> Names | None:
        """The module that defines a name which the module `at` imports."""
        uses = self.modules[at].uses
        for use in uses:
            if use.name == name:
                return self.resolve((*use.path, *rest), at, depth + 1)
        for use in uses:
            if use.name == "*":
                found = self.resolve((*use.path, name), at, depth + 1)
                if found is not None and name in self.modules[found].items:
                    return found
        return None


def _read_items(parent: Node, module: Module, *, is_top: bool = True) -> Iterator[str]:
    """Fills a module from its items; yields the names of the files that it declares."""
    is_test = False
    for node in parent.named_children:
        if node.type in {"line_comment", "block_comment"}:
            continue
        if node.type == "attribute_item":
            is_test = is_test or "cfg(test)" in _text(node) or _text(node) == "#[test]"
            continue
        if not is_test:
            yield from _read_item(node, module, is_top=is_top)
        is_test = False


def _read_item(node: Node, module: Module, *, is_top: bool) -> Iterator[str]:
    if node.type == "mod_item":
        body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
        if body is not None:
            yield from _read_items(body, module, is_top=is_top)
        elif name is not None:
            yield _text(name)
        return
    if node.type == "use_declaration":
        argument = node.child_by_field_name("argument")
        is_public = any(child.type == "visibility_modifier" for child in node.children)
        if argument is not None:
            module.uses += [Use(path, name, is_public) for path, name in _used(argument, ())]
        return
    name_node = node.child_by_field_name("name")
    if node.type in _ITEMS and name_node is not None and is_top:
        module.items.add(_text(name_node))
        if node.type in _TYPES:
            module.types.append(_type_item(node, _text(name_node)))
    for inner in _walk(node):
        _read_inner(inner, module)


def _read_inner(node: Node, module: Module) -> None:
    if node.type == "use_declaration":
        argument = node.child_by_field_name("argument")
        if argument is not None:
            module.paths |= {path for path, _ in _used(argument, ())}
    elif node.type in {"scoped_identifier", "scoped_type_identifier"}:
        module.paths.add(tuple(re.sub(r"<.*?>|\s", "", _text(node)).split("::")))
    elif node.type == "token_tree":
        module.paths |= {tuple(path.split("::")) for path in _PATH_IN_MACRO.findall(_text(node))}
    elif node.type in {"identifier", "type_identifier", "field_identifier"}:
        module.words.add(_text(node))
        module.identifiers.setdefault(_text(node), node.start_point[0] + 1)


def _walk(node: Node) -> Iterator[Node]:
    """A node and all below it, without items under `#[cfg(test)]`."""
    yield node
    is_test = False
    for child in node.named_children:
        if child.type == "attribute_item":
            is_test = "cfg(test)" in _text(child)
        elif not is_test:
            yield from _walk(child)
        elif child.type not in {"line_comment", "block_comment"}:
            is_test = False


def _used(node: Node, above: Names) -> Iterator[tuple[Names, str]]:
    if node.type in {"identifier", "self", "crate", "super"}:
        text = _text(node)
        yield (above, above[-1]) if text == "self" and above else ((*above, text), text)
    elif node.type == "scoped_identifier":
        names = (*above, *_text(node).replace(" ", "").split("::"))
        yield names, names[-1]
    elif node.type == "use_as_clause":
        path, alias = node.child_by_field_name("path"), node.child_by_field_name("alias")
        if path is not None and alias is not None:
            for names, _ in _used(path, above):
                yield names, _text(alias)
    elif node.type == "use_wildcard":
        for names, _ in _used(node.named_children[0], above):
            yield names, "*"
    elif node.type == "use_list":
        for child in node.named_children:
            yield from _used(child, above)
    elif node.type == "scoped_use_list":
        path, names = node.child_by_field_name("path"), node.child_by_field_name("list")
        inside = (*above, *_text(path).split("::")) if path is not None else above
        if names is not None:
            yield from _used(names, inside)


def _type_item(node: Node, name: str) -> TypeItem:
    is_visible = any(child.type == "visibility_modifier" for child in node.children)
    body = node.child_by_field_name("body") if node.type == "struct_item" else None
    fields = sum(child.type == "field_declaration" for child in body.named_children) if body else 0
    return TypeItem(name, node.start_point[0] + 1, is_visible, fields)


def _text(node: Node) -> str:
    return (node.text or b"").decode()

"""Who imports whom, read from the source text.

An import happens when its module is loaded, when a function is called, or for the type checker only. The last two cost
nothing and cannot fail in a circle; but who reads one end has to know the other one as well.
"""

from __future__ import annotations

import ast
import enum
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

#: Nodes that hold statements, and so imports; expressions, most of all nodes, hold none.
_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


class When(enum.IntEnum):
    """When an import happens; the lowest counts if there are several."""

    IMPORT = 0
    CALL = 1
    TYPES = 2


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the absolute name of what is imported, and where it stands."""

    name: str
    when: When
    line: int


@dataclass(frozen=True, slots=True)
class Module:
    """A module and all that it imports."""

    name: str
    imports: tuple[Import, ...]


def read_module(source: str, name: str, *, is_package: bool) -> Module:
    """Return all imports of a module, wherever they stand."""
    found: list[Import] = []

    def visit(node: ast.AST, when: When) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                visit(child, When.TYPES)
            for child in node.orelse:
                visit(child, when)
            return
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, when, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                keep = len(parts) - node.level + (1 if is_package else 0)
                base = ".".join([*parts[:keep], *([node.module] if node.module else [])])
            # `from penstock import spark` imports penstock.spark
            found.extend(Import(f"{base}.{alias.name}", when, node.lineno) for alias in node.names)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            when = max(when, When.CALL)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _BLOCKS):
                visit(child, when)

    visit(ast.parse(source), When.IMPORT)
    return Module(name, tuple(found))


def read_modules(root: Path) -> list[Module]:
    """Return all modules below the folder of a package, by name."""
    modules = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        is_package = path.name == "__init__.py"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(read_module(path.read_text(), name, is_package=is_package))
    return sorted(modules, key=lambda module: module.name)


Arrow = tuple[str, str]


def arrows(
    modules: Iterable[Module], group: Callable[[str], str | None]
) -> dict[Arrow, dict[str, When]]:
    """Return the arrows between groups of modules, each with the modules that make it.

    `group` names the group of a module, or of a name in one; None if it is of no interest.
    """
    found: dict[Arrow, dict[str, When]] = defaultdict(dict)
    for module in modules:
        start = group(module.name)
        for each in module.imports:
            end = group(each.name)
            if start is None or end is None or start == end:
                continue
            makers = found[start, end]
            makers[module.name] = min(each.when, makers.get(module.name, When.TYPES))
    return dict(found)


def reachable(start: str, edges: Iterable[Arrow]) -> set[str]:
    """Return all that can be reached along arrows; `start` itself if there is a way back."""
    targets: dict[str, list[str]] = defaultdict(list)
    for one, other in edges:
        targets[one].append(other)
    seen: set[str] = set()
    waiting = list(targets[start])
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting += targets[found]
    return seen


def cycles(edges: Iterable[Arrow]) -> list[list[str]]:
    """Return the groups that reach each other, sorted.

    >>> cycles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    [['a', 'b', 'c']]
    """
    edges = set(edges)
    reach = {start: reachable(start, edges) for start, _ in edges}
    found = {
        tuple(sorted(end for end in reach[start] if start in reach.get(end, ())))
        for start in reach
        if start in reach[start]
    }
    return [list(circle) for circle in sorted(found)]

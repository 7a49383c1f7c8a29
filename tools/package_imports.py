"""Who imports whom, read from the source text.

An import happens when its module is loaded, when a function is called, or for the type checker only. The last two cost
nothing and cannot fail in a circle; but who reads one end has to know the other one as well.

A module may also be imported by its name in a string: as an address such as "penstock.sql.parse:parse", or with
`import_module`. A string that names a module is an import by an address.
"""

from __future__ import annotations

import ast
import enum
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

#: What every other package may import; none of these imports another package
FOUNDATION = (
    "errors",
    "pyflink_compat",
    "time",
    "logs",
    "dependencies",
    "processes",
    "pickling",
    "metrics",
    "files",
    "options",
    "common",
    "records",
    "windowing",
    "state_descriptors",
)

#: Nodes that hold statements, and so imports; expressions, most of all nodes, hold none.
_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


class When(enum.IntEnum):
    """When an import happens; the lowest counts if there are several."""

    IMPORT = 0
    CALL = 1
    TYPES = 2
    ADDRESS = 3  # by a string that names the module


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the absolute name of what is imported, and where it stands."""

    name: str
    when: When
    line: int


@dataclass(frozen=True, slots=True)
class Module:
    """A module, all that it imports, and the strings in it that may be names of modules."""

    name: str
    imports: tuple[Import, ...]
    addresses: tuple[Import, ...] = ()

    def with_addresses(self, modules: Iterable[str]) -> Module:
        """Return the module with those strings as imports that name one of these modules, or something in one."""
        known = set(modules)
        named = [each for each in self.addresses if each.name in known]
        return replace(self, imports=(*self.imports, *named), addresses=())


# The name of a module, or of something in one behind a colon.
_ADDRESS = re.compile(r"([a-z_]\w*(?:\.\w+)+)(?::\w+)?")
# Calls whose strings are names of loggers, which are public and do not follow the modules.
_LOGGERS = {"getLogger", "get_logger"}


def read_module(source: str, name: str, *, is_package: bool) -> Module:
    """Return all imports of a module, wherever they stand, and its strings that may name modules."""
    tree = ast.parse(source)
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

    visit(tree, When.IMPORT)
    return Module(name, tuple(found), tuple(_addresses(tree)))


def _addresses(tree: ast.AST) -> Iterator[Import]:
    """Yield the strings that may name modules; of an f-string the part before its first value."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and _called(node) in _LOGGERS:
            continue
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            if isinstance(first, ast.Constant) and first.value.endswith("."):
                yield Import(first.value.rstrip("."), When.ADDRESS, node.lineno)
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = _ADDRESS.fullmatch(node.value)
            if match is not None:
                yield Import(match[1], When.ADDRESS, node.lineno)
        waiting.extend(ast.iter_child_nodes(node))


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def read_modules(root: Path) -> list[Module]:
    """Return all modules below the folder of a package, by name."""
    modules = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        is_package = path.name == "__init__.py"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(read_module(path.read_text(), name, is_package=is_package))
    names = {module.name for module in modules}
    return sorted(
        (module.with_addresses(names) for module in modules), key=lambda module: module.name
    )


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
            makers[module.name] = min(each.when, makers.get(module.name, When.ADDRESS))
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

"""Counts the annotations that are `Any`: what the type checker cannot check. `python tools/count_any.py` prints the packages.

An annotation is what stands behind a parameter, a function (its result), a variable or an attribute. It is bare if it is `Any` and
nothing else: `x: Any`. One that has `Any` within, such as `dict[str, Any]` or `Callable[[Any], int]`, still says something; those are
counted beside. An alias of `Any` (`Record = Any`) gives one concept a name, in one module; its uses are counted beside, too.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "penstock"
ANY = "Any"


@dataclass
class Annotations:
    """Numbers of annotations."""

    all: int = 0
    bare: int = 0  # `Any` and nothing else
    within: int = 0  # `Any` is a part of it
    named: int = 0  # an alias of `Any` and nothing else

    @property
    def percent(self) -> float:
        """The bare ones among all."""
        return 100 * self.bare / self.all if self.all else 0.0

    def add(self, other: Annotations) -> None:
        """Add other numbers."""
        self.all += other.all
        self.bare += other.bare
        self.within += other.within
        self.named += other.named


def annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield all annotations of a module.

    >>> list(map(ast.unparse, annotations(ast.parse("def f(x: int, *y: str) -> Any: z: list[Any] = []"))))
    ['int', 'str', 'Any', 'list[Any]']
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            parameters += [each for each in (given.vararg, given.kwarg) if each is not None]
            yield from (each.annotation for each in parameters if each.annotation is not None)
            if node.returns is not None:
                yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def aliases(tree: ast.Module) -> set[str]:
    """Return the names that a module gives to `Any`.

    >>> sorted(aliases(ast.parse("Record = Any\\nKey: TypeAlias = Any\\nOther = int")))
    ['Key', 'Record']
    """
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and _is(node.value, {ANY}):
            found.update(each.id for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.AnnAssign) and node.value and _is(node.value, {ANY}):
            found.add(ast.unparse(node.target))
    return found


def imported(tree: ast.Module, known: Mapping[str, set[str]]) -> set[str]:
    """Return the aliases that a module imports; `known` has those of each module.

    >>> imported(ast.parse("from a.b import Key, c"), {"a.b": {"Key", "Record"}})
    {'Key'}
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            found.update({each.name for each in node.names} & known[node.module])
    return found


def count(tree: ast.Module, named: set[str]) -> Annotations:
    """Count the annotations of a module; `named`: the aliases of `Any`.

    >>> count(ast.parse("def f(x: Any, y: dict[str, Any], z: 'Any', key: Key) -> int: ..."), {"Key"})
    Annotations(all=5, bare=2, within=1, named=1)
    """
    found = Annotations()
    for written in annotations(tree):
        each = written
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            each = ast.parse(each.value, mode="eval").body
        found.all += 1
        if _is(each, {ANY}):
            found.bare += 1
        elif _is(each, named):
            found.named += 1
        elif any(_is(part, {ANY}) for part in ast.walk(each)):
            found.within += 1
    return found


def _is(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):  # typing.Any
        return node.attr in names
    return isinstance(node, ast.Name) and node.id in names


def read(root: Path) -> dict[str, ast.Module]:
    """Return the modules of a package by their names."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def by_package(modules: Mapping[str, ast.Module]) -> dict[str, Annotations]:
    """Return the numbers of each package."""
    known = {name: aliases(tree) for name, tree in modules.items()}
    found: dict[str, Annotations] = defaultdict(Annotations)
    for name, tree in modules.items():
        package = name.split(".")[1] if "." in name else name
        found[package].add(count(tree, known[name] | imported(tree, known)))
    return dict(found)


def in_all(packages: Mapping[str, Annotations]) -> Annotations:
    """Return the numbers of all packages together."""
    found = Annotations()
    for each in packages.values():
        found.add(each)
    return found


def main() -> int:
    """Print the packages, those with most of it first."""
    packages = by_package(read(ROOT))
    ordered = sorted(packages.items(), key=lambda each: -each[1].percent)
    print(f"{'package':20} {'all':>7} {'bare':>6} {'%':>6} {'within':>7} {'named':>6}")
    for name, each in [*ordered, ("in all", in_all(packages))]:
        numbers = f"{each.all:7} {each.bare:6} {each.percent:6.1f} {each.within:7} {each.named:6}"
        print(f"{name:20} {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

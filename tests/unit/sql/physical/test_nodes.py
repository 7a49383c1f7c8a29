"""Nodes of physical plans describe themselves: the planner does not ask for their kind."""

from __future__ import annotations

import ast
from pathlib import Path

import penstock.sql.physical

ROOT = Path(penstock.sql.physical.__path__[0])


def kinds_of_nodes(tree: ast.Module) -> set[str]:
    """Return the classes of nodes that a module defines."""
    return {
        each.name
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name.startswith("Physical")
    }


def questions(tree: ast.Module) -> set[str]:
    """Return the classes that a module asks for, with `isinstance` or `case`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            found |= {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.MatchClass):
            found.add(ast.unparse(node.cls))
    return found


def test_only_the_module_of_a_node_asks_for_its_kind() -> None:
    trees = {path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
    nodes = set().union(*map(kinds_of_nodes, trees.values()))
    assert "PhysicalCalc" in nodes
    asking = {
        str(path.relative_to(ROOT)): kinds
        for path, tree in trees.items()
        if (kinds := (questions(tree) & nodes) - kinds_of_nodes(tree))
    }
    assert asking == {}

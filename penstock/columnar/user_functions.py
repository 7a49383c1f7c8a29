"""Opening and closing the users' functions that expressions call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.runtime.user_code import open_function
from penstock.table.expressions.nodes import Rex, UserCall, walk


def open_functions(expressions: Iterable[Rex | None], runtime_context: Any) -> list[Any]:
    """Open all functions that expressions call, each once; return them, to be closed at the end."""
    functions = {
        id(each.function): each.function
        for rex in expressions
        if rex is not None
        for each in walk(rex)
        if isinstance(each, UserCall)
    }
    for function in functions.values():
        open_function(function, runtime_context)
    return list(functions.values())

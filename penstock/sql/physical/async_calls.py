"""Calls of asynchronous functions get the options of the job: how many run at once, how long, how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.sql.expr.nodes import Rex, UserCall, rewrite
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.logical.transform import transform, with_expressions
from penstock.sql.udf.runners import AsyncCallSettings, AsyncRunner


def set_async_options(
    roots: Sequence[LogicalNode], settings: AsyncCallSettings
) -> list[LogicalNode]:
    """Return plans whose asynchronous functions are called by these settings. A function that is called twice stays one object."""
    made: dict[int, AsyncRunner] = {}

    def change(rex: Rex) -> Rex:
        if not isinstance(rex, UserCall) or not isinstance(rex.function, AsyncRunner):
            return rex
        runner = made.setdefault(id(rex.function), AsyncRunner(rex.function.function, settings))
        return replace(rex, function=runner)

    def of_node(node: LogicalNode) -> LogicalNode:
        return with_expressions(node, lambda rex: rewrite(rex, change))

    return [transform(each, of_node) for each in roots]

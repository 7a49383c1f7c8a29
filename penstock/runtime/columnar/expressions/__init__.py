"""Expressions of SQL on columns: Polars expressions, compiled once and applied to every batch."""

from __future__ import annotations

import polars as pl

from penstock.runtime.columnar.expressions import (
    arithmetic,
    bitmaps,
    buckets,
    casts,
    collections,
    json,
    logic,
    numbers,
    regexes,
    texts,
    times,
)
from penstock.runtime.columnar.expressions.compiler import COMPILERS, ExpressionCompiler, Watermark
from penstock.runtime.columnar.expressions.zones import Zone
from penstock.sql.expr.nodes import Rex

_GROUPS = (
    arithmetic,
    bitmaps,
    buckets,
    casts,
    collections,
    json,
    logic,
    numbers,
    regexes,
    texts,
    times,
)  # register compilers


def compile_expression(rex: Rex, zone: str = "UTC", watermark: Watermark | None = None) -> pl.Expr:
    """Return the Polars expression that computes `rex` over columns c0, c1, ...; `zone` is the session time zone, `watermark` returns the operator's.

    It gives as many values as there are rows, or one if it is constant: use it together with other columns (with_columns, filter).
    """
    return ExpressionCompiler(Zone(zone).check(), watermark=watermark).compile(rex)


def compiled_functions() -> frozenset[str]:
    """Return the names of all functions that can be run."""
    return frozenset(COMPILERS)


__all__ = ["compile_expression", "compiled_functions"]

"""Slots and their subtasks: chains of operators, fed by channels."""

from __future__ import annotations

from penstock.runtime.records import register_loader


def _load_columns() -> None:
    # Takes a quarter of a second; jobs of rows do without.
    import penstock.runtime.columnar.batch  # noqa: F401 - registers itself


register_loader(_load_columns)

"""Plans of the statements of `tests/sql/statements.py`."""

from __future__ import annotations

import functools

from penstock.sql.physical.planner import PhysicalPlan
from tests.sql.statements import MODES, SECTIONS, TABLES, VIEWS, Section
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.sql_plans import CAN, planned

_LOOKED_UP = ("small",)


@functools.cache
def catalog(mode: str, *, bounded: bool = False) -> Catalog:
    """The tables of the statements; those that change give changes as `mode` says."""
    tables = []
    for name, columns in TABLES.items():
        options = {"connector": "toy", "mode": MODES.get(name, mode), "can": CAN}
        if not bounded:
            options["unbounded"] = "true"
        if name in _LOOKED_UP:
            options["can"] = f"{CAN} lookup_provider"
        given = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        tables.append(f"CREATE TABLE {name} ({columns}) WITH ({given})")
    return Catalog(*tables, *(f"CREATE VIEW {name} AS {text}" for name, text in VIEWS.items()))


def statements() -> dict[str, tuple[Section, str]]:
    """Return all statements by their names: that of the section, and their number in it."""
    return {
        f"{name} {number}": (section, text)
        for name, section in SECTIONS.items()
        for number, text in enumerate(section.statements)
    }


def plan_of(section: Section, text: str) -> PhysicalPlan:
    """Return the plan of a statement of a section."""
    return planned(
        text,
        tables=catalog(section.mode, bounded=section.batch),
        update_before=section.before,
        batch=section.batch,
        **section.options,
    )

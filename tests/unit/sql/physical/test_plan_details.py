"""What the planner decides for each kind of statement: specs, types, keys, kinds of changes. A change of plans is seen here first."""

from __future__ import annotations

from tests.builders.cases import by_name, check_all
from tests.unit.sql.physical.plan_details import details, remembered
from tests.unit.sql.statement_plans import plan_of, statements


def test_each_statement_is_remembered() -> None:
    assert list(remembered()) == list(statements())


def test_plans_are_those_that_are_remembered() -> None:
    known, named = remembered(), statements()

    def check(name: str) -> None:
        section, text = named[name]
        assert (
            f"{text}\n{details(plan_of(section, text))}".splitlines() == known[name].splitlines()
        ), "if it is meant to change: python -m tests.unit.sql.physical.plan_details"

    check_all(by_name(named, str), check)

"""What EXPLAIN shows for each kind of query: a change of plans is seen here first."""

from __future__ import annotations

import pytest

from tests.unit.sql.physical.explained import QUERIES, explained, remembered


@pytest.fixture(scope="module")
def plans():
    return explained()


@pytest.fixture(scope="module")
def known():
    return remembered()


def test_each_kind_of_query_is_remembered(known):
    assert list(known) == list(QUERIES)


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_is_the_one_that_is_remembered(plans, known, name):
    text = plans[name].rstrip("\n")
    assert f"{QUERIES[name]}\n\n{text}" == known[name].rstrip("\n"), (
        "if it is meant to change: python -m tests.unit.sql.physical.explained"
    )


@pytest.mark.parametrize("name", QUERIES)
def test_all_three_plans_are_shown(plans, name):
    titles = [line for line in plans[name].splitlines() if line.startswith("== ")]
    assert titles == [
        "== Abstract Syntax Tree ==",
        "== Optimized Physical Plan ==",
        "== Optimized Execution Plan ==",
    ]

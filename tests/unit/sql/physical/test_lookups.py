"""Lookup joins: what a table is asked for, what is checked behind it, and what hints say."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec, TemporalJoinSpec
from penstock.sql.errors import ValidationError
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.sql_plans import planned, spec_of

TABLES = Catalog(
    "CREATE TABLE bids (id INT, k INT, v INT, pt AS PROCTIME()) WITH ('connector' = 'toy', 'unbounded' = 'true')",
    "CREATE TABLE changing (id INT NOT NULL, k INT, v INT, pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'all', 'unbounded' = 'true')",
    "CREATE TABLE users (id INT, name STRING, age INT, twice AS COALESCE(age * 2, 0)) WITH ('connector' = 'toy', 'can' = 'lookup_provider')",
    "CREATE TABLE small (id INT, name STRING) WITH ('connector' = 'toy', 'columnar' = 'true', 'can' = 'apply_projection')",
    "CREATE TABLE versions (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'toy', 'columnar' = 'true', 'can' = 'apply_projection')",
    "CREATE VIEW named AS SELECT id, age AS name FROM users WHERE name = 'ann'",
    "CREATE VIEW adults AS SELECT id, name, age FROM users WHERE age >= 18 AND name <> 'x' AND age < 99",
)


def lookup(condition: str, kind: str = "INNER", *, left: str = "bids", hint: str = "", more: str = "u.name") -> Any:  # fmt: skip
    query = f"SELECT {hint} b.id, {more} FROM {left} b {kind} JOIN users FOR SYSTEM_TIME AS OF b.pt AS u ON {condition}"
    return spec_of(planned(query, tables=TABLES), LookupJoinSpec)


# A condition, the columns that are asked for, and what is checked of the answers.
KEYS = {
    "b.k = u.id": (["id"], None),
    "u.id = b.k AND b.v = u.age": (["id", "age"], None),
    "b.k = u.id AND u.name = 'ann'": (["id", "name"], None),
    "b.k = u.id AND b.v IS NOT DISTINCT FROM u.age": (["id"], "IS NOT DISTINCT FROM"),
    "b.k = u.id AND b.v = u.id": (["id"], "=($2, $"),
    "b.k = u.id AND b.v > u.age": (["id"], ">($2, $"),
    "b.k = u.id AND u.id = 3": (["id"], "=($"),
}


@pytest.mark.parametrize("condition", KEYS)
def test_equalities_are_asked_for_and_the_rest_is_checked(condition: str) -> None:
    keys, checked = KEYS[condition]
    spec = lookup(condition)
    assert list(spec.lookup[1]) == keys
    assert [spec.lookup[2][at] for _, at in spec.keys] == keys
    if checked is None:
        assert spec.condition is None
    else:
        assert checked in str(spec.condition)


def test_a_null_safe_equality_alone_is_nothing_to_ask_for() -> None:
    with pytest.raises(ValidationError, match="needs an equality"):
        lookup("b.k IS NOT DISTINCT FROM u.id")


def test_all_conditions_of_a_view_are_checked() -> None:
    query = (
        "SELECT b.id, u.name FROM bids b JOIN adults FOR SYSTEM_TIME AS OF b.pt AS u ON b.k = u.id"
    )
    spec = spec_of(planned(query, tables=TABLES), LookupJoinSpec)
    for part in (">=", "18", "<>", "'x'", "99"):
        assert part in str(spec.condition)
    assert spec.lookup == ("lookup", ("id",), ("id", "name", "age"))
    by_name = query.replace("adults FOR", "named FOR")
    assert spec_of(planned(by_name, tables=TABLES), LookupJoinSpec).lookup[1] == ("id", "name")


def test_changes_do_not_overtake_each_other() -> None:
    hint = "/*+ LOOKUP('table' = 'u', 'async' = 'true', 'output-mode' = 'allow_unordered') */"
    assert not lookup("b.k = u.id", hint=hint).ordered
    assert lookup("b.k = u.id", hint=hint, left="changing").ordered


def test_columns_of_a_missing_row_are_not_computed() -> None:
    assert lookup("b.k = u.id", more="u.twice") is not None
    with pytest.raises(ValidationError, match="computes columns of the table"):
        lookup("b.k = u.id", "LEFT", more="u.twice")


@pytest.mark.parametrize(
    ("table", "spec"), [("small", LookupJoinSpec), ("versions", TemporalJoinSpec)]
)
def test_a_small_table_is_looked_up_unless_its_key_says_that_it_has_versions(
    table: str, spec: type
) -> None:
    query = f"SELECT b.id, u.name FROM bids b JOIN {table} FOR SYSTEM_TIME AS OF b.pt AS u ON b.k = u.id"
    assert spec_of(planned(query, tables=TABLES), spec) is not None


def test_a_hint_is_about_the_table_that_it_names() -> None:
    hint = "/*+ LOOKUP('table' = 'second', 'async' = 'true', 'capacity' = '7') */"
    query = f"SELECT {hint} b.id FROM bids b JOIN users FOR SYSTEM_TIME AS OF b.pt AS first ON b.k = first.id JOIN users FOR SYSTEM_TIME AS OF b.pt AS second ON b.v = second.id"
    plan = planned(query, tables=TABLES)
    specs = [
        node.spec for node in plan.nodes if isinstance(getattr(node, "spec", None), LookupJoinSpec)
    ]
    assert [(spec.asynchronous, spec.capacity) for spec in specs] == [(False, 100), (True, 7)]

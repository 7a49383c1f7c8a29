"""Physical plans of SQL text, over tables whose rows may change."""

from __future__ import annotations

import functools
from typing import Any

from penstock.sql.physical.nodes import PhysicalOperator
from penstock.sql.physical.planner import PhysicalPlan
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.logical.plans import plan as logical_plan
from tests.unit.sql.physical.plans import Toys, planner

CAN = "apply_projection apply_filters apply_limit"


@functools.cache
def catalog(mode: str) -> Catalog:
    """The tables of this module; `mode` says which kinds of changes their connector gives."""
    with_options = (
        f"WITH ('connector' = 'toy', 'mode' = '{mode}', 'unbounded' = 'true', 'can' = '{CAN}')"
    )
    return Catalog(
        f"CREATE TABLE orders (id INT NOT NULL, person INT, price INT, PRIMARY KEY (id) NOT ENFORCED) {with_options}",
        f"CREATE TABLE people (id INT NOT NULL, name STRING, age INT, PRIMARY KEY (id) NOT ENFORCED) {with_options}",
        "CREATE TABLE visits (id INT NOT NULL, person INT, page STRING, seen TIMESTAMP(3), WATERMARK FOR seen AS seen) WITH ('connector' = 'toy', 'can' = 'apply_projection')",
        "CREATE TABLE pairs (a INT, b INT, c INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'upsert')",
        "CREATE TABLE mirror (a INT, b INT, c INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'all')",
        "CREATE TABLE strict (a INT NOT NULL, b INT, c INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'upsert')",
        "CREATE TABLE sink (a INT, b INT, c INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'upsert')",
    )


def planned(
    query: str,
    mode: str = "all",
    *,
    update_before: bool = True,
    tables: Catalog | None = None,
    batch: bool = False,
    **options: str,
) -> PhysicalPlan:
    """The plan of a statement; names of options have _ for . and __ for -."""
    made = planner(Toys(), batch=batch, **options)
    return made.plan([logical_plan(query, tables or catalog(mode))], update_before=update_before)


def keys_of(plan: PhysicalPlan) -> set[tuple[str, ...]]:
    """The keys of a plan's result, by the names of their columns."""
    names = [field.name for field in plan.result.schema]
    return {tuple(names[at] for at in sorted(key)) for key in plan.result.traits.keys}


def spec_of(plan: PhysicalPlan, kind: type) -> Any:
    """The spec of the only operator that has one of this kind."""
    (found,) = (
        node.spec
        for node in plan.nodes
        if isinstance(node, PhysicalOperator) and isinstance(node.spec, kind)
    )
    return found

"""The optimizer: all rules, in the order in which they are applied.

A rule is a function of all plans of a job, in a module of its name. It returns plans that give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.rules.expand_grouping_sets import expand_grouping_sets
from penstock.sql.rules.fold_constants import fold_constants
from penstock.sql.rules.prune_columns import prune_columns
from penstock.sql.rules.push_down_filters import push_down_filters
from penstock.sql.rules.push_down_limits import push_down_limits
from penstock.sql.rules.push_down_watermarks import push_down_watermarks
from penstock.sql.rules.recognize_ranks import recognize_ranks
from penstock.sql.rules.rewrite_set_operations import rewrite_set_operations
from penstock.sql.rules.share_subplans import share_subplans
from penstock.sql.rules.split_distinct import split_distinct

Rule = Callable[[Sequence[LogicalNode]], list[LogicalNode]]

# Rules that rewrite a query in terms of nodes that run. Those of `optimize` that follow need settings or a certain order.
RULES: list[Rule] = [
    rewrite_set_operations,
    expand_grouping_sets,
    recognize_ranks,
    push_down_limits,
]


def optimize(
    roots: Sequence[LogicalNode], *, zone: str = "UTC", reuse: bool = True, buckets: int = 0
) -> list[LogicalNode]:
    """Return plans that give the same rows and are run better.

    `reuse`: equal parts run once. `buckets`: of distinct values that are aggregated in two levels; 0: they are not.
    """
    plans = fold_constants(roots, zone)
    for rule in RULES:
        plans = rule(plans)
    if buckets:
        plans = split_distinct(plans, buckets)
    if reuse:
        plans = share_subplans(plans)
    plans = push_down_watermarks(prune_columns(push_down_filters(plans)))
    return share_subplans(plans) if reuse else plans

"""All rules, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.rules.expand_grouping_sets import expand_grouping_sets
from penstock.sql.rules.fold_constants import fold_constants
from penstock.sql.rules.prune_columns import prune
from penstock.sql.rules.push_down_filters import push_filters
from penstock.sql.rules.push_down_limits import push_limits
from penstock.sql.rules.push_down_watermarks import push_watermark
from penstock.sql.rules.recognize_ranks import recognise_ranks
from penstock.sql.rules.rewrite_set_operations import rewrite_set_operations
from penstock.sql.rules.share_subplans import share
from penstock.sql.rules.split_distinct import split_distinct

# Rules for a single plan; the others consider all plans of a job.
RULES = (rewrite_set_operations, expand_grouping_sets, recognise_ranks, push_limits)


def optimize(
    roots: Sequence[LogicalNode], *, zone: str = "UTC", reuse: bool = True, buckets: int = 0
) -> list[LogicalNode]:
    """Return plans that give the same rows and are run better. `reuse`: equal parts run once. `buckets`: of distinct values that are aggregated in two levels; 0: they are not."""
    plans = [_applied(fold_constants(root, zone)) for root in roots]
    if buckets:
        plans = [split_distinct(each, buckets) for each in plans]
    if reuse:
        plans = share(plans)
    plans = [push_watermark(each) for each in prune(push_filters(plans))]
    return share(plans) if reuse else plans


def _applied(node: LogicalNode) -> LogicalNode:
    for rule in RULES:
        node = rule(node)
    return node

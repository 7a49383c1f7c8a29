"""Aggregate functions: in columns where accumulators can be added up, row by row where all values must be kept."""

from penstock.runtime.columnar.aggregates.columns import is_mergeable

__all__ = ["is_mergeable"]

"""Chooses the tests of `make test`: a part of the whole suite that takes minutes and covers every kind of test.

`make test-full` runs all of them. A test is left to it by the marker `full`, which these rules add:

* suites that start Spark, servers or other processes run the tests that are marked `ci`, and leave the rest;
* a test with three or more parameters (program, state backend, mode, ...) runs a pairwise covering array of them: each two values
  meet at least once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from zlib import crc32

import pytest

TESTS = Path(__file__).parents[1]
#: Suites of which `make test` runs only what is marked `ci`.
PROCESS_SUITES = ("connectors", "spark", "faults", "e2e")
#: Suites whose products of parameters are reduced: each of their cases runs a job.
PAIRWISE_SUITES = ("jobs", "zoo", "sql", *PROCESS_SUITES)

#: The values of a test's parameters, by their ids
Case = tuple[str, ...]


def mark_full(items: Sequence[pytest.Item]) -> None:
    """Mark the tests that only `make test-full` runs."""
    products: dict[tuple[Path, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        suite = suite_of(item.path)
        if suite in PROCESS_SUITES and item.get_closest_marker("ci") is None:
            item.add_marker(pytest.mark.full)
        elif (
            suite in PAIRWISE_SUITES and isinstance(item, pytest.Function) and len(_case(item)) > 2
        ):
            products[item.path, item.originalname].append(item)
    for product in products.values():
        cases = [_case(item) for item in product]
        ranks = [crc32(item.name.encode()) for item in product]
        chosen = pairwise(cases, ranks)
        for item, case in zip(product, cases, strict=True):
            if case not in chosen:
                item.add_marker(pytest.mark.full)


def suite_of(path: Path) -> str:
    """Return the folder of `tests` that a module is in."""
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def _case(item: pytest.Function) -> Case:
    # `callspec.indices` would be public, but it numbers the cases, not the values of each parameter.
    return tuple(item.callspec._idlist) if hasattr(item, "callspec") else ()


def pairwise(cases: Sequence[Case], ranks: Sequence[int]) -> set[Case]:
    """Return some of these cases in which each pair of values occurs that occurs in any of them.

    Each pass takes the cases that add as many new pairs as possible. Within a pass the ranks decide, so that a test whose ranks are
    spread evenly does not always combine the same values of two parameters.
    """
    uncovered = {pair for case in cases for pair in _pairs(case)}
    chosen: set[Case] = set()
    order = [case for _, case in sorted(zip(ranks, cases, strict=True))]
    most = len(_pairs(order[0])) if order else 0
    for gain in range(most, 0, -1):
        for case in order:
            new = uncovered & _pairs(case)
            if len(new) >= gain:
                uncovered -= new
                chosen.add(case)
    return chosen


def _pairs(case: Case) -> set[tuple[tuple[int, str], tuple[int, str]]]:
    return set(combinations(enumerate(case), 2))

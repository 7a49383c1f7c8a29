"""Many small cases in one test: all of them run, and the test lists all that fail.

A parametrised test of a thousand cases costs seconds of collection in every worker. `--case NAME` runs one case alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pytest

Case = TypeVar("Case")

#: How many calls of a case's traceback are shown: the end says what is wrong
_FRAMES = 3
#: The case that `--case` names
_chosen: str | None = None
#: Whether a test ends with the first case that fails
_stops = False


def choose(name: str | None) -> None:
    """Run only the case with this name from now on; None means all."""
    global _chosen
    _chosen = name


def stop_at_first_failure() -> None:
    """Let tests end with the first case that fails: who only asks whether one does need not wait for the others."""
    global _stops
    _stops = True


def by_name(cases: Iterable[Case], name: Callable[[Case], str]) -> dict[str, Case]:
    """Return cases by their names; no two may have the same."""
    named: dict[str, Case] = {}
    for case in cases:
        if named.setdefault(name(case), case) is not case:
            raise ValueError(f"two cases have the name {name(case)!r}")
    return named


def part(cases: Mapping[str, Case], number: int, parts: int) -> dict[str, Case]:
    """Return one of several parts of the cases, so that workers can share them."""
    return {name: cases[name] for name in list(cases)[number::parts]}


def check_all(cases: Mapping[str, Case], check: Callable[[Case], object]) -> None:
    """Check every case, and fail with a list of all that failed."""
    if not cases:
        pytest.fail("there are no cases to check", pytrace=False)
    if _chosen is not None:
        cases = {name: case for name, case in cases.items() if name == _chosen}
        if not cases:
            pytest.skip(f"no case has the name {_chosen!r}")
    failures = []
    for name, case in cases.items():
        try:
            check(case)
        # A case that is skipped would hide those behind it, so it fails too.
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as failure:
            shown = "".join(traceback.format_exception(failure, limit=-_FRAMES))
            failures.append(f"--- {name}\n{shown}")
            if _stops:
                break
    if failures:
        listed = "\n".join(failures)
        pytest.fail(f"{len(failures)} of {len(cases)} cases failed:\n{listed}", pytrace=False)

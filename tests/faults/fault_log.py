"""Counts the faults of the suite, what they cost, and how long the job took to go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from statistics import median


@dataclass
class Fault:
    """Something that was done to a job.

    `recovery_s` is the time until there was a checkpoint newer than `epoch`, the newest one when it struck; None if it was not
    measured, because the fault did not interrupt the job or the job had nothing more to do.
    """

    kind: str
    way: str
    checkpoint_id: int = 0
    at: float = 0.0  # a time.monotonic() value
    recovery_s: float | None = None
    lost: int | None = (
        None  # lines of output, over the whole run that the fault was part of; None until it was judged
    )
    duplicated: int | None = None


@dataclass
class KillLog:
    """All faults that struck, over the whole suite."""

    faults: list[Fault] = field(default_factory=list)

    def add(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def count(self, *kinds: str) -> int:
        """How often these kinds of fault struck, or all kinds."""
        return sum(not kinds or fault.kind in kinds for fault in self.faults)

    def missing(self, kinds: Iterable[str], ways: Iterable[str]) -> list[str]:
        """Which of these kinds of fault never struck a job that ran one of these ways."""
        there = {(fault.kind, fault.way) for fault in self.faults}
        return [f"{k} ({way})" for k, way in product(kinds, ways) if (k, way) not in there]

    def table(self) -> list[str]:
        """One line for each kind of fault and execution mode."""
        groups: dict[tuple[str, str], list[Fault]] = {}
        for fault in self.faults:
            groups.setdefault((fault.kind, fault.way), []).append(fault)
        rows = [_row(kind, way, groups[kind, way]) for kind, way in sorted(groups)]
        rows.append(_row("all", "", self.faults))
        head = f"{'fault':<16}{'way':<28}{'struck':>7}{'lost':>6}{'twice':>6}   recovery: min / median / max"
        return [head, *rows]


def _row(kind: str, way: str, faults: list[Fault]) -> str:
    times = sorted(fault.recovery_s for fault in faults if fault.recovery_s is not None)
    measured = (
        f"{times[0]:.2f} / {median(times):.2f} / {times[-1]:.2f} s ({len(times)})" if times else "-"
    )
    lost = _total(fault.lost for fault in faults)
    duplicated = _total(fault.duplicated for fault in faults)
    return f"{kind:<16}{way:<28}{len(faults):>7}{lost:>6}{duplicated:>6}   {measured}"


def _total(amounts: Iterable[int | None]) -> str:
    """The most that a run with such a fault lost; a question mark if one of them was not judged."""
    found = list(amounts)
    return "?" if None in found else str(max((each or 0 for each in found), default=0))

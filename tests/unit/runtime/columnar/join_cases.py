"""Helpers for tests of joins: an operator that is stopped and restored at random, and joins as one would write them down."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from penstock.testing.harness import ManualClock, OperatorHarness
from tests.unit.runtime.columnar.changes import FrameOutput, batch_of, changes_of

Change = tuple[str, tuple[Any, ...]]


class Stopped:
    """Runs an operator; `maybe_stop` lets it go on from a snapshot, in one or two subtasks' worth of state, as chance will have it."""

    def __init__(self, spec: Any, backend: str, seed: int = 0, stops: float = 0.0) -> None:
        self.spec, self.backend = spec, backend
        self.rng = random.Random(seed)
        self.stops = stops
        self.clock = ManualClock(1_000_000)
        self.output = FrameOutput()
        self._start(())

    def _start(self, snapshots: Sequence[Any]) -> None:
        self.harness = OperatorHarness(
            self.spec,
            clock=self.clock,
            snapshots=snapshots,
            state_backend=self.backend,
            output=self.output,
        )

    def maybe_stop(self) -> None:
        if self.rng.random() >= self.stops:
            return
        if self.rng.random() < 0.5:
            self.restart()
        else:
            self.harness.snapshot()

    def restart(self, *others: Stopped) -> None:
        """Go on from a snapshot, together with what other subtasks had; the lowest of their watermarks counts."""
        snapshots = [each.harness.snapshot() for each in (self, *others)]
        self.harness.close()
        self._start(snapshots)

    def send(self, rows: Sequence[Any], types: Sequence[Any], side: int = 0) -> None:
        self.harness.operator.process(batch_of(rows, types), side)
        self.harness.keyed_state.trim_cache()
        self.maybe_stop()

    def watermark(self, time: int) -> None:
        self.harness.process_watermark(time)
        self.maybe_stop()

    def changes(self) -> list[Change]:
        return changes_of(self.output.frames)


def joined(
    kind: str,
    left: Counter[Any],
    right: Counter[Any],
    width: tuple[int, int],
    on: Callable[[Any, Any], bool],
) -> Counter[Any]:
    """The table that a join of two tables is."""
    result: Counter[Any] = Counter()
    found_right: set[Any] = set()
    for mine, count in left.items():
        partners = [theirs for theirs in right if on(mine, theirs)]
        found_right.update(partners)
        if kind == "SEMI":
            if partners:
                result[mine] += count
        elif kind == "ANTI":
            if not partners:
                result[mine] += count
        else:
            for theirs in partners:
                result[mine + theirs] += count * right[theirs]
            if not partners and kind in {"LEFT", "FULL"}:
                result[mine + (None,) * width[1]] += count
    if kind in {"RIGHT", "FULL"}:
        for theirs, count in right.items():
            if theirs not in found_right:
                result[(None,) * width[0] + theirs] += count
    return result


def shown(table: Counter[Any]) -> Counter[Any]:
    """Rows as text, as `table_of` has them."""
    return Counter({tuple(map(repr, row)): count for row, count in table.items()})

"""The source of a table with a watermark: one watermark per split, of rows and of columns, periodically and by rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.common.types import Row
from penstock.common.watermark_strategy import NoWatermarks
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceAssignment,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.sources import TableSourceSpec
from penstock.graph.operator_specs.columnar.stateless import RowsToColumnsSpec
from penstock.runtime.operators.connectors.source_modes import PollResult
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.types import DayTimeIntervalType, IntType, TimestampType
from penstock.testing import ManualClock, OperatorHarness

EPOCH = dt.datetime(1970, 1, 1)
TYPES = (IntType(), TimestampType(3))
TIME = InputRef(TYPES[1], 1)
DELAY = Literal(DayTimeIntervalType(), dt.timedelta(milliseconds=10))
ROWS = RowsToColumnsSpec(TYPES, ("id", "t"))


class Reader(SourceReader):
    """A split's payload is a list of batches of milliseconds, None for NULL; its position is the number of batches read."""

    def __init__(self, columnar: bool) -> None:
        self._columnar = columnar

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        for at in range(position, len(split.payload)):
            times = [
                None if each is None else EPOCH + dt.timedelta(milliseconds=each)
                for each in split.payload[at]
            ]
            numbers = list(range(len(times)))
            records: Any = [Row(*each) for each in zip(numbers, times, strict=True)]
            if self._columnar:
                schema = {"id": pl.Int32, "t": pl.Datetime("ms")}
                records = pl.DataFrame({"id": numbers, "t": times}, schema=schema)
            yield SourceBatch(records, at + 1)


class Splits(Source):
    def __init__(self, columnar: bool) -> None:
        self._columnar = columnar

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        raise NotImplementedError

    def create_reader(self) -> SourceReader:
        return Reader(self._columnar)


class Run:
    """One subtask that reads splits of a table; batches may come at any time."""

    def __init__(
        self,
        *,
        pipelined: bool,
        columnar: bool = False,
        rowtime: Rex = TIME,
        watermark: Rex | None = None,
        gap: int | None = None,
        idle_ms: int = 0,
        drift_ms: int | None = None,
        interval: int = 200,
        progress: list[SplitProgress] | None = None,
        snapshots: tuple[Any, ...] = (),
        **more: Any,
    ) -> None:
        strategy = WatermarkStrategy.for_generator(NoWatermarks)
        if idle_ms:
            strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
        if drift_ms is not None:
            strategy = strategy.with_watermark_alignment("g", Duration.of_millis(drift_ms))
        self.pipelined = pipelined
        self.clock = ManualClock(1_000)
        spec = TableSourceSpec(
            Splits(columnar),
            strategy,
            rowtime=rowtime,
            watermark=watermark or Call(TYPES[1], "-", (rowtime, DELAY)),
            rows=None if columnar else ROWS,
            gap=gap,
        )
        self.harness = OperatorHarness(
            spec,
            clock=self.clock,
            pipelined=pipelined,
            snapshots=snapshots,
            auto_watermark_interval=interval,
            **more,
        )
        self.events: list[Any] = []  # numbers of rows, and watermarks, in their order
        output = self.harness.operator.output
        output.emit = lambda batch: self.events.append(len(batch))  # type: ignore[method-assign]
        output.emit_watermark = lambda time: self.events.append(f"W{time}")  # type: ignore[method-assign]
        self.payloads: dict[str, list[Any]] = {}
        self.progress = progress or []
        if progress and pipelined:
            self.harness.operator.add_splits(SourceAssignment(self.progress))
        for each in self.progress:
            self.payloads[each.split.split_id] = each.split.payload

    def assign(self, *names: str) -> None:
        for name in names:
            self.payloads[name] = []
        found = [SplitProgress(SourceSplit(name, self.payloads[name], 0), 0) for name in names]
        self.progress += found
        if self.pipelined:
            self.harness.operator.add_splits(SourceAssignment(found))

    def read(self, **batches: list[list[int | None]]) -> list[Any]:
        """Let batches arrive, read them, and let the next watermark be due; return what was emitted."""
        for name, found in batches.items():
            self.payloads[name] += found
        self.events.clear()
        operator = self.harness.operator
        if self.pipelined:
            operator.on_wakeup()
            while operator.poll() is PollResult.MORE:
                pass
            self.clock.advance(200)
            operator.advance_processing_time(self.clock.now)
        else:
            self.clock.advance(200)
            for _ in operator.run(SourceAssignment(self.progress), None):
                pass
            operator.barrier()
            self.progress = operator.progress()
        return list(self.events)

    def restarted(self, **more: Any) -> Run:
        snapshot = self.harness.snapshot()
        progress = self.harness.operator.progress()
        self.harness.close()
        return Run(pipelined=self.pipelined, progress=progress, snapshots=(snapshot,), **more)


@pytest.fixture(params=["epochs", "pipelined"])
def pipelined(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "pipelined")


@pytest.mark.parametrize("columnar", [False, True], ids=["rows", "columns"])
def test_the_subtask_has_the_lowest_watermark_of_its_splits(
    pipelined: bool, columnar: bool
) -> None:
    run = Run(pipelined=pipelined, columnar=columnar)
    run.assign("fast", "slow")
    assert run.read(fast=[[100, 900]]) == [2]  # the other one may have older rows
    assert run.read(slow=[[50, 40]]) == [2, "W40"]
    assert run.read(fast=[[2_000]]) == [1]
    assert run.read(slow=[[1_500]]) == [1, "W1490"]


def test_a_batch_that_moves_time_on_by_more_than_the_interval_brings_a_watermark(
    pipelined: bool,
) -> None:
    run = Run(pipelined=pipelined, interval=200)
    run.assign("a", "b")
    assert run.read(a=[[10]], b=[[10]])[-1] == "W0"
    assert run.read(a=[[5_000], [9_000]]) == [1, 1]
    assert run.read(b=[[150], [400], [450], [700]]) == [1, 1, "W390", 1, 1, "W690"]
    assert run.read(b=[[900], [950]]) == [1, 1, "W940"]  # 890 is not more than the interval ahead


def test_an_idle_split_holds_nothing_back(pipelined: bool) -> None:
    run = Run(pipelined=pipelined, idle_ms=500)
    run.assign("fast", "quiet")
    assert run.read(quiet=[[30]], fast=[[100]])[-1] == "W20"
    assert run.read(fast=[[1_000]]) == [1]
    assert run.read(fast=[[2_000]]) in ([1], [1, "W1990"])
    assert run.read(fast=[[3_000]]) == [1, "W2990"]
    assert run.read(quiet=[[2_995]]) == [1]  # what comes back does not take time back
    assert run.read(fast=[[4_000]]) == [1]
    assert run.read(quiet=[[3_500]]) == [1, "W3490"]


def test_a_split_that_is_too_far_ahead_of_its_group_waits() -> None:
    run = Run(pipelined=True, drift_ms=20)
    run.assign("a", "b")
    run.read(a=[[1_000]], b=[[1_000]])
    run.harness.operator.pipelined.update_watermark_alignment(980)
    assert run.read(a=[[1_500]], b=[[1_010]]) == [1, 1, "W1000"]
    assert run.read(a=[[1_600]], b=[[1_020]]) == [1, "W1010"]  # `a` is at 1490, 1000 is allowed
    run.harness.operator.pipelined.update_watermark_alignment(1_490)
    assert run.read() == [1]


def test_watermarks_by_rows_stand_between_them(pipelined: bool) -> None:
    run = Run(pipelined=pipelined, gap=3)
    run.assign("a")
    assert run.read(a=[[100, 90, 110, 120, 130, 80, 10, 140]]) == [3, "W100", 3, "W120", 2]
    assert run.read(a=[[135, 136]]) == [1, "W130", 1]  # 140 fills no gap, 135 does
    assert run.read(a=[[50, 60]]) == [2]
    run = Run(pipelined=pipelined, gap=1)
    run.assign("a", "b")
    assert run.read(a=[[100, 200]]) in ([1, 1], [2])
    assert run.read(b=[[150, 300, 400]]) == [1, "W140", 1, "W190", 1]


def test_without_an_interval_a_watermark_follows_each_row_that_raises_it(pipelined: bool) -> None:
    for gap, emitted in ((None, [1, "W90", 1, "W100"]), (2, [2, "W100"])):
        run = Run(pipelined=pipelined, gap=gap, interval=0)
        run.assign("a")
        assert run.read(a=[[100, 110]]) == emitted


@pytest.mark.parametrize("gap", [None, 2], ids=["periodic", "by rows"])
def test_watermark_of_each_split_is_restored(pipelined: bool, gap: int | None) -> None:
    run = Run(pipelined=pipelined, gap=gap)
    run.assign("a", "b")
    run.read(a=[[1_000, 1_001]], b=[[500, 501, 502]])
    run = run.restarted(gap=gap)
    # The watermark of `a` is known: its next row is older, and does not set it back.
    assert run.read(b=[[900]])[-1] == "W890"
    assert run.read(b=[[2_000, 2_001]])[-1] == "W991"


def test_a_split_of_a_table_without_watermark_begins_with_none(pipelined: bool) -> None:
    run = Run(pipelined=pipelined)
    run.assign("a")
    split = SplitProgress(SourceSplit("a", [], 0), 0, generator=(None, -(2**63), None))
    run = Run(pipelined=pipelined, progress=[split])
    assert run.read(a=[[30]]) == [1, "W20"]


def test_rows_without_a_time_are_refused() -> None:
    computed = Call(TYPES[1], "+", (TIME, DELAY))
    constant = Literal(TYPES[1], EPOCH)
    for more in (
        {},
        {"columnar": True},
        {"gap": 2},
        {"batch_mode": True},
        {"rowtime": computed},
        {"rowtime": computed, "watermark": computed, "gap": 1},
        {"rowtime": computed, "watermark": constant},
    ):
        run = Run(pipelined=False, **more)
        run.assign("a")
        with pytest.raises(RecordError, match="NULL in the rowtime attribute"):
            run.read(a=[[5, None]])


def test_a_watermark_may_be_null_or_constant_where_times_are_not() -> None:
    never = Literal(TYPES[1], None)
    constant = Literal(TYPES[1], EPOCH + dt.timedelta(milliseconds=7))
    for gap in (None, 1):
        run = Run(pipelined=False, watermark=never, gap=gap)
        run.assign("a")
        assert run.read(a=[[1, 2]]) == [2]
        run = Run(pipelined=False, watermark=constant, gap=gap)
        run.assign("a")
        assert run.read(a=[[1, 2]]) == ([2, "W7"] if gap is None else [1, "W7", 1])


def test_batch_mode_has_no_watermarks_before_the_end() -> None:
    run = Run(pipelined=False, batch_mode=True, gap=1)
    run.assign("a")
    assert run.read(a=[[5, 6]]) == [2]


def test_watermarks_by_rows_are_those_of_a_loop_over_rows() -> None:
    rng = np.random.default_rng(7)
    for gap in (1, 2, 5, 64):
        batches = [rng.integers(0, 10_000, size).tolist() for size in (1, 3, 17, 200, 64)]
        highest, announced, count, wanted = -(2**63), -(2**63), 0, []
        for time in (each for batch in batches for each in batch):
            highest, count = max(highest, time - 10), count + 1
            if count % gap == 0 and highest > announced:
                announced = highest
                wanted.append((count, f"W{announced}"))
        run = Run(pipelined=False, gap=gap)
        run.assign("a")
        seen, found = 0, []
        for event in run.read(a=batches):
            if isinstance(event, int):
                seen += event
            else:
                found.append((seen, event))
        assert found == wanted

"""What metrics cost: one job, in which measuring is turned on and off every few batches.

    python -m benchmarks.metrics [SECONDS]

The processor time for a record is compared between parts of the same run, so that whatever else the machine does meets all of them: with
measuring, without, and without once more, which tells how far the figure can be trusted. On top
come the reports, once a second or with each epoch, whose time is measured itself, and is part of the report. Counting
records cannot be turned off. Jobs run in one process, without Spark. What a scrape by Prometheus takes is told apart: it is the
driver's time, not the job's.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource
from penstock.pickling.portable_pickles import dumps
from penstock.rest.reporters.prometheus import expose
from penstock.rest.reporters.starting import gather
from penstock.rest.routing.routes import Services
from penstock.runtime.operators.connectors.source import SourceOperator
from penstock.runtime.task.epochs import epoch_slot
from penstock.runtime.task.epochs.subtask_stopwatch import SubtaskStopwatch
from penstock.runtime.task.pipelined.slot_metrics import SlotMetrics
from penstock.runtime.task.shared.chain_times import ChainTimes
from penstock.testing import MiniCluster
from penstock.windowing import TumblingEventTimeWindows

SPANS = 3  # spans of work until the next part
ON, OFF, CONTROL = range(3)
SCRAPES = 20


class Counting(MapFunction):
    """Counts each record."""

    def open(self, runtime_context: Any) -> None:
        """Register the counter."""
        self._seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: int) -> int:
        """Count."""
        self._seen.inc()
        return value + 1


def chain(env: StreamExecutionEnvironment) -> None:
    """Five operators in one chain, which do next to nothing: the most that there is to measure for each record."""
    numbers = env.from_source(
        DataGeneratorSource(lambda n: n), WatermarkStrategy.no_watermarks(), "numbers"
    )
    stream = numbers.map(lambda n: n + 1).map(lambda n: n * 3).filter(lambda n: n % 2 == 0)
    stream.map(Counting()).filter(lambda _: False).print()


def windows(env: StreamExecutionEnvironment) -> None:
    """Windows over keys, behind an exchange."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Stamps())
    numbers = env.from_source(DataGeneratorSource(lambda n: (n % 100, 1)), strategy, "pairs")
    keyed = numbers.key_by(lambda pair: pair[0], Types.INT())
    summed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))
    summed.reduce(lambda a, b: (a[0], a[1] + b[1])).filter(lambda _: False).print()


class _Stamps:
    def __init__(self) -> None:
        self._now = 0

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        self._now += 1
        return self._now


class Switch:
    """Turns measuring on and off, and adds up what each half of the time took."""

    def __init__(self) -> None:
        self.part = OFF
        self.seconds = [0.0, 0.0, 0.0]
        self.records = [0, 0, 0]
        self.reports = 0
        self.report_s = 0.0
        self._left = SPANS
        self._since: tuple[float, int] | None = None  # processor time, records

    @property
    def on(self) -> bool:
        """Whether it is measured now."""
        return self.part == ON

    def tick(self, times: ChainTimes) -> None:
        """Perhaps it is time for the next part. Only the subtask with the source tells."""
        head: Any = times._outputs[0]  # noqa: SLF001 - there is no other way to know
        if not isinstance(head._operator, SourceOperator):  # noqa: SLF001 - as above
            return
        self._left -= 1
        if self._left:
            return
        self._left = SPANS
        now = (time.thread_time(), head.records_out)
        if self._since is not None and now[1] >= self._since[1]:
            self.seconds[self.part] += now[0] - self._since[0]
            self.records[self.part] += now[1] - self._since[1]
        self._since = now
        self.part = random.randrange(3)

    def timed(self, report: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function, whose time is added up and belongs to no half; what it returns is pickled, as it will be."""

        def measured(*arguments: Any) -> Any:
            begun = time.thread_time()
            found = report(*arguments)
            dumps(found)
            took = time.thread_time() - begun
            self.report_s += took
            self.reports += 1
            if self._since is not None:
                self._since = (self._since[0] + took, self._since[1])
            return found

        return measured

    def more(self, part: int) -> float:
        """Return how much more a record takes in a part than without measuring, as a part of that."""
        each, off = (self.seconds[one] / max(self.records[one], 1) for one in (part, OFF))
        return each / off - 1

    @property
    def reporting(self) -> float:
        """Which part of the time reports take."""
        return self.report_s / max(sum(self.seconds), 1e-9)


@contextlib.contextmanager
def switched(switch: Switch, mode: str) -> Iterator[None]:
    """Have the switch decide, wherever a span of work begins."""
    begin, turn_begin, turn_end = ChainTimes.begin, SubtaskStopwatch.begin, SubtaskStopwatch.end

    def chain_begins(times: ChainTimes) -> None:
        if mode == "pipelined":
            switch.tick(times)
        if switch.on:
            begin(times)

    def turn_begins(clock: SubtaskStopwatch, subtask: Any) -> None:
        switch.tick(subtask.metrics.times)
        if switch.on:
            turn_begin(clock, subtask)

    def turn_ends(clock: SubtaskStopwatch) -> None:
        if switch.on:
            turn_end(clock)

    with contextlib.ExitStack() as stack:
        for owner, name, instead in (
            (ChainTimes, "begin", chain_begins),
            (SubtaskStopwatch, "begin", turn_begins),
            (SubtaskStopwatch, "end", turn_ends),
            (SlotMetrics, "take", switch.timed(SlotMetrics.take)),
            (epoch_slot, "_report", switch.timed(epoch_slot._report)),  # noqa: SLF001
        ):
            stack.enter_context(mock.patch.object(owner, name, instead))
        yield


def measure(build: Callable[[StreamExecutionEnvironment], None], mode: str, seconds: float) -> str:
    """Run a job for so long; return what was measured."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env)
    switch, services = Switch(), Services()
    with MiniCluster(mode), switched(switch, mode):
        job = env.execute_async("metrics")
        services.jobs.publish(job._controller)  # noqa: SLF001
        time.sleep(seconds)
        begun = time.thread_time()
        for _ in range(SCRAPES):
            expose(gather(services), "")
        scrape_ms = (time.thread_time() - begun) / SCRAPES * 1000
        job.cancel().exception(60)
    rate = switch.records[OFF] / max(switch.seconds[OFF], 1e-9)
    report_ms = switch.report_s / max(switch.reports, 1) * 1000
    measuring, control, reporting = (
        f"{100 * each:+.2f} %" for each in (switch.more(ON), switch.more(CONTROL), switch.reporting)
    )
    return (
        f"measuring {measuring} (control {control}), reporting {reporting};  {rate:,.0f} records/s without, "
        f"{switch.reports} reports of {report_ms:.2f} ms, a scrape {scrape_ms:.1f} ms"
    )


def main() -> None:
    """Measure and tell."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    for build in (chain, windows):
        for mode in ("pipelined", "epochs"):
            found = measure(build, mode, seconds)
            print(f"{build.__name__:8} {mode:10} {found}", flush=True)


if __name__ == "__main__":
    main()

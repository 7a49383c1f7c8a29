"""Parts of a job that fail by themselves, at any time: each goes back alone, and what each puts out comes once."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import JobStatus, WatermarkStrategy
from penstock.connectors.base.sink import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
)
from penstock.datastream import MapFunction
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.counting_job import KEYS, Slowly, Total, environment
from tests.builders.examples import examples
from tests.builders.steps import before_each_trigger

REGIONS = ("a", "b", "c")
LAST = 8  # the checkpoint before which the job is told to drain
MOMENTS = ["before write_manifest", "after write_manifest", "before commit_sink", "after trigger"]
FAULTS = st.one_of(
    st.tuples(st.just("task"), st.sampled_from(REGIONS)),
    st.tuples(st.just("step"), st.sampled_from(MOMENTS)),
)
SCHEDULES = st.dictionaries(st.integers(1, LAST), st.lists(FAULTS, max_size=3), max_size=5)
OPTIONS = st.sampled_from(
    [
        {},
        {"execution__checkpointing__max_concurrent_checkpoints": "3"},
        {"execution__checkpointing__unaligned__enabled": "true"},
    ]
)

# Told to the tasks, which are threads of this process, and by them.
TO_FAIL: list[str] = []
COMMITTED: dict[str, dict[int, list[Any]]] = defaultdict(dict)


class FailsWhenTold(MapFunction):
    def __init__(self, region: str) -> None:
        self.region = region

    def map(self, value: Any) -> Any:
        if self.region in TO_FAIL:
            TO_FAIL.remove(self.region)
            raise ValueError(f"{self.region} was told to fail")
        return value


class Publishing(Sink):
    """Publishes all but one value of each checkpoint; that one waits for the next."""

    def __init__(self, region: str) -> None:
        self.region = region

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        return _Committer(self.region)


class _Writer(SinkWriter):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def write(self, values: list[Any], timestamps: Any, watermark: int) -> None:
        self.values += values

    def prepare_commit(self) -> list[Any]:
        values, self.values = self.values, []
        return values


class _Committer(Committer):
    def __init__(self, region: str) -> None:
        self.region = region

    def commit(self, request: CommitRequest) -> Any:
        values = [*(request.pending or ()), *request.committables]
        kept = [] if request.final else values[-1:]
        ready = values[: len(values) - len(kept)]
        before = COMMITTED[self.region].setdefault(request.checkpoint_id, ready)
        assert before == ready, "a commit changed its mind"
        return kept or None

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        pass


def run(schedule: dict[int, list[tuple[str, str]]], directory: str, **options: str) -> Any:
    TO_FAIL.clear()
    COMMITTED.clear()
    left = {number: list(faults) for number, faults in schedule.items()}
    moments: list[str] = []
    stopping: list[Future[str]] = []
    env = environment(
        2,
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="1000",
        restart_strategy__fixed_delay__delay="0 s",
        penstock__state__inline_threshold="0 b",
        execution__checkpointing__interval="10 ms",
        execution__checkpointing__tolerable_failed_checkpoints="3",
        **options,
    )
    for region in REGIONS:
        numbers = env.from_source(
            Slowly(), WatermarkStrategy.for_monotonous_timestamps(), f"{region}-numbers"
        )
        totals = numbers.key_by(lambda number: number % KEYS).process(Total())
        totals.map(FailsWhenTold(region)).sink_to(Publishing(region))

    def before(number: int) -> None:
        for kind, what in left.pop(number, []):
            (TO_FAIL if kind == "task" else moments).append(what)
        if number >= LAST and not stopping:
            master = cluster.masters[0]
            stopping.append(master.request_savepoint(directory, stops=True, drains=True))

    def fail(moment: str, number: int) -> None:
        if moment in moments:
            moments.remove(moment)
            raise RuntimeError(f"not {moment}")

    with (
        MiniCluster(mode="pipelined") as cluster,
        before_each_trigger(before),
        watched_steps(fail),
        storage_faults(StorageFaults(every=29, full=True, path="shared/")),
    ):
        env.execute("regions")
    assert stopping[0].result(0)
    return cluster.masters[0]


@settings(max_examples=examples(15), deadline=None)
@given(SCHEDULES, OPTIONS)
def test_every_part_puts_out_each_of_its_values_once(
    schedule: dict[int, list[tuple[str, str]]], options: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        master = run(schedule, directory, **options)
    assert master.status is JobStatus.FINISHED
    for region in REGIONS:
        found = Counter(value for values in COMMITTED[region].values() for value in values)
        assert found == expected(sum(found.values())), region
        assert found


def expected(count: int) -> Counter[Any]:
    """Return what a region puts out for the first numbers."""
    sums: Counter[int] = Counter()
    out: Counter[Any] = Counter()
    for number in range(count):
        sums[number % KEYS] += number
        out[number % KEYS, sums[number % KEYS]] += 1
    return out

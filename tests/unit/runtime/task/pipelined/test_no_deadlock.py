"""Slots that try hard to block each other: buffers of a few records, every exchange all-to-all, skewed keys, explosions."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from penstock.common import WatermarkStrategy
from penstock.graph.deployment import JobSettings
from penstock.graph.operator_specs import FlatMapSpec, MapSpec, SourceSpec
from penstock.graph.partitioning import Hash
from penstock.graph.stage import BarrierSettings, NetworkSettings
from tests.builders import pipes, stages

SLOTS = 3
RECORDS = 12
COPIES = 10_000

SEEN: Counter[int] = Counter()
LOCK = threading.Lock()


def explode(value):
    """Ten thousand results of one record."""
    for copy in range(COPIES):
        yield value * COPIES + copy


def mostly_one(value):
    """A key that nine of ten records share, so that one subtask gets almost all."""
    return 0 if value % 10 else value % 97


def spread(value):
    return value % 101


def count(value):
    with LOCK:
        SEEN[value] += 1
    return value


def explosion(network: NetworkSettings, **options):
    """Source, explosion, a step with skewed keys, one with spread keys: all-to-all between each two."""
    source = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(bounded=True), WatermarkStrategy.for_monotonous_timestamps()),
        level=0,
        parallelism=SLOTS,
        edges=[pipes.edge(1, "HASH", targets=SLOTS)],
        partitionings=[Hash(spread)],
    )
    steps = [
        pipes.vertex(
            number,
            spec,
            level=number,
            parallelism=SLOTS,
            gates=[pipes.gate(number - 1, "HASH", sources=SLOTS)],
            edges=[pipes.edge(number + 1, "HASH", targets=SLOTS)],
            partitionings=[Hash(key)],
        )
        for number, spec, key in (
            (1, FlatMapSpec(explode), mostly_one),
            (2, MapSpec(abs), spread),
        )
    ]
    end = pipes.vertex(
        3,
        MapSpec(count),
        level=3,
        parallelism=SLOTS,
        gates=[pipes.gate(2, "HASH", sources=SLOTS)],
    )
    splits = {
        (0, slot): pipes.reads([(n, n) for n in range(slot, RECORDS, SLOTS)])
        for slot in range(SLOTS)
    }
    settings = JobSettings("job", "job", buffer_bytes=300)
    return stages.stage(
        source, *steps, end, settings=settings, assignments=splits, network=network, **options
    )


@pytest.mark.parametrize(
    "network",
    [
        NetworkSettings(channel_bytes=1, gate_bytes=0),
        NetworkSettings(channel_bytes=600, gate_bytes=300, buffer_timeout_ms=0),
        NetworkSettings(channel_bytes=100_000, slot_bytes=2000, buffer_timeout_ms=None),
    ],
    ids=["one buffer at a time", "two buffers", "little for the slot"],
)
@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
def test_slots_that_all_send_to_each_other_come_to_their_end(network, unaligned) -> None:
    SEEN.clear()
    barriers = BarrierSettings(unaligned=unaligned)
    with stages.Running(explosion(network, barriers=barriers)) as run:
        for checkpoint in (1, 2):
            run.checkpoint(checkpoint)
        run.until(lambda: len(run.finished_sources()) == SLOTS, seconds=120)
        run.checkpoint(3)
        run.until(lambda: SEEN.total() == RECORDS * COPIES or run.failed, seconds=120)
        assert not run.failed
        run.leave()
    assert Counter(range(RECORDS * COPIES)) == SEEN

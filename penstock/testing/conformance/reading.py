"""Reads splits by hand, as a task does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.common.user_types import Position
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.pickling import cloudpickling
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from penstock.testing.conformance.rules import broken, step
from penstock.testing.conformance.setups import SourceSetup
from penstock.time import clock

BATCH = 7
_DISCOVERY_S = 5.0
_QUIET_TURNS = 5
_TURN_S = 0.3  # how long a reader may wait in one call


def copy_of(value: Any, what: str) -> Any:
    """Return what comes out of a pickle, as in a task or after a restart."""
    with step(f"pickling {what}"):
        return cloudpickling.loads(cloudpickling.dumps(value))


@contextmanager
def opened(source: Source) -> Iterator[SourceReader]:
    """Open a reader as a task does."""
    with step("create_reader"):
        reader = copy_of(source, "the source").create_reader()
    with step("reader.open"):
        reader.use_wake(lambda: None)
        reader.open(
            StreamingRuntimeContext(
                task_name="source", subtask=0, parallelism=1, max_parallelism=128
            )
        )
    try:
        yield reader
    finally:
        with step("reader.close"):
            reader.close()


@dataclass
class SplitRead:
    """What was read of a split."""

    split: SourceSplit
    position: Position
    batches: list[SourceBatch] = field(default_factory=list)
    finished: bool = False

    @property
    def records(self) -> list[Any]:
        """All records, in order."""
        return [record for batch in self.batches for record in batch.records]


def found_splits(source: Source, parallelism: int = 2) -> list[SourceSplit]:
    """Let an enumerator find the splits, as tasks get them."""
    with step("create_enumerator"):
        enumerator = source.create_enumerator(parallelism)
    try:
        splits = discovered(enumerator)
        copy_of(enumerator.snapshot(), "what enumerator.snapshot returns")
    finally:
        with step("enumerator.close"):
            enumerator.close()
    return [copy_of(split, f"split {split.split_id!r}") for split in splits]


def discovered(enumerator: SplitEnumerator) -> list[SourceSplit]:
    """Discover splits until there are some and no new ones follow; an unbounded source may need a while."""
    splits: list[SourceSplit] = []
    quiet, end = 0, time.monotonic() + _DISCOVERY_S
    while not enumerator.no_more_splits() and quiet < _QUIET_TURNS and time.monotonic() < end:
        with step("enumerator.discover"):
            enumerator.observe(splits)
            found = list(enumerator.discover())
        splits += found
        quiet = 0 if found or not splits else quiet + 1
        if not found:
            time.sleep(0.02)
    return splits


def read_splits(
    setup: SourceSetup,
    source: Source,
    starts: Sequence[tuple[SourceSplit, Any]],
    count: int,
    *,
    batch_size: int = BATCH,
) -> list[SplitRead]:
    """Read splits from positions: to their ends, or until there are this many records and no more follow."""
    reads = [SplitRead(split, copy_of(position, "a position")) for split, position in starts]
    bounded = source.get_boundedness() is Boundedness.BOUNDED
    end = time.monotonic() + setup.wait_s
    with opened(source) as reader:
        while True:
            before = sum(len(each.records) for each in reads)
            for each in reads:
                if not each.finished:
                    _read_on(reader, each, batch_size, bounded=bounded or each.split.bounded)
            total = sum(len(each.records) for each in reads)
            if all(each.finished for each in reads) or (total >= count and total == before):
                return reads
            if time.monotonic() > end:
                return reads


def _read_on(reader: SourceReader, read: SplitRead, batch_size: int, *, bounded: bool) -> None:
    deadline = None if bounded else clock.now() + _TURN_S
    where = f"reader.read of split {read.split.split_id!r} from {read.position!r}"
    turn_end = time.monotonic() + 20 * _TURN_S
    with step(where):
        for batch in reader.read(read.split, read.position, ReadLimits(deadline, batch_size)):
            if batch.records or batch.malformed:
                read.batches.append(batch)
            read.position = copy_of(batch.position, "a position")
            if not bounded and time.monotonic() > turn_end:
                raise broken(where, f"it still reads {20 * _TURN_S:g} s after its deadline")
    read.finished = bounded

"""Limits of readers that are inside of other readers."""

from __future__ import annotations

import polars as pl

from penstock.connectors.base.frames import FrameSource
from penstock.connectors.base.source import NonBlockingReadLimits, ReadLimits


def test_limits_with_another_batch_size_end_at_the_same_time() -> None:
    limits = ReadLimits.lasting(3600)
    inner = limits.with_batch_size(7)
    assert inner.batch_size == 7
    assert inner.deadline == limits.deadline
    assert not inner.expired
    assert ReadLimits().with_batch_size(7).remaining is None


def test_a_reader_inside_of_one_that_must_not_wait_looks_once() -> None:
    inner = NonBlockingReadLimits().with_batch_size(7)
    assert isinstance(inner, NonBlockingReadLimits)
    assert (inner.batch_size, inner.remaining) == (7, 0.0)
    assert (inner.expired, inner.expired) == (False, True)


def test_a_table_of_a_frame_is_read_without_waiting() -> None:
    source = FrameSource(pl.DataFrame({"c0": [1, 2, 3]}))
    [split] = source.create_enumerator(1).discover()
    [batch] = source.create_reader().read(split, split.start, NonBlockingReadLimits())
    assert pl.DataFrame(batch.records)["c0"].to_list() == [1, 2, 3]

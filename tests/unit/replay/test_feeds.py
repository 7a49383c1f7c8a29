"""What a channel brings again: the sender's records, in the portions in which the receiver took them."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from penstock.replay.feeds import ChannelFeed
from penstock.runtime.network.messages import DATA, WATERMARK
from penstock.runtime.records import RowBatch

sizes = st.lists(st.integers(1, 20), max_size=8)


def filled(*parts):
    feed, first = ChannelFeed(), 0
    for size in parts:
        feed.put(DATA, RowBatch(list(range(first, first + size)), keys=[0] * size))
        feed.put(WATERMARK, first)
        first += size
    return feed


@given(sizes, sizes)
def test_records_come_in_order_in_the_portions_that_are_asked_for(sent, taken):
    feed = filled(*sent)
    portions = [feed.take(count) for count in taken]
    found = [value for batch in portions if batch is not None for value in batch.values]
    total = min(sum(sent), sum(taken))
    assert found == list(range(total))
    assert feed.missing == sum(taken) - total
    lengths = [0 if batch is None else len(batch) for batch in portions]
    for wanted, got in zip(taken, lengths, strict=True):
        assert got == wanted or feed.missing


def test_receiver_without_a_trace_gets_the_original_batches():
    feed = filled(2, 1)
    found = []
    while (item := feed.next()) is not None:
        found.append(item[0] if item[0] == WATERMARK else item[1].values)
    assert found == [[0, 1], WATERMARK, [2], WATERMARK]


def test_modified_records_do_not_affect_the_next_run():
    feed = ChannelFeed()
    feed.put(DATA, RowBatch([[1], [2]]))
    first = feed.copy().take(2)
    first.values[0].append("changed")
    assert feed.copy().take(2).values == [[1], [2]]


def test_records_that_cannot_be_pickled_pass_as_they_are():
    feed, record = ChannelFeed(), lambda: None
    lock = threading.Lock()
    feed.put(DATA, RowBatch([lock, record]))
    assert feed.take(2).values[0] is lock

"""The order in which records leave, against a list that is searched from its beginning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.operators.functions.async_queue import (
    AsyncQueueEntry,
    AsyncQueueEvent,
    OrderedQueue,
    UnorderedQueue,
)


class ListModel:
    """All items of the input, and the answered ones in the order of their answers."""

    def __init__(self, *, ordered):
        self.ordered = ordered
        self.items = []
        self.answers = []

    def release(self):
        out = []
        while True:
            first = self._first()
            if first is None:
                return out
            self.items.remove(first)
            if first in self.answers:
                self.answers.remove(first)
            out.append(first)

    def in_order(self):
        """Return what waits, in an order that gives another queue the same: between two controls, answers first, as they came."""
        if self.ordered:
            return self.items
        found, segment = [], []
        for item in [*self.items, None]:
            if isinstance(item, AsyncQueueEntry):
                segment.append(item)
                continue
            found += [entry for entry in self.answers if entry in segment]
            found += [entry for entry in segment if entry not in self.answers]
            found += [] if item is None else [item]
            segment = []
        return found

    def _first(self):
        if not self.items:
            return None
        if isinstance(self.items[0], AsyncQueueEvent):
            return self.items[0]
        if self.ordered:
            return self.items[0] if self.items[0] in self.answers else None
        head = []
        for item in self.items:
            if isinstance(item, AsyncQueueEvent):
                break
            head.append(item)
        return next((entry for entry in self.answers if entry in head), None)


STEPS = st.lists(st.one_of(st.just("record"), st.just("control"), st.integers(0, 5)), max_size=40)


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@given(steps=STEPS)
def test_items_leave_as_in_the_model(ordered, steps):
    queue = OrderedQueue() if ordered else UnorderedQueue()
    model = ListModel(ordered=ordered)
    out, open_entries = [], []
    for number, step in enumerate(steps):
        expected = model.release()
        queue.release(out)
        assert out == expected
        out.clear()
        assert list(queue) == model.in_order()
        assert queue.size == sum(isinstance(item, AsyncQueueEntry) for item in model.items)
        if step in ("record", "control"):
            item = (
                AsyncQueueEntry(number, None)
                if step == "record"
                else AsyncQueueEvent(watermark=number)
            )
            queue.add(item)
            model.items.append(item)
            if step == "record":
                open_entries.append(item)
        elif open_entries:
            entry = open_entries.pop(step % len(open_entries))
            entry.results = [entry.value]
            queue.on_answer(entry)
            model.answers.append(entry)


@pytest.mark.parametrize("kind", [OrderedQueue, UnorderedQueue])
def test_a_record_that_has_its_answer_already_leaves_at_once(kind):
    queue, out = kind(), []
    queue.add(AsyncQueueEntry("a", 1, 0, []))
    queue.add(AsyncQueueEvent(idle=True))
    queue.release(out)
    assert [type(item) for item in out] == [AsyncQueueEntry, AsyncQueueEvent]
    assert (queue.size, list(queue)) == (0, [])


def test_a_restored_queue_lets_answers_leave_in_the_order_in_which_they_came():
    queue, a, b, c = (
        UnorderedQueue(),
        AsyncQueueEntry("a", 1),
        AsyncQueueEntry("b", 1),
        AsyncQueueEntry("c", 1),
    )
    for item in (AsyncQueueEntry("first", 0), AsyncQueueEvent(watermark=0), a, b, c):
        queue.add(item)
    for entry in (c, a):
        entry.results = []
        queue.on_answer(entry)
    again = UnorderedQueue()
    for item in queue:
        again.add(item)
    assert [item.value for item in again if isinstance(item, AsyncQueueEntry)] == [
        "first",
        "c",
        "a",
        "b",
    ]

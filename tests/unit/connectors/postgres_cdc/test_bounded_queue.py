"""The queue between a receiving thread and a task that must not wait."""

from __future__ import annotations

import threading

from penstock.connectors.postgres_cdc.bounded_queue import BoundedQueue


def test_consumer_of_an_empty_mailbox_is_woken_once():
    woken = []
    box = BoundedQueue(10, lambda: woken.append(1), lambda: None)
    assert box.take() is None
    box.put("a")
    box.put("b")
    assert len(woken) == 1
    assert [box.take(), box.take(), box.take()] == ["a", "b", None]
    box.put("c")
    assert len(woken) == 2


def test_who_asks_whether_to_sleep_is_woken_although_it_took_something_last():
    woken = []
    box = BoundedQueue(10, lambda: woken.append(1), lambda: None)
    box.put("a")
    box.take()
    assert box.sleeps()
    box.put("b")
    assert len(woken) == 2
    assert not box.sleeps()


def test_all_that_is_put_is_taken_in_order_within_the_bound():
    box = BoundedQueue(8, lambda: None, lambda: None)
    taken, most = [], 0

    def put():
        for number in range(5000):
            while box.full:
                box.wait_for_room(1)
            box.put(number, 3)

    thread = threading.Thread(target=put)
    thread.start()
    while len(taken) < 5000:
        box.wait(1)
        most = max(most, box._put_weight - box._taken_weight)
        item = box.take()
        if item is not None:
            taken.append(item)
    thread.join()
    assert taken == list(range(5000))
    assert most <= 10

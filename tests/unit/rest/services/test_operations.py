"""Operations that take a while, and how the end of a process waits for who asked for them."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from penstock.rest.messages import HttpError
from penstock.rest.resources.savepoints import SavepointOutcome
from penstock.rest.services import operations as module
from penstock.rest.services.operations import Operations, run_in_background
from tests.builders.conditions import ManualCondition


@pytest.fixture
def changes():
    return ManualCondition()


@pytest.fixture
def operations(changes):
    return Operations(changes.clock, changes)


def start(operations, future=None, job_id="j"):
    future = future or Future()
    response = operations.start("savepoint", job_id, lambda: future)
    return response.content.request_id, future


def status(operations, trigger):
    return operations.status(
        "savepoint", "j", trigger, lambda path: SavepointOutcome(location=path)
    )


def test_a_process_without_operations_ends_at_once(operations, changes):
    operations.wait_until_fetched(60)
    assert changes.waits == 0


def test_a_result_that_was_sent_is_not_waited_for(operations, changes):
    trigger, future = start(operations)
    future.set_result("/sp")
    status(operations, trigger).sent()
    operations.wait_until_fetched(60)
    assert changes.waits == 0


def test_the_end_waits_until_the_result_was_sent(operations, changes):
    trigger, future = start(operations)
    steps = iter(
        [
            lambda: None,
            lambda: future.set_result("/sp"),
            lambda: status(operations, trigger),
            lambda: status(operations, trigger).sent(),
        ]
    )
    changes.during_a_wait = lambda: next(steps)()
    operations.wait_until_fetched(60)
    assert changes.waits == 4


def test_a_result_that_is_sent_ends_the_wait_of_another_thread():
    operations = Operations()
    trigger, future = start(operations)
    ending = threading.Thread(target=operations.wait_until_fetched, args=(3600,), daemon=True)
    ending.start()
    future.set_result("/sp")
    status(operations, trigger).sent()
    ending.join(60)
    assert not ending.is_alive()


def test_an_unread_result_delays_the_end_for_as_long_as_allowed(operations, changes):
    _, future = start(operations)
    future.set_result("/sp")
    operations.wait_until_fetched(0.3)
    assert changes.now - 1000 == pytest.approx(0.3, abs=0.06)


def test_a_result_from_long_ago_does_not_delay_the_end(operations, changes):
    _, future = start(operations)
    future.set_result("/sp")
    changes.now += 61
    operations.wait_until_fetched(60)
    assert changes.waits == 0


def test_only_the_last_operations_are_kept_but_those_under_way_are(operations, monkeypatch):
    monkeypatch.setattr(module, "KEPT_OPERATIONS", 3)
    under_way, _ = start(operations)
    done = [start(operations) for _ in range(5)]
    for _, future in done:
        future.set_result("/sp")
    last, _ = start(operations)
    assert status(operations, under_way).content.status.id == "IN_PROGRESS"
    assert status(operations, last).content.status.id == "IN_PROGRESS"
    assert status(operations, done[-1][0]).content.operation == SavepointOutcome(location="/sp")
    with pytest.raises(HttpError):
        status(operations, done[0][0])


def test_a_cancelled_future_is_a_failure(operations):
    trigger, future = start(operations)
    future.cancel()
    cause = status(operations, trigger).content.operation.failure_cause
    assert cause.message == "the operation was cancelled"


def test_a_failure_of_a_user_has_its_traceback():
    operations = Operations()
    future = run_in_background(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result(60)
    trigger, _ = start(operations, future)
    cause = status(operations, trigger).content.operation.failure_cause
    assert cause.message == "ZeroDivisionError: division by zero"
    assert "Traceback" in cause.stack_trace

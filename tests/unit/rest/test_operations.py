"""Operations that take a while, and how the end of a process waits for who asked for them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from penstock.rest import operations as module
from penstock.rest.messages import HttpError
from penstock.rest.operations import Operations, run_in_background


@pytest.fixture
def operations():
    return Operations()


def start(operations, future=None, job_id="j"):
    future = future or Future()
    response = operations.start("savepoint", job_id, lambda: future)
    return response.content["request-id"], future


def status(operations, trigger):
    return operations.status("savepoint", "j", trigger, lambda path: {"location": path})


def took(call):
    started = time.monotonic()
    call()
    return time.monotonic() - started


def test_a_process_without_operations_ends_at_once(operations):
    assert took(lambda: operations.wait_until_fetched(60)) < 5


def test_a_result_that_was_sent_is_not_waited_for(operations):
    trigger, future = start(operations)
    future.set_result("/sp")
    status(operations, trigger).sent()
    assert took(lambda: operations.wait_until_fetched(60)) < 5


def test_the_end_waits_until_the_result_was_sent(operations):
    trigger, future = start(operations)
    ended = threading.Event()
    thread = threading.Thread(
        target=lambda: (operations.wait_until_fetched(60), ended.set()), daemon=True
    )
    thread.start()
    future.set_result("/sp")
    response = status(operations, trigger)
    assert not ended.is_set()
    response.sent()
    assert ended.wait(10)


def test_a_result_that_nobody_comes_for_delays_the_end_no_longer_than_that(operations):
    _, future = start(operations)
    future.set_result("/sp")
    assert 0.2 <= took(lambda: operations.wait_until_fetched(0.3)) < 10


def test_an_old_result_does_not_delay_the_end(operations, monkeypatch):
    _, future = start(operations)
    future.set_result("/sp")
    clock = time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: clock() + 3600)
    assert not next(iter(operations._operations.values())).awaits_its_client(clock() + 3600, 60)
    assert took(lambda: operations.wait_until_fetched(60)) < 5


def test_only_the_last_operations_are_kept_but_those_under_way_are(operations, monkeypatch):
    monkeypatch.setattr(module, "KEPT_OPERATIONS", 3)
    under_way, _ = start(operations)
    done = [start(operations) for _ in range(5)]
    for _, future in done:
        future.set_result("/sp")
    last, _ = start(operations)
    assert status(operations, under_way).content["status"]["id"] == "IN_PROGRESS"
    assert status(operations, last).content["status"]["id"] == "IN_PROGRESS"
    assert status(operations, done[-1][0]).content["operation"] == {"location": "/sp"}
    with pytest.raises(HttpError):
        status(operations, done[0][0])


def test_a_cancelled_future_is_a_failure(operations):
    trigger, future = start(operations)
    future.cancel()
    cause = status(operations, trigger).content["operation"]["failure-cause"]
    assert cause["message"] == "the operation was cancelled"


def test_a_failure_of_a_user_has_its_traceback():
    operations = Operations()
    future = run_in_background(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result(10)
    trigger, _ = start(operations, future)
    cause = status(operations, trigger).content["operation"]["failure-cause"]
    assert cause["message"] == "ZeroDivisionError: division by zero"
    assert "Traceback" in cause["stack-trace"]

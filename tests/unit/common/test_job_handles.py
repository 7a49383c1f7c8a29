from __future__ import annotations

import asyncio
import enum
import pickle
from concurrent.futures import CancelledError, Future

import pytest

from penstock.common import (
    CompletableFuture,
    InputDependencyConstraint,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
    TypeSerializer,
)
from penstock.errors import ArgumentError, CheckpointError

JOB = JobID("0123456789abcdef0123456789ABCDEF")


def test_a_job_id_is_32_hexadecimal_digits():
    assert str(JOB) == "0123456789abcdef0123456789abcdef"
    assert JobID.from_hex_string(str(JOB)) == JOB == pickle.loads(pickle.dumps(JOB))
    assert hash(JobID(str(JOB))) == hash(JOB)
    assert JobID.generate() != JobID.generate()
    assert len(str(JobID())) == 32


@pytest.mark.parametrize("bad", ["", "abc", "g" * 32, "0" * 33, 5], ids=repr)
def test_anything_else_is_not_a_job_id(bad):
    with pytest.raises(ArgumentError, match="32 hexadecimal digits"):
        JobID(bad)


@pytest.mark.parametrize(
    ("status", "terminal", "globally"),
    [
        (JobStatus.CREATED, False, False),
        (JobStatus.RUNNING, False, False),
        (JobStatus.FAILING, False, False),
        (JobStatus.FAILED, True, True),
        (JobStatus.CANCELLING, False, False),
        (JobStatus.CANCELED, True, True),
        (JobStatus.FINISHED, True, True),
        (JobStatus.RESTARTING, False, False),
        (JobStatus.SUSPENDED, True, False),
        (JobStatus.RECONCILING, False, False),
    ],
)
def test_a_status_says_whether_the_job_is_over(status, terminal, globally):
    assert status.is_terminal_state() is terminal
    assert status.is_globally_terminal_state() is globally


def test_an_execution_result_tells_what_is_left():
    result = JobExecutionResult(JOB, 1234, {"count": 5})
    assert result.get_job_id() == JOB
    assert result.get_net_runtime() == 1234
    assert result.get_accumulator_result("count") == 5
    assert result.get_accumulator_result("none") is None
    assert result.get_all_accumulator_results() == {"count": 5}
    assert "Job Runtime: 1234 ms" in str(result)
    assert "- count: 5" in str(result)


def test_a_future_is_completed_once():
    future = CompletableFuture()
    assert not future.done()
    assert repr(future) == "CompletableFuture(pending)"
    assert future.set_result(1) is True
    assert future.set_result(2) is False
    assert future.set_exception(ValueError()) is False
    assert (future.done(), future.result(), future.exception()) == (True, 1, None)
    assert repr(future) == "CompletableFuture(1)"


def test_a_failed_future_raises_its_error():
    future = CompletableFuture.failed(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        future.result()
    assert isinstance(future.exception(), ValueError)
    assert "no" in repr(future)


def test_a_cancelled_future_has_no_result():
    future = CompletableFuture()
    following = future.then_apply(lambda value: value)
    assert future.cancel() is True
    assert future.cancelled()
    assert following.cancelled()
    with pytest.raises(CancelledError):
        future.result()
    assert repr(future) == "CompletableFuture(cancelled)"


def test_waiting_for_a_result_can_time_out():
    with pytest.raises(TimeoutError):
        CompletableFuture().result(timeout=0)


def test_a_future_leads_on():
    future = CompletableFuture()
    seen = []
    future.add_done_callback(lambda done: seen.append(done.result()))
    doubled = future.then_apply(lambda value: value * 2)
    broken = future.then_apply(lambda value: value / 0)
    future.set_result(4)
    assert seen == [4]
    assert doubled.result() == 8
    assert isinstance(broken.exception(), ZeroDivisionError)


def test_a_future_can_be_awaited():
    async def wait():
        return await CompletableFuture.completed(3)

    assert asyncio.run(wait()) == 3


class Controller:
    def __init__(self):
        self.calls = []
        self.end = Future()

    def get_job_id(self):
        return JOB

    def get_job_status(self):
        return JobStatus.RUNNING

    def cancel(self):
        self.calls.append("cancel")

    def get_accumulators(self):
        return CompletableFuture.completed({"a": 1})

    def get_job_execution_result(self):
        return self.end

    def stop_with_savepoint(self, advance_to_end_of_event_time, savepoint_directory):
        return f"{savepoint_directory}/{advance_to_end_of_event_time}"

    def trigger_savepoint(self, savepoint_directory):
        raise CheckpointError("no savepoint", detail=savepoint_directory)


def test_a_client_asks_its_controller():
    controller = Controller()
    client = JobClient(controller)
    assert client.get_job_id() == JOB
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.cancel().result() is None
    assert controller.calls == ["cancel"]
    assert client.get_accumulators().result() == {"a": 1}
    assert client.stop_with_savepoint(True, "/s").result() == "/s/True"
    assert client.stop_with_savepoint(False).result() == "None/False"


def test_a_client_hands_out_the_result_when_it_is_there():
    controller = Controller()
    future = JobClient(controller).get_job_execution_result()
    assert not future.done()
    controller.end.set_result(JobExecutionResult(JOB, 1))
    assert future.result().get_net_runtime() == 1


def test_a_controllers_error_comes_with_the_future():
    future = JobClient(Controller()).trigger_savepoint("/s")
    with pytest.raises(CheckpointError, match="no savepoint"):
        future.result()


def test_small_parts_of_pyflinks_names_are_there():
    assert issubclass(InputDependencyConstraint, enum.Enum)
    assert [member.name for member in InputDependencyConstraint] == ["ANY", "ALL"]
    with pytest.raises(TypeError):
        TypeSerializer()

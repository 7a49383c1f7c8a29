"""What is said when user code does what cannot work: which operator, which value, and none of Penstock's own frames."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import penstock
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    CheckpointedFunction,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import JobExecutionError
from penstock.jobmanager.running.thread_cluster import _LocalStage
from penstock.runtime.network.driver_endpoint import DriverEndpoint
from penstock.runtime.task.pipelined.slot_messages import SlotFailed
from tests.builders.environments import configured, restarts
from tests.builders.modes import PIPELINED, runs_in
from tests.builders.scripted import environment

PACKAGE = f"{Path(penstock.__file__).resolve().parent}/"

pytestmark = pytest.mark.usefixtures("cluster")

BACKENDS = {"hashmap": HashMapStateBackend, "rocksdb": EmbeddedRocksDBStateBackend}


def failure_of(stream):
    """Run a program that fails; return what its user reads."""
    stream.print()
    with pytest.raises(JobExecutionError) as raised:
        stream.get_execution_environment().execute("a job")
    text = str(raised.value)
    assert PACKAGE not in text
    assert PACKAGE in raised.value.all_frames
    return text


def test_the_traceback_of_a_script_goes_no_deeper_than_its_call_of_execute(numbers):
    numbers.map(lambda n: n // 0).print()
    with pytest.raises(JobExecutionError) as raised:
        numbers.get_execution_environment().execute("a job")
    ours = [entry for entry in raised.traceback if str(entry.path).startswith(PACKAGE)]
    assert [entry.path.stem for entry in ours] == ["stream_execution_environment", "controller"]
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_slot_failure_is_reported_although_its_stage_ended_first(
    monkeypatch,
):
    run, poll = _LocalStage._run, DriverEndpoint.poll
    ended, held = threading.Event(), []

    def run_and_tell(stage):
        run(stage)
        ended.set()

    def slow_poll(endpoint, seconds):
        if held:
            return [held.pop(0) for _ in held.copy()]
        arrivals = poll(endpoint, seconds)
        if not any(isinstance(arrival.message, SlotFailed) for arrival in arrivals):
            return arrivals
        held.extend(arrivals)
        assert ended.wait(60)
        return []  # the driver finds the end of the stage before it hears from its slot

    monkeypatch.setattr(_LocalStage, "_run", run_and_tell)
    monkeypatch.setattr(DriverEndpoint, "poll", slow_poll)
    # One slot: a second one would wait for the driver, which waits here.
    env = configured({**restarts(0), **runs_in(PIPELINED)}, parallelism=1)
    assert "ZeroDivisionError" in failure_of(env.from_collection([3, 4]).map(lambda n: n // 0))


@pytest.fixture
def numbers():
    return environment().from_collection([3, 4], Types.LONG())


class KeepsLocks(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("locks", Types.PICKLED_BYTE_ARRAY())
        self.locks = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.locks.update(threading.Lock())


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_that_cannot_be_pickled_names_its_operator(numbers, backend):
    numbers.get_execution_environment().set_state_backend(BACKENDS[backend]())
    stream = numbers.key_by(lambda n: n).process(KeepsLocks()).name("keeper")
    text = failure_of(stream)
    assert text.startswith("could not write the state of operator 'keeper' to a checkpoint\n")
    assert "cannot pickle '_thread.lock' object" in text
    if backend == "hashmap":
        assert "a lock in 'state/locks' under the key 3" in text


class ListsLocks(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        descriptor = ListStateDescriptor("locks", Types.PICKLED_BYTE_ARRAY())
        self.locks = context.get_operator_state_store().get_list_state(descriptor)

    def snapshot_state(self, context):
        self.locks.update([threading.Lock()])

    def map(self, value):
        return value


def test_operator_state_that_cannot_be_pickled_names_its_operator(numbers):
    text = failure_of(numbers.map(ListsLocks()).name("lister"))
    assert text.startswith("could not write the state of operator 'lister' to a checkpoint\n")
    assert "cannot pickle '_thread.lock' object" in text


def test_a_record_that_cannot_be_pickled_names_the_operator_that_made_it(numbers):
    locks = numbers.map(lambda n: n + 1).name("plus").map(lambda n: threading.Lock()).name("locks")
    text = failure_of(locks.key_by(lambda lock: 1).map(lambda lock: 1))
    assert text.startswith(
        "operator 'locks' emitted a record that cannot be sent to another task\n"
    )
    assert "record <unlocked _thread.lock object" in text


class Refuses:
    def __getstate__(self):
        raise ValueError("not today")


def test_an_exception_of_the_records_own_pickling_is_shown(numbers):
    text = failure_of(numbers.map(lambda n: Refuses()).rebalance().map(lambda each: 1))
    assert 'raise ValueError("not today")' in text
    assert "ValueError: not today" in text
    assert "emitted a record that cannot be sent" in text


def test_sys_exit_in_user_code_fails_the_job_and_shows_where(numbers):
    def give_up(value):
        sys.exit("enough")

    text = failure_of(numbers.map(give_up).name("quitter"))
    assert 'sys.exit("enough")' in text
    assert "SystemExit: enough" in text
    assert text.splitlines()[-2] == "in operator 'quitter', subtask 1 of 1"


class ReturnsOne(ProcessFunction):
    def process_element(self, value, ctx):
        return value


@pytest.mark.parametrize(
    "build", [lambda n: n.flat_map(lambda value: value), lambda n: n.process(ReturnsOne())]
)
def test_single_value_instead_of_an_iterable_is_reported(numbers, build):
    text = failure_of(build(numbers).name("one"))
    assert text.startswith(
        "the function returned the single value 3, but an iterable of results is expected\nhint: yield"
    )
    assert "in operator 'one', subtask 1 of 1, record 3" in text


def test_a_type_error_of_a_generator_is_shown_as_it_is(numbers):
    def results(value):
        yield value + "x"

    text = failure_of(numbers.flat_map(results))
    assert 'yield value + "x"' in text
    assert "TypeError: unsupported operand" in text


def test_an_error_that_was_raised_from_itself_fails_the_job(numbers):
    def fail(value):
        error = ValueError(f"not {value}")
        raise error from error

    assert "ValueError: not" in failure_of(numbers.map(fail))


@pytest.mark.parametrize(("wrong", "when"), [(None, 3), (None, 4), ("2024-01-01", 3)])
def test_non_numeric_timestamp_names_the_assigner(numbers, wrong, when):
    class Assigner:
        def extract_timestamp(self, value, record_timestamp):
            return wrong if value == when else 1

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())
    text = failure_of(numbers.assign_timestamps_and_watermarks(strategy))
    assert "the timestamp assigner returned a value that is not a number" in text
    assert f"it returned {wrong!r}" in text
    assert f"record {when}" in text


def test_a_builtin_that_fails_shows_one_frame_at_most():
    words = environment().from_collection(["1", "x"], Types.STRING())
    words.map(int).print()
    with pytest.raises(JobExecutionError) as raised:
        words.get_execution_environment().execute("a job")
    text = str(raised.value)
    assert text.count("File ") == 1
    assert "ValueError: invalid literal for int() with base 10: 'x'" in text
    assert "in operator 'Map', subtask 1 of 1, record 'x'" in text

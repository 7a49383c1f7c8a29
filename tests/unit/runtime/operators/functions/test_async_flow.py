"""Asynchronous calls in pipelined mode: results are emitted when they arrive, and the slot does not wait for them."""

from __future__ import annotations

import asyncio
import math
import pickle
import select
import socket
import threading
import time
from dataclasses import replace

import pytest

from penstock.datastream import AsyncFunction
from penstock.datastream.async_retry_predicates import has_exception_predicate
from penstock.datastream.async_retry_strategies import AsyncRetryStrategy
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.runtime.operators.functions.async_loop import StepLoop
from penstock.runtime.operators.functions.async_wait import AsyncWaitOperator
from penstock.runtime.operators.functions.call_queue import IN_FLIGHT
from penstock.testing import ManualClock, OperatorHarness
from penstock.testing.harness import HarnessSlot
from tests.unit.runtime.operators.async_services import WM, Service, Slow

ORDERS = pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])


class ManualLoop(StepLoop):
    """A loop that takes steps, and whose clock is moved by hand."""

    def __init__(self, clock):
        self._clock = clock
        super().__init__()

    def time(self):
        return self._clock.now / 1000


class Flow:
    """An operator whose clock moves by hand; what a slot's loop does for it is done here."""

    def __init__(self, function, *, snapshots=(), real=False, **spec):
        self.clock = ManualClock(1_000_000)
        self.function = function
        self.watched = []
        spec = {"ordered": True, "timeout": 0, "capacity": 100} | spec
        factory = None if real else (lambda: ManualLoop(self.clock))
        operator = AsyncWaitOperator(AsyncWaitSpec(function, **spec), factory)
        self.harness = OperatorHarness(
            operator, clock=self.clock, snapshots=snapshots, name="lookup", pipelined=True
        )
        self.operator = operator
        self.output = self.harness._output
        self.output.emit_watermark = lambda mark: self.output.records.append((WM, mark))

    def send(self, *values, timestamp=None):
        self.harness.process_elements([(value, timestamp) for value in values])
        return self.take()

    def wake(self):
        self.operator.on_wakeup()
        return self.take()

    def wait(self, millis):
        """Let time pass; the operator is called when it wants to be."""
        end = self.clock.now + millis
        if self.operator.next_wakeup() is not None:
            self.operator.advance_processing_time(self.clock.now)
        while (due := self.next_step()) is not None and due <= end:
            self.clock.set(max(due, self.clock.now))
            self.operator.on_wakeup()
        self.clock.set(end)
        return self.take()

    def next_step(self):
        """Return when the operator wants to go on, in milliseconds; it is not called in between."""
        self.operator._watched = True
        step = self.operator.next_step()
        return None if step is None else math.ceil(round(step * 1000, 3))

    def take(self):
        found = [pair if pair[0] == WM else pair[0] for pair in self.harness.output()]
        self.harness.clear()
        return found

    def in_flight(self, snapshot):
        return [saved[0] for saved in pickle.loads(snapshot.operator_state).get(IN_FLIGHT, ())]


@pytest.fixture
def flow():
    created = []

    def create(function, **options):
        created.append(Flow(function, **options))
        return created[-1]

    yield create
    for each in created:
        each.harness.close()


@ORDERS
def test_async_result_is_emitted_on_arrival_without_blocking(flow, ordered):
    service = Service()
    lookup = flow(service, ordered=ordered)
    assert lookup.send("a", "b") == []
    service.answer("a")
    assert lookup.wake() == ["re a"]
    assert lookup.send("c") == []
    service.answer("c")
    assert lookup.wake() == ([] if ordered else ["re c"])
    service.answer("b")
    assert lookup.wake() == (["re b", "re c"] if ordered else ["re b"])


@ORDERS
def test_no_record_overtakes_a_watermark(flow, ordered):
    service = Service()
    lookup = flow(service, ordered=ordered)
    lookup.send("a")
    lookup.harness.process_watermark(5)
    lookup.send("b")
    service.answer("b")
    assert lookup.wake() == []
    service.answer("a")
    assert lookup.wake() == ["re a", (WM, 5), "re b"]


def test_the_capacity_closes_the_input_until_an_answer_comes(flow):
    service = Service()
    lookup = flow(service, capacity=2)
    lookup.send("a", "b")
    assert lookup.operator.has_room
    lookup.send("c")
    assert not lookup.operator.has_room
    assert service.asked == ["a", "b"]
    service.answer("a")
    assert lookup.wake() == ["re a"]
    assert lookup.operator.has_room
    assert service.asked == ["a", "b", "c"]


@ORDERS
def test_a_barrier_waits_for_nothing_and_the_calls_go_on(flow, ordered):
    service = Service()
    lookup = flow(service, ordered=ordered, capacity=3)
    lookup.send("a", "b", "c", "d")
    service.answer("b")
    lookup.wake()
    snapshot = lookup.harness.snapshot()
    assert service.cancelled == []
    assert lookup.in_flight(snapshot) == (["a", "b", "c", "d"] if ordered else ["a", "c", "d"])
    service.answer("a", "c")
    lookup.wake()
    service.answer("d")
    lookup.wake()
    assert lookup.in_flight(lookup.harness.snapshot()) == []
    assert service.asked == ["a", "b", "c", "d"]

    again = flow(Service(), ordered=ordered, snapshots=[snapshot])
    assert not again.operator.has_room  # new records come after those
    assert again.wait(0) == []
    assert again.function.asked == (["a", "c", "d"])
    again.send("e")
    again.function.answer("e", "d", "c", "a")
    found = again.wake()
    if ordered:
        assert found == ["re a", "re b", "re c", "re d", "re e"]
    else:
        assert sorted(found) == ["re a", "re c", "re d", "re e"]


def test_watermarks_in_flight_are_part_of_the_checkpoint(flow):
    lookup = flow(Service())
    lookup.send("a")
    lookup.harness.process_watermark(5)
    snapshot = lookup.harness.snapshot()
    again = flow(Service(), snapshots=[snapshot])
    again.wait(0)
    again.function.answer("a")
    assert again.wake() == ["re a", (WM, 5)]


@pytest.mark.parametrize("timeout", [0, 100])
def test_calls_that_were_in_flight_are_made_although_a_watermark_is_all_that_comes(flow, timeout):
    lookup = flow(Service(), timeout=timeout)
    lookup.send("a")
    snapshot = lookup.harness.snapshot()
    again = flow(Service(), timeout=timeout, snapshots=[snapshot])
    again.harness.process_watermark(5)
    again.wait(0)
    assert again.function.asked == ["a"]
    again.function.answer("a")
    assert again.wake() == ["re a", (WM, 5)]


def test_timeouts_go_by_the_clock(flow):
    lookup = flow(Slow(), timeout=100)
    lookup.send((150, "a"))
    assert lookup.next_step() == lookup.clock.now + 100
    assert lookup.wait(99) == []
    assert lookup.wait(1) == ["no a"]
    assert lookup.wait(100) == []
    assert lookup.next_step() is None


def test_an_answer_that_is_there_is_not_too_late_however_long_the_slot_was_busy(flow):
    service = Service()
    lookup = flow(service, timeout=100)
    lookup.send("a")
    service.answer("a")
    lookup.clock.advance(5000)
    lookup.operator.advance_processing_time(lookup.clock.now)
    assert lookup.take() == ["re a"]


def test_retries_wait_by_the_clock(flow):
    class Fails(AsyncFunction):
        def __init__(self):
            self.asked = 0

        async def async_invoke(self, value):
            self.asked += 1
            if self.asked < 3:
                raise OSError("not yet")
            return [value]

    strategy = AsyncRetryStrategy.fixed_delay(5, 40, None, has_exception_predicate)
    lookup = flow(Fails(), retry_strategy=strategy)
    assert lookup.send("a") == []
    assert lookup.wait(79) == []
    assert lookup.function.asked == 2
    assert lookup.wait(1) == ["a"]


def test_the_end_waits_until_nothing_is_under_way(flow):
    service = Service()
    lookup = flow(service)
    assert not lookup.operator.under_way
    lookup.send("a")
    assert lookup.operator.under_way
    service.answer("a")
    lookup.wake()
    assert not lookup.operator.under_way
    lookup.operator.finish(ends_for_good=False)


def test_a_failed_call_names_its_record(flow):
    service = Service()
    lookup = flow(service)
    lookup.send("a")
    service.fail("a", ValueError("no"))
    with pytest.raises(UserCodeError, match="ValueError: no") as caught:
        lookup.wake()
    assert "record 'a'" in caught.value.detail


class Talks(AsyncFunction):
    """Sends each value to a socket, and returns what comes back."""

    def __init__(self, port):
        self.port = port

    async def async_invoke(self, value):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(value.encode() + b"\n")
        line = await reader.readline()
        writer.close()
        return [line.decode().strip()]


def test_the_loops_file_can_be_read_when_an_answer_has_arrived(flow):
    """With a real connection: the slot's loop waits for the file, and a step takes the answer."""
    server = socket.create_server(("127.0.0.1", 0))
    release = threading.Event()

    def serve():
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as stream:
            line = stream.readline()
            release.wait()
            stream.write(line.upper())
            stream.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    lookup = flow(Talks(server.getsockname()[1]), real=True)
    file = lookup.operator.queue.calls._steps.fileno()
    found = lookup.send("hello")
    release.set()
    while not found:
        due = lookup.operator.queue.calls.next_step()
        if due is None or due > time.monotonic():  # else a step took too long
            assert select.select([file], [], [], 120)[0]
        found += lookup.wake()
    thread.join()
    server.close()
    assert found == ["HELLO"]
    assert select.select([file], [], [], 0)[0] == []  # it rests


def test_a_loop_that_never_rests_is_interrupted(flow):
    class Busy(AsyncFunction):
        async def async_invoke(self, value):
            while not done.is_set():
                await asyncio.sleep(0)
            return [value]

    done = threading.Event()
    lookup = flow(Busy(), real=True)
    assert lookup.send("a") == []
    assert lookup.operator.next_step() <= time.monotonic()
    done.set()
    assert lookup.wake() == ["a"]


def test_a_watched_operator_is_not_looked_at_in_between():
    clock = ManualClock(1_000_000)
    operator = AsyncWaitOperator(
        AsyncWaitSpec(Service(), ordered=True, timeout=0), lambda: ManualLoop(clock)
    )
    harness = OperatorHarness(operator, clock=clock, pipelined=True)
    harness.process_element("a")
    assert operator.next_step() == pytest.approx(clock.now / 1000 + 0.001)  # nothing wakes it
    operator.close()
    watched = []

    class Watching(HarnessSlot):
        def watch(self, file):
            watched.append(file)
            return True

    operator.open(replace(harness.context, slot=Watching(harness)))
    harness.process_element("a")
    assert operator.next_step() is None
    operator.close()
    assert watched[0] >= 0
    assert watched[1:] == [None]

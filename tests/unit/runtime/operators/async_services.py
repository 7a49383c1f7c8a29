"""Services that answer when a test says so, and an event loop whose time passes at once."""

from __future__ import annotations

import asyncio
import selectors

import pytest

from penstock.datastream import AsyncFunction
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.runtime.operators.functions.async_wait import AsyncWaitOperator
from penstock.testing import OperatorHarness

WM = "watermark"


class NothingHappensError(AssertionError):
    """The loop would wait for ever."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to its next timer instead of waiting for it."""

    def __init__(self):
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self):
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise NothingHappensError
            self.loop.now += max(timeout, 0)
        return ready


class Service(AsyncFunction):
    """Answers a call when the test says so."""

    def __init__(self):
        self.asked = []
        self.cancelled = []
        self.open_calls = []  # (value, future), without an answer

    @property
    def waiting(self):
        return [value for value, _ in self.open_calls]

    async def async_invoke(self, value):
        self.asked.append(value)
        future = asyncio.get_running_loop().create_future()
        self.open_calls.append((value, future))
        try:
            return await future
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        finally:
            self.open_calls.remove((value, future))

    def _future(self, value):
        return next(future for asked, future in self.open_calls if asked == value)

    def answer(self, *values):
        for value in values:
            self._future(value).set_result([f"re {value}"])

    def give(self, value, result):
        self._future(value).set_result(result)

    def fail(self, value, error):
        self._future(value).set_exception(error)


class Slow(AsyncFunction):
    """Answers (latency, value) with the value, after the latency; knows how many calls there were at a time."""

    def __init__(self):
        self.asked = []
        self.running = 0
        self.most = 0

    async def async_invoke(self, value):
        latency, name = value
        self.asked.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(latency / 1000)
        finally:
            self.running -= 1
        return [name]

    def timeout(self, value):
        return [f"no {value[1]}"]


class Run:
    """An operator in a harness, in virtual time; watermarks are recorded among the records."""

    def __init__(self, function, *, snapshots=(), subtask=0, parallelism=1, **spec):
        spec = {"ordered": True, "timeout": 0} | spec
        self.loop = VirtualLoop()
        self.function = function
        operator = AsyncWaitOperator(AsyncWaitSpec(function, **spec), lambda: self.loop)
        self.harness = OperatorHarness(
            operator,
            snapshots=snapshots,
            subtask=subtask,
            parallelism=parallelism,
            name="lookup",
        )
        output = self.harness._output
        output.emit_watermark = lambda watermark: output.records.append((WM, watermark))
        output.emit_status = lambda idle: output.records.append(("idle", idle))

    def send(self, *values, timestamp=None):
        self.harness.process_elements([(value, timestamp) for value in values])

    def watermark(self, watermark):
        self.harness.process_watermark(watermark)

    def look(self):
        """Take the answers that are there; return what was emitted since the last look."""
        self.harness.operator.advance_processing_time(0)
        return self.take()

    def take(self):
        out = [pair if pair[0] in (WM, "idle") else pair[0] for pair in self.harness.output()]
        self.harness.clear()
        return out

    def finish(self):
        self.harness.finish()
        return self.take()

    def all_of(self, *values):
        """Send values as the whole input; return all results."""
        self.send(*values)
        return self.finish()[:-1]

    def snapshot(self):
        return self.harness.snapshot()


@pytest.fixture
def run():
    """Creates runs, and closes them."""
    created = []

    def create(function, **options):
        created.append(Run(function, **options))
        return created[-1]

    yield create
    for each in created:
        each.harness.close()

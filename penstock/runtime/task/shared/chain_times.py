"""Sampled time shares of the operators of a chain.

A subtask works in spans: it takes a few buffers, polls its source, fires timers. Only some spans per second are measured; in
those, every step from one operator to the next reads the clock, which takes 0.3 us. So a fully busy chain of five operators
loses well below 1 % of its time (`python -m benchmarks.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Protocol

_SAMPLES: Final = 16  # approximate number of spans measured between two reports; more if there are more spans than before


class SampledOutput(Protocol):
    """An output of the chain, which reports the active operator only while sampled."""

    def sample(self, times: ChainTimes | None) -> None:
        """Report to `times` from now on; None stops it."""


class ChainTimes:
    """Sums up the time of each operator without that of its downstream operators.

    The last position is for work outside of operators: decoding input, and sending. A measured span represents all since
    the last one.
    """

    __slots__ = (
        "_current", "_gap", "_left", "_outputs", "_samples", "_seconds", "_since", "_spans", "_weight", "running",
    )  # fmt: skip

    def __init__(self, outputs: Sequence[SampledOutput]) -> None:
        self._outputs = outputs
        self._seconds = [0.0] * (len(outputs) + 1)
        self._gap = self._left = self._weight = 1
        self._spans = 0
        self._samples = 0
        self._current = self.outside
        self._since = 0.0
        self.running = False

    @property
    def outside(self) -> int:
        """The position of work outside of operators."""
        return len(self._outputs)

    def begin(self) -> None:
        """Begin a span, which may be measured."""
        self._spans += 1
        self._left -= 1
        if self._left > 0 or self.running:
            return
        self._weight = self._gap
        self._samples += 1
        if self._samples % _SAMPLES == 0:  # there are more spans than before
            self._gap *= 2
        self._left = self._gap
        self.running = True
        for output in self._outputs:
            output.sample(self)
        self._current = self.outside
        self._since = perf_counter()

    def end(self) -> None:
        """End a span."""
        if self.running:
            self.enter(self.outside)
            self.running = False
            for output in self._outputs:
                output.sample(None)

    def enter(self, position: int) -> int:
        """Record the active operator from now on; return the previous one."""
        moment, before = perf_counter(), self._current
        self._seconds[before] += (moment - self._since) * self._weight
        self._since, self._current = moment, position
        return before

    def skip(self) -> None:
        """Exclude the time since the last step: another subtask used it."""
        self._since = perf_counter()

    def take(self) -> list[float]:
        """Return the share of each since the last call, which add up to 1; empty if nothing was measured."""
        self._gap = max(1, self._spans // _SAMPLES)
        self._left = min(self._left, self._gap)
        self._spans = self._samples = 0
        total = sum(self._seconds)
        shares = [each / total for each in self._seconds] if total else []
        self._seconds = [0.0] * len(self._seconds)
        return shares


class TimedCall:
    """A measured call that belongs to an operator, or to none."""

    __slots__ = ("_call", "_position", "_times")

    def __init__(self, call: Callable[..., None], position: int, times: ChainTimes) -> None:
        self._call = call
        self._position = position
        self._times = times

    def __call__(self, content: object) -> None:
        """Call it."""
        before = self._times.enter(self._position)
        try:
            self._call(content)
        finally:
            self._times.enter(before)

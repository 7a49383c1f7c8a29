"""Which operator of a chain has the time of its subtask, by samples.

A subtask works in spans: it takes a few buffers, lets its source read, fires timers. Of many spans in a second only some are measured; in
those, every step from one operator to the next reads the clock, which takes 0.3 us. So a chain of five operators that is busy
all the time loses well below 1 % of it (`python -m benchmarks.metrics`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, Protocol

_SAMPLES: Final = 16  # spans that are measured between two reports, about; more if there are more spans than before


class Sampled(Protocol):
    """An output of the chain, which tells who has the turn only while somebody wants to know."""

    def sample(self, times: ChainTimes | None) -> None:
        """Tell these times from now on; None: nobody."""


class ChainTimes:
    """Adds up the time of each operator without that of the operators after it.

    The last place is for what belongs to none: decoding input, and sending. A span that is measured stands for all since the one before.
    """

    __slots__ = (
        "_current", "_gap", "_left", "_outputs", "_samples", "_seconds", "_since", "_spans", "_weight", "running",
    )  # fmt: skip

    def __init__(self, outputs: Sequence[Sampled]) -> None:
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
        """The place of what is done in no operator."""
        return len(self._outputs)

    def begin(self) -> None:
        """A span begins; perhaps it is measured."""
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
        """A span has ended."""
        if self.running:
            self.enter(self.outside)
            self.running = False
            for output in self._outputs:
                output.sample(None)

    def enter(self, position: int) -> int:
        """Take note whose turn it is from now on; return whose it was."""
        moment, before = perf_counter(), self._current
        self._seconds[before] += (moment - self._since) * self._weight
        self._since, self._current = moment, position
        return before

    def skip(self) -> None:
        """Leave out the time since the last step: another subtask had it."""
        self._since = perf_counter()

    def take(self) -> list[float]:
        """Return the share that each has had since this was asked last, which add up to 1; nothing if nothing was measured."""
        self._gap = max(1, self._spans // _SAMPLES)
        self._left = min(self._left, self._gap)
        self._spans = self._samples = 0
        total = sum(self._seconds)
        shares = [each / total for each in self._seconds] if total else []
        self._seconds = [0.0] * len(self._seconds)
        return shares


class Timed:
    """A call that belongs to an operator, or to none, and is measured as such."""

    __slots__ = ("_call", "_position", "_times")

    def __init__(self, call: Callable[..., None], position: int, times: ChainTimes) -> None:
        self._call = call
        self._position = position
        self._times = times

    def __call__(self, content: Any) -> None:
        """Call it."""
        before = self._times.enter(self._position)
        try:
            self._call(content)
        finally:
            self._times.enter(before)

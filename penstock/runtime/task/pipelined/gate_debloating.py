"""Buffer debloating of a subtask's input gates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.graph.stage import DebloatSettings
from penstock.runtime.network.channels import Inputs
from penstock.runtime.network.debloating import BufferDebloater, differs, share
from penstock.runtime.task.pipelined.barrier_handlers import Channel


class Exchange(Protocol):
    """An edge that a subtask sends to."""

    @property
    def records_out(self) -> int:
        """Number of records emitted so far, over all targets."""

    @property
    def window(self) -> int:
        """Maximum number of in-flight records of all its channels together."""


class DownstreamWindow:
    """The number of input records whose output fills the windows of a subtask's receivers.

    It is derived from the ratio of input to output records; older records decay by half with each call, unless there was
    no input since the last one.
    """

    __slots__ = ("_emitted", "_exchanges", "_seen", "_taken")

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._seen = (0, [0] * len(exchanges))  # totals at the last call
        self._taken = 0.0
        self._emitted = [0.0] * len(exchanges)

    def measure(self, taken: int) -> float:
        """Return the number, given the total of input records; infinity if there was no output lately.

        Before the first record, a ratio of one is assumed.
        """
        if not taken:
            return min((each.window for each in self._exchanges), default=math.inf)
        taken_before, emitted_before = self._seen
        emitted = [each.records_out for each in self._exchanges]
        self._seen = (taken, emitted)
        kept = 0.5 if taken > taken_before else 1.0
        self._taken = self._taken * kept + taken - taken_before
        least = math.inf
        for number, exchange in enumerate(self._exchanges):
            recent = self._emitted[number] * kept + emitted[number] - emitted_before[number]
            self._emitted[number] = recent
            if recent > 0:
                least = min(least, exchange.window * self._taken / recent)
        return least


class GateDebloating:
    """Measures each input of a subtask, on a clock that is stopped while there is no input.

    `downstream` returns the number of input records whose output fills the windows of the receivers.
    """

    __slots__ = (
        "_active",
        "_blocked_since",
        "_downstream",
        "_fitted",
        "_gates",
        "_inputs",
        "_now",
        "_settings",
        "_starved_s",
        "_starved_since",
    )

    def __init__(
        self,
        settings: DebloatSettings,
        inputs: Inputs,
        downstream: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._inputs = inputs
        self._downstream = downstream
        self._now = now
        self._starved_s = 0.0
        self._starved_since: float | None = now()
        self._blocked_since: float | None = None
        self._gates: dict[int, BufferDebloater] = {}
        self._active: set[Channel] = set()  # channels with records since the last measurement
        self._fitted: dict[Channel, int] = {}  # the window of each channel

    def open(self) -> None:
        """Start with few in-flight records for all inputs."""
        if not self._settings.enabled:
            return
        for gate, _ in self._inputs.channels:
            self._gates[gate] = BufferDebloater(self._settings, self._clock())
        for gate, debloater in self._gates.items():
            self._share(gate, debloater.window)

    def starve(self) -> None:
        """Stop the clock: there is no input."""
        self._blocked_since = None
        if self._starved_since is None:
            self._starved_since = self._now()

    def feed(self) -> None:
        """Resume the clock: there is input."""
        self._blocked_since = None
        self._end_starving()

    def block(self) -> None:
        """Record that the outputs have no capacity: the clock runs, and after a period the windows shrink."""
        if not self._gates:
            return
        self._end_starving()
        moment = self._now()
        if self._blocked_since is None:
            self._blocked_since = moment
        elif moment - self._blocked_since >= self._settings.period_s:
            self._blocked_since = moment
            downstream = self._downstream()
            for number, gate in self._gates.items():
                self._share(number, gate.follow(downstream))

    def _end_starving(self) -> None:
        if self._starved_since is not None:
            self._starved_s += self._now() - self._starved_since
            self._starved_since = None

    def took(self, channel: Channel, records: int) -> None:
        """Record that records were processed."""
        if (gate := self._gates.get(channel[0])) is not None:
            gate.took(records)
            self._active.add(channel)

    def adapt(self) -> None:
        """Adapt the windows where a measurement is due."""
        if not self._gates:
            return
        clock = self._clock()
        for number, gate in self._gates.items():
            if gate.is_due(clock):
                self._share(number, gate.measure(clock, self._downstream()))

    def _share(self, gate: int, window: int) -> None:
        """Share a window among the channels with records; each idle one gets its part of all channels."""
        channels = {
            name: channel for name, channel in self._inputs.channels.items() if name[0] == gate
        }
        active = {name for name, each in channels.items() if each.items or name in self._active}
        self._active -= active
        of_active, of_idle = share(window, max(1, len(active))), share(window, len(channels))
        for name, channel in channels.items():
            records = of_active if name in active else of_idle
            fitted = self._fitted.get(name)
            if fitted is None or differs(records, fitted, self._settings.threshold_percent):
                self._fitted[name] = records
                channel.fit(records)

    def _clock(self) -> float:
        moment = self._now()
        pause = 0.0 if self._starved_since is None else moment - self._starved_since
        return moment - self._starved_s - pause

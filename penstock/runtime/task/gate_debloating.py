"""Buffer debloating of a subtask's input gates."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from penstock.graph.stage import DebloatSettings
from penstock.runtime.network.channels import Inputs
from penstock.runtime.network.credits import ITEM_OVERHEAD
from penstock.runtime.network.debloating import BufferDebloater


class GateDebloating:
    """Measures each input of a subtask, on a clock that stands still while there is no input."""

    __slots__ = ("_gates", "_inputs", "_now", "_settings", "_starved_s", "_starved_since")

    def __init__(
        self,
        settings: DebloatSettings,
        inputs: Inputs,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._inputs = inputs
        self._now = now
        self._starved_s = 0.0
        self._starved_since: float | None = now()
        self._gates: dict[int, BufferDebloater] = {}

    def open(self) -> None:
        """Start with little in-flight data for all inputs."""
        if not self._settings.enabled:
            return
        channels = self._inputs.channels
        for gate, count in Counter(gate for gate, _ in channels).items():
            self._gates[gate] = BufferDebloater(self._settings, count, self._clock())
        for (gate, _), channel in channels.items():
            channel.fit(self._gates[gate].size)

    def starve(self) -> None:
        """Stop the clock: there is no input."""
        if self._starved_since is None:
            self._starved_since = self._now()

    def feed(self) -> None:
        """Resume the clock: there is input."""
        if self._starved_since is not None:
            self._starved_s += self._now() - self._starved_since
            self._starved_since = None

    def weigh(self, channel: tuple[int, int], records: int, size: int) -> None:
        """Record the serialized size of records; local ones have none."""
        if size > 0 and (gate := self._gates.get(channel[0])) is not None:
            gate.weigh(records, size + ITEM_OVERHEAD)

    def took(self, channel: tuple[int, int], records: int) -> None:
        """Record that records were processed."""
        if (gate := self._gates.get(channel[0])) is not None:
            gate.took(channel[1], records)

    def adapt(self) -> None:
        """Adapt the in-flight data where a measurement is due."""
        if not self._gates:
            return
        clock = self._clock()
        for number, gate in self._gates.items():
            if gate.is_due(clock) and (size := gate.measure(clock)) is not None:
                for (at, _), channel in self._inputs.channels.items():
                    if at == number:
                        channel.fit(size)

    def _clock(self) -> float:
        moment = self._now()
        pause = 0.0 if self._starved_since is None else moment - self._starved_since
        return moment - self._starved_s - pause

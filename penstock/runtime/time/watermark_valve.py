"""Combines the watermarks and statuses of many channels into one (a pure core)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MIN_WATERMARK = -(2**63)


@dataclass(slots=True)
class _Channel:
    watermark: int = MIN_WATERMARK
    idle: bool = False
    # An active channel counts only while it is not behind the valve's last output. A channel that becomes active with an
    # old watermark must
    # catch up first.
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class ValveOutput:
    """The output for the operator: a new watermark, a new status, or neither."""

    watermark: int | None = None
    idle: bool | None = None


NOTHING = ValveOutput()


class WatermarkValve:
    """The minimum over active channels; it never decreases.

    >>> valve = WatermarkValve(2)
    >>> valve.on_watermark(0, 12), valve.on_watermark(1, 8).watermark
    (ValveOutput(watermark=None, idle=None), 8)
    """

    def __init__(self, channels: int) -> None:
        self._channels = [_Channel() for _ in range(channels)]
        self.watermark = MIN_WATERMARK
        self.idle = False

    def on_watermark(self, channel: int, watermark: int) -> ValveOutput:
        """A channel's watermark arrived."""
        state = self._channels[channel]
        if state.idle or watermark <= state.watermark:
            return NOTHING
        state.watermark = watermark
        if not state.aligned and watermark >= self.watermark:
            state.aligned = True
        return ValveOutput(watermark=self._advance())

    def on_status(self, channel: int, idle: bool) -> ValveOutput:
        """A channel became idle or active."""
        state = self._channels[channel]
        if state.idle == idle:
            return NOTHING
        state.idle = idle
        if not idle:
            state.aligned = state.watermark >= self.watermark
            was_idle, self.idle = self.idle, False
            return ValveOutput(idle=False if was_idle else None)
        state.aligned = False
        # Only a channel that held back the output releases it when it becomes idle. One that was behind did not hold it
        # back, so higher
        # watermarks of the others are not emitted because of it.
        held_back = state.watermark == self.watermark
        if any(not other.idle for other in self._channels):
            return ValveOutput(watermark=self._advance() if held_back else None)
        self.idle = True
        highest = max(other.watermark for other in self._channels)
        return ValveOutput(watermark=self._raise_to(highest) if held_back else None, idle=True)

    def _advance(self) -> int | None:
        lowest = min(
            (state.watermark for state in self._channels if state.aligned and not state.idle),
            default=None,
        )
        return None if lowest is None else self._raise_to(lowest)

    def _raise_to(self, watermark: int) -> int | None:
        if watermark <= self.watermark:
            return None
        self.watermark = watermark
        return watermark

    def snapshot(self) -> tuple[int, bool, list[tuple[int, bool, bool]]]:
        """Return the state of the valve for a snapshot."""
        channels = [(state.watermark, state.idle, state.aligned) for state in self._channels]
        return self.watermark, self.idle, channels

    def restore(self, snapshot: tuple[int, bool, list[tuple[int, bool, bool]]]) -> None:
        """Restore a snapshot; if the number of channels changed, they start at the last output."""
        self.watermark, self.idle, channels = snapshot
        if len(channels) == len(self._channels):
            self._channels = [_Channel(*state) for state in channels]
        else:
            self.idle = False
            self._channels = [_Channel(self.watermark) for _ in self._channels]


def combine(times: Iterable[tuple[int, bool]]) -> int | None:
    """Return the lowest of some (watermark, idle) that are not idle; if all are idle, the highest; None if there are none.

    No channel has to catch up first. This is how inputs of an operator are combined, and splits of a source.

    >>> combine([(5, False), (3, True)]), combine([(5, True), (3, True)])
    (5, 5)
    """
    known = list(times)
    active = [watermark for watermark, idle in known if not idle]
    if active:
        return min(active)
    return max((watermark for watermark, _ in known), default=None)


class InputValves:
    """A valve for each input of an operator. The combined watermark is the minimum over active inputs; it never decreases.

    `inputs` has the input index of each channel.

    >>> valves = InputValves([0, 1])
    >>> valves.on_status(1, idle=True), valves.on_watermark(0, 7).watermark
    (ValveOutput(watermark=None, idle=None), 7)
    """

    def __init__(self, inputs: Sequence[int]) -> None:
        names = sorted(set(inputs))
        self._valves = [WatermarkValve(inputs.count(name)) for name in names]
        # The valve of each channel, and the channel's number in it.
        self._places = [
            (names.index(name), inputs[:channel].count(name)) for channel, name in enumerate(inputs)
        ]
        self.watermark = MIN_WATERMARK
        self.idle = False

    def on_watermark(self, channel: int, watermark: int) -> ValveOutput:
        """A channel's watermark arrived."""
        valve, place = self._places[channel]
        return self._combine(self._valves[valve].on_watermark(place, watermark))

    def on_status(self, channel: int, idle: bool) -> ValveOutput:
        """A channel became idle or active."""
        valve, place = self._places[channel]
        return self._combine(self._valves[valve].on_status(place, idle))

    def _combine(self, output: ValveOutput) -> ValveOutput:
        if output == NOTHING:
            return NOTHING
        watermark = combine((valve.watermark, valve.idle) for valve in self._valves)
        risen = watermark is not None and watermark > self.watermark
        if risen and watermark is not None:
            self.watermark = watermark
        before, self.idle = self.idle, all(valve.idle for valve in self._valves)
        return ValveOutput(
            watermark=watermark if risen else None,
            idle=None if self.idle == before else self.idle,
        )

    def snapshot(self) -> tuple[int, bool, list[Any]]:
        """Return the state of the valves for a snapshot."""
        return self.watermark, self.idle, [valve.snapshot() for valve in self._valves]

    def restore(self, snapshot: tuple[int, bool, list[Any]]) -> None:
        """Restore a snapshot; if the number of inputs or channels changed, all start at the last output."""
        self.watermark, self.idle, valves = snapshot
        if len(valves) == len(self._valves):
            for valve, state in zip(self._valves, valves, strict=True):
                valve.restore(state)
        else:
            self.idle = False
            for valve in self._valves:
                valve.restore((self.watermark, False, []))

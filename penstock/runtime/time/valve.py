"""Combines the watermarks and statuses of many channels into one (a pure core)."""

from __future__ import annotations

from dataclasses import dataclass

MIN_WATERMARK = -(2**63)


@dataclass(slots=True)
class _Channel:
    watermark: int = MIN_WATERMARK
    idle: bool = False
    # An active channel counts only while it is not behind the valve's last output. A channel that comes back
    # from idleness with an old watermark must catch up first.
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class ValveOutput:
    """What to tell the operator: a new watermark, a new status, or neither."""

    watermark: int | None = None
    idle: bool | None = None


NOTHING = ValveOutput()


class WatermarkValve:
    """The minimum over active channels; it never goes back.

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
        """A channel turned idle or active."""
        state = self._channels[channel]
        if state.idle == idle:
            return NOTHING
        state.idle = idle
        if not idle:
            state.aligned = state.watermark >= self.watermark
            was_idle, self.idle = self.idle, False
            return ValveOutput(idle=False if was_idle else None)
        state.aligned = False
        if any(not other.idle for other in self._channels):
            return ValveOutput(watermark=self._advance())
        highest = max(other.watermark for other in self._channels)
        self.idle = True
        return ValveOutput(watermark=self._raise_to(highest), idle=True)

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
        """Return everything the valve must remember."""
        channels = [(state.watermark, state.idle, state.aligned) for state in self._channels]
        return self.watermark, self.idle, channels

    def restore(self, snapshot: tuple[int, bool, list[tuple[int, bool, bool]]]) -> None:
        """Go on from a snapshot; if the number of channels changed, they start where the output stood."""
        self.watermark, self.idle, channels = snapshot
        if len(channels) == len(self._channels):
            self._channels = [_Channel(*state) for state in channels]
        else:
            self.idle = False
            self._channels = [_Channel(self.watermark) for _ in self._channels]

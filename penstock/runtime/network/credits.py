"""Credit-based flow control of a channel: the two ends of a window, as numbers only.

A channel has two windows, one in bytes and one in records. For each, the receiver announces the limit: how much the sender
may have sent in total since the channel was opened, which is what was taken plus the window. The sender may send while it
has sent less than both limits. So at most a window and one item are in flight, and an item of any size gets through.

The limits are announced again when half a window was taken since the last announcement, and when the window in records
changes. A smaller window lowers the limit: unused credit is taken back. A blocked sender has sent at least the limit that
was announced last, so once the receiver has taken all of that, a whole window was taken since and the limit is announced:
no sender waits forever.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_ITEM = 1  # the limit before the first announcement: a single item may be sent
ITEM_OVERHEAD = 64  # overhead in bytes per item, so that many small ones count, too


class SendWindow:
    """The sending end: bytes or records sent, and the announced limit."""

    __slots__ = ("_room", "limit", "sent")

    def __init__(self, limit: int = FIRST_ITEM) -> None:
        self.sent = 0
        self.limit = limit
        self._room = 0  # free credit at the last announcement

    @property
    def is_open(self) -> bool:
        """Whether the next item may be sent, whatever its size."""
        return self.sent < self.limit

    def send(self, amount: int) -> None:
        """Record that an item was sent."""
        self.sent += amount

    def allow(self, limit: int) -> None:
        """Record a limit announced by the receiver."""
        if limit < self.limit:
            self._room = 1
        self.limit = limit
        self._room = max(self._room, limit - self.sent)

    @property
    def usage(self) -> float:
        """The used fraction of the window, from 0 to 1 (a lower bound).

        The receiver announces a limit when half of the window was taken, so up to half of it may have been taken already.
        """
        free = max(0, self.limit - self.sent)
        return max(0.0, min(1.0, 1 - 2 * free / self._room)) if self._room else 0.0


class ReceiveWindow:
    """The receiving end: what was taken, and the last announced limit."""

    __slots__ = ("announced", "taken", "window")

    def __init__(self, window: int, announced: int = FIRST_ITEM) -> None:
        self.window = window
        self.taken = 0
        self.announced = announced

    def take(self, amount: int) -> bool:
        """Record that something was taken; return whether it is time to announce the limit."""
        self.taken += amount
        return 2 * (self.taken + self.window - self.announced) >= self.window

    def announce(self) -> int:
        """Return the limit; the caller sends it to the sender."""
        self.announced = self.taken + self.window
        return self.announced


def windows(gates: Iterable[int], channel: int, gate: int, slot: int) -> list[int]:
    """Return the window of a channel of each gate, given the number of channels per gate.

    Each channel has `channel` bytes, and all of a gate share `gate` bytes. All windows together stay within `slot` bytes,
    scaled by the same factor; the minimum is 1, which allows one item at a time.
    """
    sizes = list(gates)
    wanted = [channel + gate // size for size in sizes]
    total = sum(size * window for size, window in zip(sizes, wanted, strict=True))
    if total > slot:
        wanted = [window * slot // total for window in wanted]
    return [max(1, window) for window in wanted]

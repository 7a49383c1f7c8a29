"""Credit-based flow control of a channel: the two ends of a window, as numbers only.

The receiver announces how many bytes the sender may have sent in total since the channel was opened: the bytes taken plus
a window.
The sender may send while it has sent less than that. So at most a window and one item are in flight, and an item of any
size gets
through.

The limit is announced again when half a window was taken since the last announcement. That is enough: a blocked sender
has sent
at least the limit, so once the receiver has taken all of it, a whole window was taken since.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_ITEM = 1  # the limit before the first announcement: a single item may be sent
ITEM_OVERHEAD = 64  # overhead in bytes per item, so that many small ones count, too


class SendWindow:
    """The sending end: bytes sent, and the announced limit."""

    __slots__ = ("_room", "limit", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.limit = FIRST_ITEM
        self._room = 0  # free bytes at the last announcement

    @property
    def is_open(self) -> bool:
        """Whether the next item may be sent, whatever its size."""
        return self.sent < self.limit

    def send(self, size: int) -> None:
        """Record that an item was sent."""
        self.sent += size + ITEM_OVERHEAD

    def allow(self, limit: int) -> None:
        """Record a limit announced by the receiver."""
        self.limit = max(self.limit, limit)
        self._room = max(self._room, self.limit - self.sent)

    @property
    def usage(self) -> float:
        """The used fraction of the window, from 0 to 1 (a lower bound).

        The receiver announces a limit when half of the window was taken, so up to half of it may have been taken already.
        """
        free = max(0, self.limit - self.sent)
        return max(0.0, min(1.0, 1 - 2 * free / self._room)) if self._room else 0.0


class ReceiveWindow:
    """The receiving end: bytes taken, and the last announced limit.

    `window` may shrink: announced limits stay valid, and no more is allowed until enough was taken.
    """

    __slots__ = ("announced", "taken", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.taken = 0
        self.announced = FIRST_ITEM

    def take(self, size: int) -> int | None:
        """Record that an item was taken; return the limit to announce, if it is time."""
        self.taken += size + ITEM_OVERHEAD
        limit = self.taken + self.window
        if 2 * (limit - self.announced) < self.window:
            return None
        self.announced = limit
        return limit

    def open(self) -> int | None:
        """Return the limit to announce if it exceeds the last one, even if nothing was taken."""
        limit = self.taken + self.window
        if limit <= self.announced:
            return None
        self.announced = limit
        return limit


def windows(gates: Iterable[int], channel: int, gate: int, slot: int) -> list[int]:
    """Return the window of a channel of each gate, given the number of channels per gate.

    Each channel has `channel` bytes, and all of a gate share `gate` bytes. All windows together stay within `slot` bytes,
    scaled by the
    same factor; the minimum is 1, which allows one item at a time.
    """
    sizes = list(gates)
    wanted = [channel + gate // size for size in sizes]
    total = sum(size * window for size, window in zip(sizes, wanted, strict=True))
    if total > slot:
        wanted = [window * slot // total for window in wanted]
    return [max(1, window) for window in wanted]

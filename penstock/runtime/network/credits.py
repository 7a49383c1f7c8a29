"""How much may be under way in a channel: the two ends of a window, as numbers only.

The receiver tells how many bytes the sender may have sent in all, since the channel began: what was taken, and a window
beyond it. The sender goes on while it has sent less than that. So at most a window and one item are under way, and an item
of any size gets through.

The limit is told again when half a window was taken since it was told last. That is enough: a sender that waits has sent at least
the limit, so once the receiver has taken all of that, a whole window was taken since.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_ITEM = 1  # the limit before the receiver has told one: a single item may go
ITEM_OVERHEAD = (
    64  # bytes that an item counts besides its content, so that many small ones count, too
)


class SendWindow:
    """The sending end: what was sent, and up to where it may go on."""

    __slots__ = ("_room", "limit", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.limit = FIRST_ITEM
        self._room = 0  # what was free when the receiver told a limit last

    @property
    def is_open(self) -> bool:
        """Whether the next item may go, whatever its size."""
        return self.sent < self.limit

    def send(self, size: int) -> None:
        """Take note that an item goes."""
        self.sent += size + ITEM_OVERHEAD

    def allow(self, limit: int) -> None:
        """Take note of a limit that the receiver told."""
        self.limit = max(self.limit, limit)
        self._room = max(self._room, self.limit - self.sent)

    @property
    def usage(self) -> float:
        """Which part of the window is certainly used, from 0 to 1.

        The receiver tells when half of it was taken, so that a half which was sent may have been taken long since.
        """
        free = max(0, self.limit - self.sent)
        return max(0.0, min(1.0, 1 - 2 * free / self._room)) if self._room else 0.0


class ReceiveWindow:
    """The receiving end: what was taken, and which limit was told.

    `window` may shrink: what was allowed stays so, and nothing more is until enough was taken.
    """

    __slots__ = ("taken", "told", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.taken = 0
        self.told = FIRST_ITEM

    def take(self, size: int) -> int | None:
        """Take note that an item was taken; return the limit to tell, if it is time."""
        self.taken += size + ITEM_OVERHEAD
        limit = self.taken + self.window
        if 2 * (limit - self.told) < self.window:
            return None
        self.told = limit
        return limit

    def open(self) -> int | None:
        """Return the limit to tell if it is above the one that was told, before anything was taken, too."""
        limit = self.taken + self.window
        if limit <= self.told:
            return None
        self.told = limit
        return limit


def windows(gates: Iterable[int], channel: int, gate: int, slot: int) -> list[int]:
    """Return the window of a channel of each gate, given how many channels the gates have.

    Each channel has `channel` bytes, and all of a gate share `gate` bytes. All windows together stay within `slot` bytes, each getting
    less by the same factor; none gets less than 1, so that an item goes at a time.
    """
    sizes = list(gates)
    wanted = [channel + gate // size for size in sizes]
    total = sum(size * window for size, window in zip(sizes, wanted, strict=True))
    if total > slot:
        wanted = [window * slot // total for window in wanted]
    return [max(1, window) for window in wanted]

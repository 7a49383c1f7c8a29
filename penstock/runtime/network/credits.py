"""How much may be in flight in a channel: the two ends of a window, as numbers only.

A channel has two windows, one in bytes and one in records. The receiver tells how much the sender may have sent in all, since the channel
began: what was taken, and a window beyond it. The sender goes on while it has sent less than that. So at most a window and one item are in
flight, and an item of any size gets through.

The limit is told again when half a window was taken since it was told last, and when the window changes. A smaller window takes back what
was not used yet: the limit goes down. A sender that waits has sent at least the limit that was told last. Once the receiver has taken all of
that, a whole window was taken since then, so the limit is told: no sender waits forever.
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

    def __init__(self, limit: int = FIRST_ITEM) -> None:
        self.sent = 0
        self.limit = limit
        self._room = 0  # what was free when the receiver told a limit last

    @property
    def is_open(self) -> bool:
        """Whether the next item may go, whatever its size."""
        return self.sent < self.limit

    def send(self, amount: int) -> None:
        """Take note that an item goes."""
        self.sent += amount

    def allow(self, limit: int) -> None:
        """Take note of a limit that the receiver told."""
        if limit < self.limit:
            self._room = 1
        self.limit = limit
        self._room = max(self._room, limit - self.sent)

    @property
    def usage(self) -> float:
        """Which part of the window is certainly used, from 0 to 1.

        The receiver tells when half of it was taken, so that a half which was sent may have been taken long since.
        """
        free = max(0, self.limit - self.sent)
        return max(0.0, min(1.0, 1 - 2 * free / self._room)) if self._room else 0.0


class ReceiveWindow:
    """The receiving end: what was taken, and which limit was told."""

    __slots__ = ("taken", "told", "window")

    def __init__(self, window: int, told: int = FIRST_ITEM) -> None:
        self.window = window
        self.taken = 0
        self.told = told

    def take(self, amount: int) -> bool:
        """Take note that something was taken; return whether it is time to tell the limit."""
        self.taken += amount
        return 2 * (self.taken + self.window - self.told) >= self.window

    def tell(self) -> int:
        """Return the limit, which the sender is told now."""
        self.told = self.taken + self.window
        return self.told


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

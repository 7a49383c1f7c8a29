"""The other JobManagers of a cluster: standbys tell the leader where they are, and the leader tells clients.

A page that was loaded from the leader can only ask the leader. When that dies it must know where to go on, so it is told before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

KNOWN_S: Final = 15.0  # for which a standby is known after it was heard of
_MOST: Final = 64


class Peers:
    """The standbys that the leader has heard of. Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: dict[str, float] = {}

    def note(self, address: str) -> None:
        """A standby has said that it is there."""
        with self._lock:
            self._heard.pop(address, None)
            self._heard[address] = self._clock()
            while len(self._heard) > _MOST:
                del self._heard[next(iter(self._heard))]

    def addresses(self) -> list[str]:
        """Return where the standbys are that were heard of not long ago."""
        with self._lock:
            now = self._clock()
            return [address for address, at in self._heard.items() if now - at <= KNOWN_S]

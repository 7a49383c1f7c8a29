"""The standby JobManagers of a cluster: they send their addresses to the leader, which reports them to clients.

A page that was loaded from the leader knows only the leader. It needs the other addresses before the leader dies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

KNOWN_S: Final = 15.0  # after its last heartbeat, a standby is still listed for this long
_MOST: Final = 64


class Peers:
    """The standbys known to the leader. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: dict[str, float] = {}

    def note(self, address: str) -> None:
        """Record the heartbeat of a standby."""
        with self._lock:
            self._heard.pop(address, None)
            self._heard[address] = self._clock()
            while len(self._heard) > _MOST:
                del self._heard[next(iter(self._heard))]

    def addresses(self) -> list[str]:
        """Return the addresses of standbys with a recent heartbeat."""
        with self._lock:
            now = self._clock()
            return [address for address, at in self._heard.items() if now - at <= KNOWN_S]

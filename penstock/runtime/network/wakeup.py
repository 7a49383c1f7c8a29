"""Wakes a thread that polls sockets from another thread."""

from __future__ import annotations

import os
import threading


class Wakeup:
    """A file descriptor that is readable after `wake`, until `clear`."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        for each in (self.fd, self._writer):
            os.set_blocking(each, False)
        self._lock = threading.Lock()
        self._awake = False
        self._closed = False

    def wake(self) -> None:
        """Make it readable. Thread-safe, also after it was closed."""
        with self._lock:
            if self._awake or self._closed:
                return
            self._awake = True
            os.write(self._writer, b"!")

    def clear(self) -> None:
        """Make it unreadable again."""
        with self._lock:
            if self._awake:
                self._awake = False
                os.read(self.fd, 1)

    def close(self) -> None:
        """Close both ends."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.fd)
                os.close(self._writer)

"""Lines from a socket as a source of Penstock. A socket cannot go back, so there is one position only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock.connectors.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)


class SocketLines(Source):
    """Ends when the other side hangs up."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return _OneSplit(found=bool(restored))

    def create_reader(self) -> SourceReader:
        return _Reader(self.address)


class _OneSplit(SplitEnumerator):
    def __init__(self, *, found: bool) -> None:
        self._found = found

    def discover(self) -> list[SourceSplit]:
        found, self._found = self._found, True
        return [] if found else [SourceSplit("socket", start=0)]

    def no_more_splits(self) -> bool:
        return self._found

    def snapshot(self) -> bool:
        return self._found


class _Reader(SourceReader):
    """A thread takes bytes from the socket and wakes whoever waits for them."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._lock = threading.Condition()
        self._waiting: list[bytes] = []
        self._ended = False
        self._rest = b""
        self._thread: threading.Thread | None = None
        self._wake: Callable[[], None] = lambda: None

    def use_wake(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def next_ready(self, split: SourceSplit, position: Any) -> float | None:
        return 0.0 if self._waiting or self._ended else float("inf")

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._receive, daemon=True)
            self._thread.start()
        while True:
            lines, ended = self._take(limits.remaining)
            for start in range(0, len(lines), limits.batch_size):
                yield SourceBatch(lines[start : start + limits.batch_size], 0)
            if ended:
                return
            if not lines:
                yield SourceBatch([], 0)

    def _take(self, seconds: float | None) -> tuple[list[str], bool]:
        """Return the lines that are there; wait for some if that is allowed."""
        with self._lock:
            if not self._waiting and not self._ended:
                self._lock.wait(1.0 if seconds is None else seconds)
            taken, self._waiting = self._waiting, []
            ended = self._ended
        whole, newline, rest = (self._rest + b"".join(taken)).rpartition(b"\n")
        self._rest = rest
        return (whole.decode().split("\n") if newline else []), ended

    def _receive(self) -> None:
        with socket.create_connection(self._address) as connection:
            while data := connection.recv(1 << 16):
                with self._lock:
                    self._waiting.append(data)
                    self._lock.notify()
                self._wake()
        with self._lock:
            self._ended = True
            self._lock.notify()
        self._wake()

"""What the jobs of other libraries share: their command line, lines from the feed, the ages of records."""

from __future__ import annotations

import argparse
import array
import socket
import time
import uuid
from functools import cache
from pathlib import Path

FLUSH_NS = 500_000_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--parallelism", type=int, default=2)
    return parser.parse_args()


def parse(line: str) -> tuple[str, int, int]:
    key, due, phase = line.split(",")
    return key, int(due), int(phase)


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)))


class Ages:
    """Notes the age of each record in microseconds, with the phase that it belongs to."""

    def __init__(self, directory: str) -> None:
        self._path = Path(directory, f"{uuid.uuid4().hex}.ages")
        self._ages = array.array("q")
        self._flushed = 0

    def note(self, due: int, phase: int) -> None:
        now = time.time_ns()
        if phase:
            self._ages.append((now - due) // 1000 * 16 + phase)
        if now - self._flushed > FLUSH_NS:
            self.flush()
            self._flushed = now

    def flush(self) -> None:
        with self._path.open("ab") as file:
            self._ages.tofile(file)
        del self._ages[:]


@cache
def ages_of(directory: str) -> Ages:
    """Return the one of this process."""
    return Ages(directory)

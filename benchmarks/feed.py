"""Sends numbered lines to every client, at a steady rate: what all engines read when latency is measured.

A line is `key,due,phase`: when the record was due (nanoseconds of the wall clock), and the phase that it counts for. It is not when
the record was sent: if the engine does not keep up, the wait for room in the socket counts too. Phase 0 is not measured.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TICK_S = 0.0005
KEYS = 1_000
WAITING = 200  # records per second until the engine gives the first one out
TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Phase:
    """So many records per second, for so long; only those with a number count."""

    number: int
    rate: float
    seconds: float


def plan(
    rates: Sequence[int], *, warm_up_s: float, settle_s: float, measured_s: float
) -> list[Phase]:
    """Warm up at the lowest rate; at each rate, let the engine settle before it is measured.

    After the last one some more records come: the writer of ages flushes them to a file now and then, as long as it receives records.
    """
    phases = [Phase(0, min(rates), warm_up_s)]
    for number, rate in enumerate(rates, 1):
        phases += [Phase(0, rate, settle_s), Phase(number, rate, measured_s)]
    return [*phases, Phase(0, min(rates), 2.0)]


class Feed(threading.Thread):
    """Listens on a port of this machine, sends all phases to the first who connects, and hangs up."""

    def __init__(self, phases: Sequence[Phase], ready: Callable[[], bool]) -> None:
        """`ready` says whether the engine has given a record out: the phases begin then."""
        super().__init__(daemon=True)
        self.phases = phases
        self.ready = ready
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.sent = 0

    def run(self) -> None:
        with self.listener, contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                patience = time.monotonic() + TIMEOUT_S
                while not self.ready() and time.monotonic() < patience:
                    self._send(connection, Phase(0, WAITING, 0.2))
                for phase in self.phases:
                    self._send(connection, phase)

    def _send(self, connection: socket.socket, phase: Phase) -> None:
        keys = [f"k{random.randrange(KEYS)}" for _ in range(4096)]
        start, gap, done = time.time_ns(), 1e9 / phase.rate, 0
        count = int(phase.rate * phase.seconds)
        while done < count:
            due = min(count, int((time.time_ns() - start) / gap) + 1)
            if due > done:
                lines = [
                    f"{keys[n & 4095]},{start + int(n * gap)},{phase.number}\n"
                    for n in range(done, due)
                ]
                connection.sendall("".join(lines).encode())
                self.sent += due - done
                done = due
            time.sleep(TICK_S)

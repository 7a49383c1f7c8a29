"""ZeroMQ sockets: unbounded queues (credits bound them), heartbeats, and connection events."""

from __future__ import annotations

import math
from dataclasses import replace
from socket import SOCK_STREAM, getaddrinfo
from typing import Any, Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from penstock.graph.stage import HeartbeatSettings

# Between slots a message may be as large as a record, and nothing is received before its end. There the driver detects
# lost slots, so slots give each other this long at least.
_SHORTEST_BETWEEN_SLOTS_MS: Final = 30_000
# ZeroMQ sends the timeout to the other side as a 16-bit number of tenths of a second, and refuses longer ones.
_LONGEST_TTL_MS: Final = 0xFFFF * 100
_LONGEST_MS: Final = 2**31 - 1

_NEWS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED


def between_slots(heartbeat: HeartbeatSettings) -> HeartbeatSettings:
    """Return the heartbeats between slots: a slot waits for another one at least as long as the driver does.

    >>> between_slots(HeartbeatSettings(interval_ms=100, timeout_ms=500))
    HeartbeatSettings(interval_ms=100, timeout_ms=30000)
    """
    return replace(heartbeat, timeout_ms=max(heartbeat.timeout_ms, _SHORTEST_BETWEEN_SLOTS_MS))


def new_socket(
    context: zmq.Context[Any], kind: int, *, heartbeat: HeartbeatSettings, linger_ms: int = 0
) -> zmq.Socket[bytes]:
    """Return a socket that never rejects a message, and lingers for at most `linger_ms` to send the last ones.

    ZeroMQ's own threads send and answer heartbeats, so a process that is busy for minutes is alive, and one that is paused or
    cut off is not.
    """
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.set_hwm(0)
    socket.setsockopt(zmq.LINGER, linger_ms)
    socket.setsockopt(zmq.HEARTBEAT_IVL, min(heartbeat.interval_ms, _LONGEST_MS))
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, min(heartbeat.timeout_ms, _LONGEST_MS))
    socket.setsockopt(zmq.HEARTBEAT_TTL, min(heartbeat.timeout_ms, _LONGEST_TTL_MS))
    return socket


def bind(socket: zmq.Socket[bytes], host: str) -> str:
    """Listen on a free port of one address of this machine, which may be given by name; return the address."""
    number = str(getaddrinfo(host, None, type=SOCK_STREAM)[0][4][0])
    if ":" in number:
        socket.setsockopt(zmq.IPV6, 1)
        number = f"[{number}]"
    socket.bind(f"tcp://{number}:0")
    endpoint: Any = socket.last_endpoint
    return str(endpoint, "ascii")


def at_host(host: str, address: str) -> str:
    """Return the address with the same port on another host."""
    return f"tcp://{f'[{host}]' if ':' in host else host}:{address.rpartition(':')[2]}"


def connect(socket: zmq.Socket[bytes], address: str) -> None:
    """Connect, now or as soon as the other side is up."""
    if "[" in address:
        socket.setsockopt(zmq.IPV6, 1)
    socket.connect(address)


def has_message(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message can be received. This takes 0.7 us; an unsuccessful NOBLOCK raises, which takes 5 us."""
    events: Any = socket.getsockopt(zmq.EVENTS)
    return bool(events & zmq.POLLIN)


def milliseconds(seconds: float) -> int:
    """Return a poll timeout for ZeroMQ, rounded up, so that short waits do not spin."""
    return max(0, math.ceil(seconds * 1000))


class Connections:
    """Reports closed connections of a socket.

    ZeroMQ identifies a connection by its file descriptor (SRCFD of a frame). Unauthenticated connections come and go, too.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._watched = socket
        self.monitor: zmq.Socket[bytes] = socket.get_monitor_socket(_NEWS)
        self._made = False  # whether there was an authenticated connection

    def closed(self) -> list[int]:
        """Return connections closed since the last call; none before the first authenticated connection."""
        closed: list[int] = []
        while has_message(self.monitor):
            news = parse_monitor_message(self.monitor.recv_multipart(zmq.NOBLOCK))
            if news["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._made = True
            elif news["event"] == zmq.EVENT_DISCONNECTED and self._made:
                closed.append(int(news["value"]))
        return closed

    def close(self) -> None:
        """Stop monitoring."""
        self._watched.disable_monitor()

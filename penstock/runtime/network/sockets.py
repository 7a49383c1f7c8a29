"""ZeroMQ sockets as the network uses them: unbounded queues (credits bound them), signs of life, and news of connections."""

from __future__ import annotations

import math
from socket import SOCK_STREAM, getaddrinfo
from typing import Any, Final

import zmq
from zmq.utils.monitor import parse_monitor_message

# A connection whose other end shows no sign of life for so many milliseconds is lost. ZeroMQ's own threads answer, so that a process which is
# busy for minutes is alive, and one that is frozen or cut off is not. Messages to and from the driver are small. Between slots a message
# may be as large as a record can be, and nothing is heard before its end; who is gone is the driver's business there.
DRIVER_TIMEOUT_MS: Final = 3000
SLOT_TIMEOUT_MS: Final = 30_000

_NEWS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED


def new_socket(
    context: zmq.Context[Any], kind: int, *, timeout_ms: int, linger_ms: int = 0
) -> zmq.Socket[bytes]:
    """Return a socket that never refuses a message, and stays at most `linger_ms` to send the last ones."""
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.set_hwm(0)
    socket.setsockopt(zmq.LINGER, linger_ms)
    socket.setsockopt(zmq.HEARTBEAT_IVL, timeout_ms // 3)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, timeout_ms)
    socket.setsockopt(zmq.HEARTBEAT_TTL, timeout_ms)
    return socket


def bind(socket: zmq.Socket[bytes], host: str) -> str:
    """Listen at a free port of one address of this machine, which may be told by name; return where."""
    number = str(getaddrinfo(host, None, type=SOCK_STREAM)[0][4][0])
    if ":" in number:
        socket.setsockopt(zmq.IPV6, 1)
        number = f"[{number}]"
    socket.bind(f"tcp://{number}:0")
    endpoint: Any = socket.last_endpoint
    return str(endpoint, "ascii")


def at_host(host: str, address: str) -> str:
    """Return the same port at another host."""
    return f"tcp://{f'[{host}]' if ':' in host else host}:{address.rpartition(':')[2]}"


def connect(socket: zmq.Socket[bytes], address: str) -> None:
    """Connect, now or when the other side is there."""
    if "[" in address:
        socket.setsockopt(zmq.IPV6, 1)
    socket.connect(address)


def has_message(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message can be received. Asking takes 0.7 us; a NOBLOCK that finds nothing raises, which takes 5 us."""
    events: Any = socket.getsockopt(zmq.EVENTS)
    return bool(events & zmq.POLLIN)


def milliseconds(seconds: float) -> int:
    """Return how long to poll, as ZeroMQ counts it: no less than asked for, so that waiting for a short time is not spinning."""
    return max(0, math.ceil(seconds * 1000))


class Connections:
    """News of a socket's connections: which were closed.

    ZeroMQ names a connection by its file descriptor, which frames of its messages have as SRCFD. Those of strangers come and go, too.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._watched = socket
        self.monitor: zmq.Socket[bytes] = socket.get_monitor_socket(_NEWS)
        self._made = False  # whether there was a connection to somebody who has the keys

    def closed(self) -> list[int]:
        """Return the connections that were closed since the last call, and before somebody with the keys was there none."""
        closed: list[int] = []
        while has_message(self.monitor):
            news = parse_monitor_message(self.monitor.recv_multipart(zmq.NOBLOCK))
            if news["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._made = True
            elif news["event"] == zmq.EVENT_DISCONNECTED and self._made:
                closed.append(int(news["value"]))
        return closed

    def close(self) -> None:
        """Hear no more."""
        self._watched.disable_monitor()

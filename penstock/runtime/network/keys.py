"""Who belongs to an attempt: keys that are made for it, and sockets that talk to nobody else.

All sockets of an attempt share one pair of CURVE keys, which travels with its tasks. Whoever connects must know the public key to be
heard at all, and must prove to have the secret one: ZeroMQ asks the `Doorkeeper` of its context about every client's key.
"""

from __future__ import annotations

from typing import Any

import zmq
from zmq.utils import z85

from penstock.graph.stage import StageKeys
from penstock.runtime.network.sockets import has_message

_DOOR = "inproc://zeromq.zap.01"


def make_keys() -> StageKeys:
    """Make the keys of an attempt."""
    public, secret = zmq.curve_keypair()
    return StageKeys(public, secret)


def guard(socket: zmq.Socket[bytes], keys: StageKeys, domain: str = "stage") -> None:
    """Let a socket that is to be bound hear only those who have the keys; the doorkeeper must know the domain."""
    socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
    socket.setsockopt(zmq.CURVE_SERVER, 1)


def identify(socket: zmq.Socket[bytes], keys: StageKeys) -> None:
    """Let a socket that is to be connected show the keys, and talk only to those who have them."""
    socket.setsockopt(zmq.CURVE_SERVERKEY, keys.public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)


class Doorkeeper:
    """Answers ZeroMQ's question whether a client may come in, for all sockets of a context (ZAP, RFC 27).

    It has no thread of its own: whoever polls the sockets polls `socket` too, and calls `answer`.
    """

    def __init__(self, context: zmq.Context[Any]) -> None:
        self.socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(_DOOR)
        self._admitted: dict[bytes, bytes] = {}  # domain -> the key that a client must have

    def admit(self, keys: StageKeys, domain: str = "stage") -> None:
        """Let in whoever has these keys, and nobody else."""
        self._admitted[domain.encode()] = z85.decode(keys.public)

    def dismiss(self, domain: str) -> None:
        """Let nobody in any more."""
        self._admitted.pop(domain.encode(), None)

    def answer(self) -> None:
        """Answer all that was asked."""
        while has_message(self.socket):
            request = self.socket.recv_multipart(zmq.NOBLOCK)
            known = self._is_known(request)
            status = [b"200", b"OK", b"slot"] if known else [b"400", b"a stranger", b""]
            self.socket.send_multipart([request[0], request[1], *status, b""])

    def _is_known(self, request: list[bytes]) -> bool:
        # version, request, domain, address, identity, mechanism, credentials
        if len(request) != 7 or request[5] != b"CURVE":
            return False
        return self._admitted.get(request[2]) == request[6]

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

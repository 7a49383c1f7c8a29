"""Authentication of an attempt's sockets by keys that are created for it.

All sockets of an attempt share one pair of CURVE keys, which is sent with its tasks. A client must know the public key to
connect, and must prove that it has the secret one: ZeroMQ asks the `ZapAuthenticator` of its context about every client's key.
"""

from __future__ import annotations

from typing import Any

import zmq
from zmq.utils import z85

from penstock.graph.stage import StageKeys
from penstock.runtime.network.sockets import has_message

_DOOR = "inproc://zeromq.zap.01"


def make_keys() -> StageKeys:
    """Create the keys of an attempt."""
    public, secret = zmq.curve_keypair()
    return StageKeys(public, secret)


def guard(socket: zmq.Socket[bytes], keys: StageKeys, domain: str = "stage") -> None:
    """Make a socket accept only clients with the keys, before it is bound; the ZapAuthenticator must know the domain."""
    socket.setsockopt(zmq.ZAP_DOMAIN, domain.encode())
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
    socket.setsockopt(zmq.CURVE_SERVER, 1)


def identify(socket: zmq.Socket[bytes], keys: StageKeys) -> None:
    """Make a socket present the keys, and talk only to servers with them, before it is connected."""
    socket.setsockopt(zmq.CURVE_SERVERKEY, keys.public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)


class ZapAuthenticator:
    """Authenticates clients for all sockets of a context (ZAP, RFC 27).

    It has no thread of its own: the poller of the sockets polls `socket` too, and calls `answer`.
    """

    def __init__(self, context: zmq.Context[Any]) -> None:
        self.socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(_DOOR)
        self._admitted: dict[bytes, bytes] = {}  # domain -> the key that a client must have

    def admit(self, keys: StageKeys, domain: str = "stage") -> None:
        """Accept clients with these keys, and no others."""
        self._admitted[domain.encode()] = z85.decode(keys.public)

    def dismiss(self, domain: str) -> None:
        """Accept no more clients."""
        self._admitted.pop(domain.encode(), None)

    def answer(self) -> None:
        """Answer all pending requests."""
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

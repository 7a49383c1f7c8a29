"""Ports that are not in use yet."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Keep a port of the loopback address that refuses connections until a server of the test listens at it.

    No other process gets it meanwhile. The server has to set SO_REUSEADDR, as those of the standard library do.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]

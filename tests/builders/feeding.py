"""A server that sends what a test says to every client that connects."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def feeding(*serves: Serve) -> Iterator[tuple[str, int]]:
    """Listen, and let each connection be served by the next function; it is closed when the function returns.

    After the last one the server stops listening.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(120)

    def run() -> None:
        with listener:
            for serve in serves:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    serve(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield listener.getsockname()
    thread.join(120)


def sends(data: bytes) -> Serve:
    """Send this and hang up."""
    return lambda connection: connection.sendall(data)

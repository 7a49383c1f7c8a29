"""A source of records from a TCP socket."""

from __future__ import annotations

from penstock.connectors.socket.source import SocketSource

__all__ = ["SocketSource"]

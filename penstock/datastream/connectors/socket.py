"""A source of records from a TCP socket."""

from __future__ import annotations

from penstock.connectors.socket import SocketSource

__all__ = ["SocketSource"]

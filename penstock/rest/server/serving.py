"""uvicorn, in a thread of this process, on a socket that listens already."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from penstock.rest.server.connection import Connection
from penstock.rest.server.limits import RequestLimits


async def serve(
    application: ASGIApp,
    limits: RequestLimits,
    listening: socket.socket,
    ending: socket.socket,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve the connections of one socket until the other socket becomes readable."""
    connection: Any = type("Connection", (Connection,), {"limits": limits})
    config = uvicorn.Config(
        application,
        http=connection,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=1024,
        h11_max_incomplete_event_size=limits.head_bytes,
        timeout_keep_alive=10**6,  # Connection has its own timers
    )
    server = UvicornServer(config, tls, limits.arrival_s)
    asyncio.get_running_loop().add_reader(ending, server.ended.set)
    await server.serve([listening])


class UvicornServer(uvicorn.Server):
    """uvicorn's server, without a periodic tick while it is idle, and with an immediate shutdown."""

    def __init__(
        self, config: uvicorn.Config, tls: ssl.SSLContext | None, handshake_s: float
    ) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()
        self._tls = tls
        self._handshake_s = None if tls is None else handshake_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        connection: Any = self.config.http_protocol_class
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                lambda: connection(self.config, self.server_state, {}, loop),
                sock=listening,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_s,
                backlog=self.config.backlog,
            )
            for listening in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        """Wait for the shutdown."""
        await self.ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Release the port and close all connections."""
        for listening in sockets or ():
            asyncio.get_running_loop().remove_reader(listening)
        # Let sockets that were just accepted become connections; asyncio leaks them if the server is closed before.
        for _ in range(3):
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

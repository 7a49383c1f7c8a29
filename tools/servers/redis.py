"""A Redis server of Debian's package."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from tools.servers.process import MissingServerError, ServerProcess


class RedisServer(ServerProcess):
    """Redis on a free port of the loopback address. What it has acknowledged survives a kill: every write goes to a log first."""

    name = "redis"

    def __init__(self, *options: str) -> None:
        self._program = shutil.which("redis-server")
        if self._program is None:
            raise MissingServerError(
                "Redis is not installed: no redis-server on the PATH; try: apt-get install redis-server"
            )
        super().__init__()
        self._options = options

    def command(self) -> Sequence[str]:
        """Return redis-server with all its options."""
        assert self._program is not None
        options = [
            *("--port", str(self.port)),
            *("--bind", "127.0.0.1"),
            *("--dir", str(self.directory)),
            *("--appendonly", "yes"),
            # A kill does not need the disk: what was written is with the operating system.
            *("--appendfsync", "no"),
            *("--save", ""),
            *("--databases", "64"),
        ]
        return [self._program, *options, *self._options]

    def is_ready(self) -> bool:
        """Whether it answers: after a start it reads its log first."""
        import redis

        try:
            with redis.Redis(port=self.port, socket_timeout=1) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def url(self, database: int = 0) -> str:
        """Return what clients connect to."""
        return f"redis://127.0.0.1:{self.port}/{database}"

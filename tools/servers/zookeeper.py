"""A ZooKeeper server on its own."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.servers.process import MissingServerError, ServerProcess

JARS = Path(sys.prefix) / "servers" / "zookeeper"
TICK_MS = 200  # sessions may be as short as two of them, and end to within one


class ZooKeeperServer(ServerProcess):
    """A server without authentication on a free port of the loopback address."""

    name = "zookeeper"

    def __init__(self) -> None:
        if not (JARS / ".fetched").exists():
            raise MissingServerError("ZooKeeper is not installed: run tools/install_servers.sh")
        super().__init__()

    @property
    def quorum(self) -> str:
        """Where clients find it: a value of `high-availability.zookeeper.quorum`."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        """Return the command line."""
        home = os.environ.get("JAVA_HOME") or (Path(sys.prefix) / "java_home").read_text().strip()
        return [
            f"{home}/bin/java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dzookeeper.admin.enableServer=false",
            "-cp",
            f"{JARS}/*",
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self._configuration),
        ]

    def prepare(self) -> None:
        """Write the configuration."""
        settings = {
            "dataDir": self.directory / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "tickTime": TICK_MS,
            "minSessionTimeout": 2 * TICK_MS,
            "maxSessionTimeout": 600_000,
            "4lw.commands.whitelist": "srvr",
            # What is written is on disk when the process dies; only a machine that dies would need this.
            "forceSync": "no",
        }
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._configuration.write_text(lines)

    def is_ready(self) -> bool:
        """Whether it serves: it listens some time before, and a client that connects then may never get an answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.makefile("rb").read().startswith(b"Zookeeper version")
        except OSError:
            return False

    @property
    def _configuration(self) -> Path:
        return self.directory / "zoo.cfg"

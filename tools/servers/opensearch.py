"""An OpenSearch server, put together from the jars that Maven Central has of it.

There is not a distribution of it on Maven Central, but there are the server and its HTTP transport, which is a module. A module is a directory with
jars, a descriptor, and what its code may do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tools.servers.process import MissingServerError, ServerProcess, free_port

JARS = Path(sys.prefix) / "servers" / "opensearch"
_OF_THE_TRANSPORT = ("netty-", "transport-netty4-")
_DESCRIPTOR = """\
name=transport-netty4
description=HTTP and transport
version={version}
opensearch.version={version}
java.version=11
classname=org.opensearch.transport.Netty4Plugin
"""
_POLICY = 'grant {\n  permission java.net.SocketPermission "*", "accept,connect,resolve";\n};\n'
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1.} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


class OpenSearchServer(ServerProcess):
    """One node on a free port of the loopback address, without security. It speaks the _bulk API of Elasticsearch 7."""

    name = "opensearch"
    start_timeout_s = 240.0

    def __init__(self) -> None:
        if not (JARS / ".fetched").exists():
            raise MissingServerError("OpenSearch is not installed: run tools/install_servers.sh")
        super().__init__()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        """Lay out its home: configuration, and the one module it cannot do without."""
        (server,) = JARS.glob("opensearch-[0-9]*.jar")
        version = server.stem.removeprefix("opensearch-")
        module = self.directory / "modules" / "transport-netty4"
        library = self.directory / "lib"
        for each in (module, library, self.directory / "config", self.directory / "plugins"):
            each.mkdir(parents=True)
        for jar in JARS.glob("*.jar"):
            shutil.copy(jar, module if jar.name.startswith(_OF_THE_TRANSPORT) else library)
        (module / "plugin-descriptor.properties").write_text(_DESCRIPTOR.format(version=version))
        (module / "plugin-security.policy").write_text(_POLICY)
        settings = {
            "discovery.type": "single-node",
            "network.host": "127.0.0.1",
            "http.port": self.port,
            "transport.port": free_port(),
            "cluster.routing.allocation.disk.threshold_enabled": False,
            "node.store.allow_mmap": False,
            "bootstrap.system_call_filter": False,
            "cluster.max_shards_per_node": 5000,
        }
        lines = [f"{name}: {json.dumps(value)}\n" for name, value in settings.items()]
        (self.directory / "config" / "opensearch.yml").write_text("".join(lines))
        (self.directory / "config" / "log4j2.properties").write_text(_LOGGING)

    def command(self) -> Sequence[str]:
        """Return the Java program. Without native code it cannot see that it runs as root, which it refuses."""
        home = os.environ.get("JAVA_HOME") or (Path(sys.prefix) / "java_home").read_text().strip()
        options = {
            "java.security.manager": "allow",
            "jna.nosys": "true",
            "jna.nounpack": "true",
            "opensearch.path.home": self.directory,
            "opensearch.path.conf": self.directory / "config",
            "opensearch.distribution.type": "tar",
        }
        return [
            f"{home}/bin/java",
            *("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-cp", f"{self.directory}/lib/*"),
            "org.opensearch.bootstrap.OpenSearch",
        ]

    def is_ready(self) -> bool:
        """Whether it has all the shards that it had before."""
        try:
            with urllib.request.urlopen(f"{self.url}/_cluster/health", timeout=5) as answer:
                health = json.load(answer)
        except (OSError, urllib.error.URLError):
            return False
        return health["status"] != "red"

    def close(self) -> None:
        """Kill it, because its last writes are not needed, and delete its data."""
        self.kill()
        super().close()

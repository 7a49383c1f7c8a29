"""HDFS and YARN on this machine: a NameNode, a DataNode, a ResourceManager and a NodeManager, each a JVM of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self
from xml.sax.saxutils import escape

from tools.servers.process import MissingServerError, ServerProcess, free_port

JARS = Path(sys.prefix) / "servers" / "hadoop"
_HOST = "127.0.0.1"
_ANY = f"{_HOST}:0"
# Hadoop on Java 17 reaches into these packages.
_OPENED = ("java.lang", "java.lang.reflect", "java.util", "java.util.concurrent", "java.net")
_LOGGING = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


def java_home() -> str:
    """Return the JDK of the tests."""
    return os.environ.get("JAVA_HOME") or (Path(sys.prefix) / "java_home").read_text().strip()


class HadoopDaemon(ServerProcess):
    """One of the four processes. `ready` tells whether it serves."""

    def __init__(
        self,
        name: str,
        main: str,
        configuration: Path,
        ready: Callable[[], bool],
        *,
        heap: str,
        first: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._main = main
        self._configuration = configuration
        self._ready = ready
        self._heap = heap
        self._first = first
        self.environment = {"JAVA_HOME": java_home(), "HADOOP_CONF_DIR": str(configuration)}
        super().__init__()

    def command(self) -> Sequence[str]:
        """Return the command line."""
        return [
            f"{java_home()}/bin/java",
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            "-cp",
            f"{self._configuration}:{JARS}/*",
            self._main,
        ]

    def prepare(self) -> None:
        """Run it once with other arguments, where its data needs that."""
        if self._first:
            with self.log.open("ab") as log:
                subprocess.run(
                    [*self.command(), *self._first],
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                    check=True,
                )

    def is_ready(self) -> bool:
        """Whether it serves."""
        try:
            return self._ready()
        except (OSError, ValueError, LookupError, TypeError):
            return False


class HadoopCluster:
    """One machine with HDFS, and with YARN if it is wanted."""

    def __init__(self, *, yarn: bool = True, memory_mb: int = 4096, cores: int = 8) -> None:
        if not (JARS / ".fetched").exists():
            raise MissingServerError(
                "Hadoop is not installed: run tools/install_servers.sh clusters"
            )
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-hadoop-"))
        self.configuration = self.directory / "conf"
        ports = [free_port() for _ in range(7)]
        self._name_node, self._name_web, self._manager, self._web = ports[:4]
        self._write_configuration(ports[4:], memory_mb, cores)
        hdfs = "org.apache.hadoop.hdfs.server"
        server = "org.apache.hadoop.yarn.server"
        self.name_node = HadoopDaemon(
            "namenode",
            f"{hdfs}.namenode.NameNode",
            self.configuration,
            self._name_node_is_active,
            heap="192m",
            first=("-format", "-nonInteractive", "-force"),
        )
        self.data_node = HadoopDaemon(
            "datanode",
            f"{hdfs}.datanode.DataNode",
            self.configuration,
            self._data_node_is_known,
            heap="160m",
        )
        self.resource_manager = HadoopDaemon(
            "resourcemanager",
            f"{server}.resourcemanager.ResourceManager",
            self.configuration,
            lambda: self._yarn("info")["clusterInfo"]["state"] == "STARTED",
            heap="256m",
        )
        self.node_manager = HadoopDaemon(
            "nodemanager",
            f"{server}.nodemanager.NodeManager",
            self.configuration,
            lambda: self._yarn("metrics")["clusterMetrics"]["activeNodes"] == 1,
            heap="192m",
        )
        self._daemons = [self.name_node, self.data_node]
        if yarn:
            self._daemons += [self.resource_manager, self.node_manager]

    @property
    def address(self) -> str:
        """Where the NameNode listens."""
        return f"{_HOST}:{self._name_node}"

    def uri(self, path: str = "") -> str:
        """Return the URI of a path in HDFS."""
        return f"hdfs://{self.address}/{path}"

    def web_uri(self, path: str = "") -> str:
        """Return the URI of a path in HDFS over HTTP."""
        return f"webhdfs://{_HOST}:{self._name_web}/{path}"

    @property
    def environment(self) -> dict[str, str]:
        """What processes need to find this cluster."""
        return {"HADOOP_CONF_DIR": str(self.configuration), "JAVA_HOME": java_home()}

    def applications(self) -> list[dict[str, Any]]:
        """Return the applications that YARN knows, oldest first."""
        found = (self._yarn("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda each: str(each["id"]))

    def logs(self) -> str:
        """Return what the daemons have printed last."""
        return "\n".join(
            f"--- {each.name}\n{each.log.read_text(errors='replace')[-3000:]}"
            for each in self._daemons
            if each.log.exists()
        )

    def __enter__(self) -> Self:
        try:
            first, *others = self._daemons
            first.start()
            with ThreadPoolExecutor(len(others)) as threads:
                list(threads.map(lambda each: each.start(), others))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._daemons):
            each.kill()  # their data goes with them
            each.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _name_node_is_active(self) -> bool:
        return bool(self._bean("NameNodeStatus")["State"] == "active")

    def _data_node_is_known(self) -> bool:
        state = self._bean("FSNamesystemState")
        return state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational"

    def _bean(self, name: str) -> Any:
        query = f"jmx?qry=Hadoop:service=NameNode,name={name}"
        return _json(f"http://{_HOST}:{self._name_web}/{query}")["beans"][0]

    def _yarn(self, path: str) -> Any:
        return _json(f"http://{_HOST}:{self._web}/ws/v1/cluster/{path}")

    def _write_configuration(self, ports: Sequence[int], memory_mb: int, cores: int) -> None:
        # The pages of HDFS, which it must find but which its jars do not have. Its HTTP interfaces do without.
        for page in ("hdfs", "datanode", "static"):
            (self.configuration / "webapps" / page).mkdir(parents=True)
        (self.configuration / "log4j.properties").write_text(_LOGGING)
        scheduler, tracker, admin = ports
        self._write(
            "core-site",
            {"fs.defaultFS": f"hdfs://{self.address}", "hadoop.tmp.dir": self.directory / "tmp"},
        )
        self._write(
            "hdfs-site",
            {
                "dfs.replication": 1,
                "dfs.namenode.rpc-address": self.address,
                "dfs.namenode.http-address": f"{_HOST}:{self._name_web}",
                "dfs.namenode.name.dir": self.directory / "name",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",
                "dfs.datanode.data.dir": self.directory / "data",
                "dfs.datanode.hostname": _HOST,
                "dfs.datanode.address": _ANY,
                "dfs.datanode.http.address": _ANY,
                "dfs.datanode.ipc.address": _ANY,
            },
        )
        self._write(
            "yarn-site",
            {
                "yarn.resourcemanager.hostname": _HOST,
                "yarn.resourcemanager.address": f"{_HOST}:{self._manager}",
                "yarn.resourcemanager.scheduler.address": f"{_HOST}:{scheduler}",
                "yarn.resourcemanager.resource-tracker.address": f"{_HOST}:{tracker}",
                "yarn.resourcemanager.admin.address": f"{_HOST}:{admin}",
                "yarn.resourcemanager.webapp.address": f"{_HOST}:{self._web}",
                "yarn.nodemanager.hostname": _HOST,
                "yarn.nodemanager.address": _ANY,
                "yarn.nodemanager.localizer.address": _ANY,
                "yarn.nodemanager.webapp.address": _ANY,
                "yarn.nodemanager.local-dirs": self.directory / "local",
                "yarn.nodemanager.log-dirs": self.directory / "logs",
                "yarn.nodemanager.resource.memory-mb": memory_mb,
                "yarn.nodemanager.resource.cpu-vcores": cores,
                "yarn.nodemanager.pmem-check-enabled": "false",
                "yarn.nodemanager.vmem-check-enabled": "false",
                # A full disk of the machine is not what is tested.
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR",
                "yarn.nodemanager.delete.debug-delay-sec": 3600,  # for what a failed test shows
                "yarn.scheduler.minimum-allocation-mb": 128,
            },
        )
        self._write(
            "capacity-scheduler",
            {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": 100,
                "yarn.scheduler.capacity.maximum-am-resource-percent": 1,
            },
        )

    def _write(self, name: str, settings: Mapping[str, object]) -> None:
        properties = "".join(
            f"<property><name>{key}</name><value>{escape(str(value))}</value></property>\n"
            for key, value in settings.items()
        )
        text = f"<configuration>\n{properties}</configuration>\n"
        (self.configuration / f"{name}.xml").write_text(text)


def _json(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return json.load(answer)

"""A Kafka cluster of one broker, which is its own controller or has one beside it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tools.servers.process import MissingServerError, ServerProcess, free_port

JARS = Path(sys.prefix) / "servers" / "kafka"
BROKER_ID = 1
CONTROLLER_ID = 100  # where it is a process of its own
TIMEOUT_S = 120.0  # for what takes seconds at most, unless the machine is very busy


class _Node(ServerProcess):
    """A process of Kafka: a broker or a controller."""

    heap = "512m"
    java_options: Sequence[str] = ()
    cluster = ""
    format_options: Sequence[str] = ()  # of the tool that formats the storage

    def settings(self) -> Mapping[str, str]:
        """Return the lines of server.properties."""
        raise NotImplementedError

    def command(self) -> Sequence[str]:
        """Return the command line."""
        return [*self._java(), "kafka.Kafka", str(self._configuration)]

    def prepare(self) -> None:
        """Write the configuration and format the storage."""
        lines = {"log.dirs": str(self._data), **self.settings()}
        self._configuration.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._data.mkdir()
        formatted = self._formatted(lines["process.roles"], lines["node.id"])
        for file in formatted.iterdir():
            shutil.copyfile(file, self._data / file.name)
        properties = self._data / "meta.properties"
        text = re.sub(
            "(?m)^cluster.id=.*", lambda _: f"cluster.id={self.cluster}", properties.read_text()
        )
        properties.write_text(text)

    def _formatted(self, roles: str, node: str) -> Path:
        """Return what the tool writes into the storage of such a node. It is kept: the tool takes as long as half a start."""
        key = hashlib.sha256("\0".join([roles, node, *self.format_options]).encode()).hexdigest()
        kept = JARS / "formatted" / key[:16]
        if kept.exists():
            return kept
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as directory:
            made = Path(directory) / "data"
            configuration = Path(directory) / "server.properties"
            text = self._configuration.read_text()
            configuration.write_text(text.replace(f"log.dirs={self._data}", f"log.dirs={made}"))
            # An id may begin with a dash.
            tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={self.cluster}"]
            command = [*self._java(), *tool, "-c", str(configuration), *self.format_options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            try:
                made.rename(kept)
            except OSError:  # another process was faster
                if not kept.exists():
                    raise
        return kept

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _configuration(self) -> Path:
        return self.directory / "server.properties"

    def _java(self) -> list[str]:
        home = os.environ.get("JAVA_HOME") or (Path(sys.prefix) / "java_home").read_text().strip()
        return [
            f"{home}/bin/java",
            f"-Xmx{self.heap}",
            "-Xshare:auto",
            "-XX:+UseSerialGC",
            # The client compiler alone starts sooner and leaves the cores to those who are tested.
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *self.java_options,
            "-cp",
            f"{JARS}/*",
        ]


class _Controller(_Node):
    """Knows which brokers live."""

    name = "kafka-controller"
    heap = "128m"
    session_ms = 0
    # It says there when it takes a broker for dead.
    java_options = (
        "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.controller.ReplicationControlManager=info",
    )

    def settings(self) -> Mapping[str, str]:
        address = f"127.0.0.1:{self.port}"
        return {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "controller.quorum.voters": f"{CONTROLLER_ID}@{address}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{address}",
            "broker.session.timeout.ms": str(self.session_ms),
            "broker.heartbeat.interval.ms": "300",
        }

    def deaths(self) -> int:
        """How often it has taken the broker for dead."""
        return self.log.read_text(errors="replace").count(f"Fencing broker {BROKER_ID} ")


class KafkaBroker(_Node):
    """A broker without authentication on a free port of the loopback address. It is the controller, too: one process starts sooner than two.

    Topics are made by `create_topic` only. What a test needs of the broker beyond that is in `settings`, lines of server.properties. One that is to
    be killed is a MortalBroker.
    """

    name = "kafka"
    # After what time without a sign of life the controller takes it for dead. Until it has noticed its mistake, no topic can be made.
    session_ms = 30_000
    client_settings: Mapping[str, str] = {}  # what a client needs to be let in

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        if not (JARS / ".fetched").exists():
            raise MissingServerError("Kafka is not installed: run tools/install_servers.sh")
        super().__init__()
        self.cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._settings = dict(settings or {})
        self._controller_port = free_port()

    def settings(self) -> Mapping[str, str]:
        """Return the lines of server.properties."""
        return {**self._defaults(), **self._settings}

    @property
    def bootstrap(self) -> str:
        """Where clients find it: a value of `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        """Whether the broker answers a client and has registered with its controller."""
        if not super().is_ready():
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            brokers = AdminClient(self._client()).list_topics(timeout=2).brokers
        except KafkaException:
            return False
        return len(brokers) == 1

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, wait until clients see it, and return its name."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self._client())
        wanted = NewTopic(name, partitions, 1, config=dict(config or {}))
        end = time.monotonic() + TIMEOUT_S
        while True:
            try:
                admin.create_topics([wanted])[name].result(TIMEOUT_S)
                break
            except KafkaException as error:
                # The controller takes the broker for dead, until it hears of it again.
                none_lives = error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
                if not none_lives or time.monotonic() > end:
                    raise
            time.sleep(0.1)
        self._until_visible(admin, name, partitions)
        return name

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have more partitions, and wait until clients see them."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        admin = AdminClient(self._client())
        admin.create_partitions([NewPartitions(name, total)])[name].result(TIMEOUT_S)
        self._until_visible(admin, name, total)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and what is in it, and wait until clients do not see it."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self._client())
        admin.delete_topics([name])[name].result(TIMEOUT_S)
        end = time.monotonic() + TIMEOUT_S
        while name in admin.list_topics(timeout=TIMEOUT_S).topics and time.monotonic() < end:
            time.sleep(0.02)

    @staticmethod
    def _until_visible(admin: object, name: str, partitions: int) -> None:
        end = time.monotonic() + TIMEOUT_S
        while True:
            topic = admin.list_topics(name, timeout=TIMEOUT_S).topics[name]  # type: ignore[attr-defined]
            found = [each for each in topic.partitions.values() if each.leader >= 0]
            if topic.error is None and len(found) == partitions:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"the topic {name} does not appear: {topic.error}")
            time.sleep(0.02)

    def _client(self) -> dict[str, str]:
        # What clients print while a broker is down is not new to those who took it down.
        return {"bootstrap.servers": self.bootstrap, "log_level": "0", **self.client_settings}

    def _controlling(self) -> dict[str, str]:
        """Return which controller it has: itself."""
        return {
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"{BROKER_ID}@127.0.0.1:{self._controller_port}",
            "broker.session.timeout.ms": str(self.session_ms),
        }

    def _listeners(self, protocol: str) -> dict[str, str]:
        """Return where it listens, for clients that speak a protocol and for brokers."""
        client = f"{protocol}://127.0.0.1:{self.port}"
        controller = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        return {
            "listeners": f"{client},{controller}",
            "advertised.listeners": client,
            "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": protocol,
        }

    def _defaults(self) -> dict[str, str]:
        return {
            **self._controlling(),
            **self._listeners("PLAINTEXT"),
            "node.id": str(BROKER_ID),
            "controller.listener.names": "CONTROLLER",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Messages of tests have times of long ago. They would be deleted as too old, half a minute after the start.
            "log.retention.ms": "-1",
            # Data is on disk when the process dies; only a machine that dies would need these.
            "log.flush.interval.messages": str(2**62),
            "num.network.threads": "2",
            "num.io.threads": "4",
            "broker.heartbeat.interval.ms": "300",
            "initial.broker.registration.timeout.ms": "30000",
            "controlled.shutdown.enable": "false",
        }


class MortalBroker(KafkaBroker):
    """A broker that is to be killed.

    Its controller is a process of its own, and lives on. The broker is started again only when the controller has noticed its death, which it does
    soon. One that is back earlier may forget the markers of transactions that it was about to write: it takes their partitions for deleted,
    because it still takes itself for the leader that it was before, which does not answer ("Couldn't find leader endpoint").
    """

    session_ms = 2000

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._controller = _Controller()
        self._controller.cluster = self.cluster
        self._controller.session_ms = self.session_ms
        self._controller_port = self._controller.port
        self._deaths = 0  # that the controller had noticed when the broker ended

    def start(self) -> Self:
        """Start it, and its controller, and wait until it answers."""
        if self._controller.running:
            self._until_taken_for_dead()
            return super().start()
        with ThreadPoolExecutor(1) as beside:  # the broker waits for it, so both can start at once
            controller = beside.submit(self._controller.start)
            super().start()
            controller.result()
        return self

    def _end(self, number: signal.Signals) -> None:
        if self._controller.running:
            self._deaths = self._controller.deaths()
        super()._end(number)

    def _until_taken_for_dead(self) -> None:
        # One that was taken for dead while it lived does not die again, so this ends in any case.
        end = time.monotonic() + self.session_ms / 1000 + 20
        while self._controller.deaths() == self._deaths and time.monotonic() < end:
            time.sleep(0.05)

    def close(self) -> None:
        """Stop it and its controller, and delete their data."""
        super().close()
        self._controller.close()

    def _controlling(self) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{self._controller_port}",
        }

    def _listeners(self, protocol: str) -> dict[str, str]:
        found = super()._listeners(protocol)
        return {**found, "listeners": found["advertised.listeners"]}

"""A broker that talks TLS only, wants a certificate of its clients and has them log in with SCRAM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer
from penstock.errors import PenstockError
from penstock.testing import MiniCluster
from tests.builders.certificates import Authority
from tests.builders.environments import configured
from tests.builders.kafka_jobs import environment, run, source
from tests.builders.modes import PIPELINED, runs_in
from tests.connectors.conftest import serving
from tests.connectors.kafka.sink_jobs import KEYS, Lines, sink, write_lines
from tools.servers.kafka import KafkaBroker

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM = "SCRAM-SHA-256"
LENGTH = 50


class EncryptedBroker(KafkaBroker):
    """Keys are in PEM files. The user's password is in the cluster's metadata, which are formatted with it."""

    def __init__(self) -> None:
        super().__init__()
        self.authority = Authority(self.directory)
        certificate, key = self.authority.sign("broker")
        self._store = self.directory / "broker-store.pem"
        self._store.write_bytes(key.read_bytes() + certificate.read_bytes())
        self.client_certificate, self.client_key = self.authority.sign("client")
        self.client_settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.username": "admin",
            "sasl.password": "secret",
            "ssl.ca.location": str(self.authority.ca),
            "ssl.certificate.location": str(self.client_certificate),
            "ssl.key.location": str(self.client_key),
        }
        self.format_options = ("--add-scram", f"{SCRAM}=[name=admin,password=secret]")

    def settings(self):
        return {
            **super().settings(),
            **self._listeners("SASL_SSL"),
            "sasl.enabled.mechanisms": SCRAM,
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            f"listener.name.sasl_ssl.{SCRAM.lower()}.sasl.jaas.config": (
                f'{LOGIN} required username="admin" password="secret";'
            ),
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca),
        }

    def java_properties(self, **others: str) -> dict[str, str]:
        """What a program for Java's client would set."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.jaas.config": f'{LOGIN} required username="admin" password="secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca),
            "ssl.certificate.location": str(self.client_certificate),
            "ssl.key.location": str(self.client_key),
            **others,
        }


@pytest.fixture(scope="module")
def encrypted() -> Iterator[EncryptedBroker]:
    with serving(EncryptedBroker) as broker:
        yield broker


def write(to):
    options = {"execution.checkpointing.interval": "100 ms", "restart-strategy.type": "none"}
    env = configured({**options, **runs_in(PIPELINED)}, 2)
    write_lines(env, Lines(LENGTH), to)
    with MiniCluster():
        env.execute()


def test_transactions_and_readers_go_through_tls_and_scram(encrypted, tmp_path):
    # One client writes, another one ends its transactions: both have to be let in.
    topic = encrypted.create_topic("encrypted", 2)
    secrets = encrypted.java_properties()
    write(sink(encrypted.bootstrap, topic, properties=secrets))
    builder = source(encrypted, topic).set_properties(
        {**secrets, "isolation.level": "read_committed"}
    )
    with MiniCluster():
        found = run(
            environment("pipelined", tmp_path),
            builder.set_bounded(KafkaOffsetsInitializer.latest()).build(),
            "encrypted",
        )
    assert found == sorted(f"{key}:{number}" for key in KEYS for number in range(LENGTH))


def test_broker_with_untrusted_certificate_is_rejected(encrypted, tmp_path):
    topic = encrypted.create_topic("stranger", 1)
    stranger = Authority(tmp_path, "a stranger")
    secrets = encrypted.java_properties(**{"ssl.truststore.location": str(stranger.ca)})
    with pytest.raises(PenstockError, match="ssl"):
        write(sink(encrypted.bootstrap, topic, properties=secrets))

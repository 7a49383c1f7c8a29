"""A broker with authentication: credentials are passed on, and a rejection is reported at once."""

from __future__ import annotations

import pytest

from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.kafka_jobs import environment, produce, run, source
from tests.connectors.conftest import serving
from tools.servers.kafka import KafkaBroker

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
ADMIN = {**SASL, "sasl.username": "admin", "sasl.password": "secret"}


class GuardedBroker(KafkaBroker):
    """Lets in the users admin, who may do everything, and guest, who may do nothing."""

    client_settings = ADMIN

    def settings(self):
        users = 'user_admin="secret" user_guest="guest"'
        return {
            **super().settings(),
            **self._listeners("SASL_PLAINTEXT"),
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{LOGIN} required username="admin" password="secret" {users};'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        }


@pytest.fixture(scope="module")
def guarded_kafka():
    with serving(GuardedBroker) as broker:
        broker.create_topic("guarded", 2)
        produce(broker, "guarded", ["a", "b"], **ADMIN)
        yield broker


def read(broker, user, password, directory, sink):
    login = {
        **SASL,
        "sasl.jaas.config": f'{LOGIN} required username="{user}" password="{password}";',
    }
    # If a rejection were handled like a broker that is down, the job would wait longer than `run` does.
    builder = source(broker, "guarded", bootstrap_timeout_ms="3600000").set_properties(login)
    env = environment("pipelined", directory, **{"restart-strategy.type": "none"})
    with MiniCluster():
        return run(env, builder.set_bounded(KafkaOffsetsInitializer.latest()).build(), sink)


def test_credentials_of_a_java_program_open_the_way(guarded_kafka, tmp_path):
    assert read(guarded_kafka, "admin", "secret", tmp_path, "let in") == ["a", "b"]


@pytest.mark.parametrize(
    ("user", "password", "message", "hint"),
    [
        ("guest", "wrong", "the broker rejected the credentials", "sasl.jaas.config"),
        (
            "guest",
            "guest",
            "the topic 'guarded' does not exist, or may not be described",
            "DESCRIBE",
        ),
    ],
    ids=["a wrong password", "no rights"],
)
def test_rejected_user_gets_an_error_with_a_hint_at_once(
    guarded_kafka, user, password, message, hint, tmp_path
):
    with pytest.raises(JobExecutionError) as caught:
        read(guarded_kafka, user, password, tmp_path, "refused")
    assert message in str(caught.value)
    assert hint in str(caught.value)
    assert guarded_kafka.bootstrap in str(caught.value)

"""A cluster with authentication: both clients log in, and a denied operation fails at once and is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from penstock.errors import PenstockError
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.modes import PIPELINED, runs_in
from tests.connectors.conftest import serving
from tests.connectors.kafka.sink_jobs import (
    EXACTLY_ONCE,
    TIMEOUT_S,
    DeliveryGuarantee,
    Lines,
    end_offsets,
    sink,
    write_lines,
)
from tools.servers.kafka import KafkaBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class GuardedBroker(KafkaBroker):
    """A broker with users and passwords. Only the administrator may do anything unless it is allowed."""

    def _defaults(self) -> dict[str, str]:
        users = 'user_admin="root" user_writer="secret"'
        login = f'{PLAIN} required username="admin" password="root" {users};'
        return {
            **super()._defaults(),
            **self._listeners("SASL_PLAINTEXT"),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            **AUTHORIZER,
        }

    def _client(self) -> dict[str, str]:
        login = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "root"}
        return {**super()._client(), "security.protocol": "SASL_PLAINTEXT", **login}

    def allow(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        """Let the writer do something to what begins with a name."""
        rule = AclBinding(
            kind,
            name,
            ResourcePatternType.PREFIXED
            if kind != ResourceType.BROKER
            else ResourcePatternType.LITERAL,
            "User:writer",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        admin = AdminClient(self._client())
        admin.create_acls([rule])[rule].result(TIMEOUT_S)


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    with serving(GuardedBroker) as broker:
        yield broker


def properties(password="secret"):
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="writer" password="{password}";',
    }


def run(to):
    options = {"execution.checkpointing.interval": "50 ms", "restart-strategy.type": "none"}
    env = configured({**options, **runs_in(PIPELINED)}, 2)
    write_lines(env, Lines(100, 0.002), to)
    with MiniCluster():
        env.execute()


def test_a_writer_with_the_rights_writes_in_transactions(guarded):
    topic = guarded.create_topic("allowed", 1)
    guarded.allow(ResourceType.TOPIC, "allowed", AclOperation.WRITE)
    guarded.allow(ResourceType.TRANSACTIONAL_ID, "mine", AclOperation.WRITE)
    run(sink(guarded.bootstrap, topic, prefix="mine", properties=properties()))
    partitions = [TopicPartition(topic, 0)]
    ends = end_offsets(guarded.bootstrap, partitions, client=guarded._client())
    committed = end_offsets(guarded.bootstrap, partitions, committed=True, client=guarded._client())
    assert ends[0] > 400  # the records, and a marker for each commit
    assert committed == ends


def test_a_prefix_that_is_not_allowed_is_named(guarded):
    topic = guarded.create_topic("allowed-topic", 1)
    guarded.allow(ResourceType.TOPIC, "allowed", AclOperation.WRITE)
    with pytest.raises(PenstockError, match="transactional ids with the sink's prefix"):
        run(sink(guarded.bootstrap, topic, prefix="others", properties=properties()))


def test_a_topic_that_is_not_allowed_is_named(guarded):
    topic = guarded.create_topic("forbidden", 1)
    with pytest.raises(PenstockError, match="forbidden") as caught:
        run(
            sink(guarded.bootstrap, topic, DeliveryGuarantee.AT_LEAST_ONCE, properties=properties())
        )
    assert "needs Write and Describe on the topic" in str(caught.value)


@pytest.mark.parametrize(
    "guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, EXACTLY_ONCE], ids=lambda each: each.name
)
def test_a_wrong_password_fails_at_once(guarded, guarantee):
    wrong = sink(guarded.bootstrap, "allowed", guarantee, properties=properties("wrong"))
    with pytest.raises(PenstockError, match=r"sasl\.jaas\.config"):
        run(wrong)

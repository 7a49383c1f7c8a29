"""The Java client's properties in the words of librdkafka."""

from __future__ import annotations

import logging

import pytest

from penstock.connectors.kafka.properties import (
    check_configuration,
    check_properties,
    client_configuration,
)
from penstock.errors import ArgumentTypeError, ConfigurationError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"acks": "all", "linger.ms": "5"}, {"acks": "all", "linger.ms": "5"}),
        ({"max.request.size": "2000000"}, {"message.max.bytes": "2000000"}),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
        ({"send.buffer.bytes": "7"}, {"socket.send.buffer.bytes": "7"}),
        ({"key.serializer": "org.x.S", "value.serializer": "org.x.S"}, {}),
        (
            {"sasl.jaas.config": f'{PLAIN} required username="a" password="p;\\"w=1";'},
            {"sasl.username": "a", "sasl.password": 'p;"w=1'},
        ),
        (
            {"sasl.jaas.config": f"{SCRAM} required username=a password='b';"},
            {"sasl.username": "a", "sasl.password": "b"},
        ),
        (
            {"sasl.jaas.config": f'{OAUTH} required clientId="a" clientSecret="b" scope="c";'},
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "a",
                "sasl.oauthbearer.client.secret": "b",
                "sasl.oauthbearer.scope": "c",
            },
        ),
        (
            {"ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "PEM"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.keystore.location": "/me.pem", "ssl.key.password": "x"},
            {
                "ssl.certificate.location": "/me.pem",
                "ssl.key.location": "/me.pem",
                "ssl.key.password": "x",
            },
        ),
        (
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.type": "PKCS12"},
            {"ssl.keystore.location": "/me.p12"},
        ),
        (
            {"ssl.endpoint.identification.algorithm": ""},
            {"ssl.endpoint.identification.algorithm": "none"},
        ),
        ({"statistics.interval.ms": "100"}, {"statistics.interval.ms": "100"}),
    ],
)
def test_a_producers_properties_are_translated(properties, expected):
    assert client_configuration(properties, "producer") == expected


def test_a_consumers_properties_are_translated():
    properties = {"fetch.max.wait.ms": "10", "max.poll.records": "5", "group.id": "g"}
    assert client_configuration(properties, "consumer") == {
        "fetch.wait.max.ms": "10",
        "group.id": "g",
    }


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"sasl.jaas.config": f'{PLAIN} required username="a";'}, "needs password"),
        (
            {"sasl.jaas.config": "com.acme.Login required;"},
            "unsupported login module in sasl.jaas.config: 'Login'",
        ),
        ({"ssl.truststore.location": "/a.jks"}, "Java keystore"),
        ({"ssl.keystore.location": "/a", "ssl.keystore.type": "JKS"}, "Java keystore"),
        ({"buffer.memory": "much"}, "not a number"),
    ],
)
def test_unsupported_property_is_named_in_the_error(properties, message):
    with pytest.raises(ConfigurationError, match=message):
        client_configuration(properties, "producer")


def test_a_class_of_the_users_that_will_not_run_is_warned_about(caplog):
    with caplog.at_level(logging.WARNING):
        client_configuration({"interceptor.classes": "com.acme.Spy"}, "producer")
    assert "interceptor.classes=com.acme.Spy" in caplog.text


@pytest.mark.parametrize("wrong", ["a=b", {"a": None}, {1: "a"}, {"": "a"}])
def test_properties_are_names_and_texts(wrong):
    with pytest.raises(ArgumentTypeError):
        check_properties(wrong, "set_properties")


def test_unknown_property_is_rejected_without_a_broker():
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ConfigurationError, match=r"linger\.mss"):
        check_configuration({"linger.mss": "5"}, "producer", "KafkaSink")
    check_configuration({"linger.ms": "5"}, "producer", "KafkaSink")

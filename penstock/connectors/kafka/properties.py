"""Kafka client properties: translates those of the Java client, as used in Flink programs, to librdkafka's.

Most names are the same. Different names are translated, properties without a meaning here (serializer classes, interceptors)
are dropped, and all others are passed on: librdkafka's own names work too, and it rejects unknown ones.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from penstock.dependencies.extras import optional_module
from penstock.errors import ArgumentTypeError, ConfigurationError

_log = logging.getLogger("penstock.connectors.kafka")

Client = Literal["producer", "consumer"]

# The Java client's name -> librdkafka's, where they differ.
_RENAMED: Final = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_RENAMED_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "producer": {"max.request.size": "message.max.bytes"},
    "consumer": {
        "fetch.max.wait.ms": "fetch.wait.max.ms",
        "request.timeout.ms": "socket.timeout.ms",
    },
}
# Properties of the Java client only: set in another way here, or without a meaning.
_WITHOUT_MEANING: Final = {
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "interceptor.classes",
    "key.deserializer",
    "key.serializer",
    "max.block.ms",
    "max.poll.records",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "reconnect.backoff.jitter",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
    "socket.connection.setup.timeout.max.ms",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.keystore.type",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "value.deserializer",
    "value.serializer",
}
# These name a class of the user, so a warning says that it is not used.
_WORTH_A_WARNING: Final = {
    "interceptor.classes",
    "partitioner.class",
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "ssl.engine.factory.class",
}
_JAAS_OPTION: Final = re.compile(r'([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|([^\s;]+))')


def check_properties(properties: Mapping[Any, Any], what: str) -> dict[str, str]:
    """Return properties as text: names are str, values are str, numbers or booleans.

    >>> check_properties({"linger.ms": 5, "enable.idempotence": True}, "set_properties")
    {'linger.ms': '5', 'enable.idempotence': 'true'}
    """
    if not isinstance(properties, Mapping):
        raise ArgumentTypeError(f"{what} needs a dict of properties, not {properties!r}")
    found = {}
    for name, value in properties.items():
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"{what}: the name of a property must be a str, not {name!r}")
        if isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        else:
            raise ArgumentTypeError(
                f"{what}: the value of '{name}' must be a str, not {type(value).__name__}"
            )
    return found


def client_configuration(properties: Mapping[str, str], client: Client) -> dict[str, Any]:
    """Return librdkafka's configuration of a client with these properties.

    >>> client_configuration({"bootstrap.servers": "a:9092", "max.request.size": "9"}, "producer")
    {'bootstrap.servers': 'a:9092', 'message.max.bytes': '9'}
    """
    names = {**_RENAMED, **_RENAMED_OF[client]}
    found: dict[str, Any] = {}
    for name, value in properties.items():
        special = _SPECIAL.get(name)
        if special is not None:
            found.update(special(value, properties))
        elif name in _WITHOUT_MEANING:
            if name in _WORTH_A_WARNING:
                _log.warning("the property %s=%s has no effect: there is no JVM", name, value)
        else:
            found[names.get(name, name)] = value
    return found


def _jaas(value: str, _: Mapping[str, str]) -> dict[str, str]:
    """Parse a login module's line: `org...PlainLoginModule required username="a" password="b";`."""
    options = {
        match[1]: _unescape(match[2]) if match[2] is not None else match[3] or match[4] or ""
        for match in _JAAS_OPTION.finditer(value)
    }
    module = value.split(None, 1)[0].rpartition(".")[2] if value.strip() else ""
    if module in {"PlainLoginModule", "ScramLoginModule"}:
        missing = [name for name in ("username", "password") if name not in options]
        if missing:
            raise ConfigurationError(
                f"sasl.jaas.config needs {' and '.join(missing)}",
                hint=f'{module} required username="..." password="...";',
            )
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if module == "Krb5LoginModule":
        found = {"sasl.kerberos.keytab": "keyTab", "sasl.kerberos.principal": "principal"}
        return {name: options[option] for name, option in found.items() if option in options}
    if module == "OAuthBearerLoginModule":
        found = {
            "sasl.oauthbearer.client.id": "clientId",
            "sasl.oauthbearer.client.secret": "clientSecret",
            "sasl.oauthbearer.scope": "scope",
        }
        known = {name: options[option] for name, option in found.items() if option in options}
        return {"sasl.oauthbearer.method": "oidc", **known} if known else {}
    raise ConfigurationError(
        f"unsupported login module in sasl.jaas.config: {module or value!r}",
        hint="use PlainLoginModule, ScramLoginModule, Krb5LoginModule or OAuthBearerLoginModule; or set sasl.username and sasl.password",
    )


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _trust_store(value: str, properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get("ssl.truststore.type", "").upper() == "JKS" or value.endswith(".jks"):
        raise _not_readable("ssl.truststore.location", value, "ssl.truststore.type=PEM")
    return {"ssl.ca.location": value}


def _key_store(value: str, properties: Mapping[str, str]) -> dict[str, str]:
    kind = properties.get("ssl.keystore.type", "").upper()
    if kind == "PEM" or (not kind and value.endswith(".pem")):
        return {"ssl.certificate.location": value, "ssl.key.location": value}
    if kind == "JKS" or (not kind and value.endswith(".jks")):
        raise _not_readable("ssl.keystore.location", value, "ssl.keystore.type=PEM or PKCS12")
    return {"ssl.keystore.location": value}


def _not_readable(name: str, value: str, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is a Java keystore, which is not supported: {value}",
        hint=f"use certificates in PEM format ({hint}): keytool -exportcert -rfc, or keytool -importkeystore -deststoretype PKCS12",
    )


def _host_check(value: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": value or "none"}


def _buffer(value: str, _: Mapping[str, str]) -> dict[str, str]:
    try:
        return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}
    except ValueError:
        raise ConfigurationError(f"buffer.memory is not a number of bytes: {value!r}") from None


_SPECIAL: Final[Mapping[str, Callable[[str, Mapping[str, str]], dict[str, str]]]] = {
    "buffer.memory": _buffer,
    "sasl.jaas.config": _jaas,
    "ssl.endpoint.identification.algorithm": _host_check,
    "ssl.keystore.location": _key_store,
    "ssl.truststore.location": _trust_store,
}


def confluent_kafka(needed_by: str) -> Any:
    """Return the module of librdkafka's Python client."""
    return optional_module("confluent_kafka", extra="kafka", needed_by=needed_by)


def check_configuration(configuration: Mapping[str, Any], client: Client, needed_by: str) -> None:
    """Let librdkafka check a configuration, without connecting: an error names the property."""
    library = confluent_kafka(needed_by)
    kind = library.Producer if client == "producer" else library.Consumer
    offline = {**configuration, "bootstrap.servers": "", "log_level": "0"}
    try:
        kind(offline)
    except library.KafkaException as error:
        raise ConfigurationError(
            f"invalid properties of {needed_by}",
            detail=str(error.args[0].str() if error.args else error),
            hint="use names of Kafka's Java client or of librdkafka (its CONFIGURATION.md)",
        ) from None

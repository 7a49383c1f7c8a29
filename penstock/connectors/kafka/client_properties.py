"""Kafka client properties translated for kafka-python, which ends transactions of other processes."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.connectors.kafka.properties import client_configuration
from penstock.dependencies.extras import optional_module
from penstock.errors import ConfigurationError

_PLAIN_OPTIONS = {
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "security.protocol": "security_protocol",
}


def protocol_configuration(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of kafka-python's client.

    >>> protocol_configuration({"bootstrap.servers": "a:9092, b:9092"})["bootstrap_servers"]
    ['a:9092', 'b:9092']
    """
    known = client_configuration(properties, "producer")
    servers = [each.strip() for each in known.get("bootstrap.servers", "").split(",")]
    found: dict[str, Any] = {
        "bootstrap_servers": [each for each in servers if each],
        "bootstrap_timeout_ms": 3_000,
        "request_timeout_ms": 10_000,
        "reconnect_backoff_max_ms": 500,
    }
    for name, option in _PLAIN_OPTIONS.items():
        if name in known:
            found[option] = known[name]
    protocol = found.get("security_protocol", "PLAINTEXT").upper()
    found["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        found["ssl_context"] = _ssl_context(known)
    if protocol.startswith("SASL"):
        found["sasl_mechanism"] = found.get("sasl_mechanism", "GSSAPI").upper()
        if found["sasl_mechanism"] == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = _token_provider(known)
    return found


def _ssl_context(known: Mapping[str, Any]) -> ssl.SSLContext:
    """Create a context from certificates in PEM files or texts."""
    authorities = known.get("ssl.ca.location")
    texts = known.get("ssl.ca.pem")
    context = ssl.create_default_context(cafile=authorities, cadata=texts)
    if known.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if str(known.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    password = known.get("ssl.key.password") or known.get("ssl.keystore.password")
    if "ssl.certificate.location" in known:
        context.load_cert_chain(
            known["ssl.certificate.location"], known.get("ssl.key.location"), password
        )
    elif "ssl.certificate.pem" in known:
        text = f"{known['ssl.certificate.pem']}\n{known.get('ssl.key.pem', '')}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # ssl reads files only
            file.write(text)
            file.flush()
            context.load_cert_chain(file.name, password=password)
    elif "ssl.keystore.location" in known:
        raise ConfigurationError(
            "exactly-once delivery needs the client's certificate as PEM",
            detail=f"ssl.keystore.location is {Path(known['ssl.keystore.location']).name}, a PKCS12 keystore",
            hint="openssl pkcs12 -in client.p12 -out client.pem, then ssl.keystore.type=PEM",
        )
    return context


def _token_provider(known: Mapping[str, Any]) -> object:
    """Return a provider that fetches tokens from librdkafka's token endpoint."""
    oauth = optional_module("kafka.net.sasl.oauth", extra="kafka", needed_by="KafkaSink")
    endpoint: str = known.get("sasl.oauthbearer.token.endpoint.url", "")
    if not endpoint:
        raise ConfigurationError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url",
            hint="set it with clientId and clientSecret in sasl.jaas.config",
        )

    class TokenProvider(oauth.AbstractTokenProvider):  # type: ignore[name-defined,misc]
        def token(self) -> str:
            return _fetch_token(endpoint, known)

    return TokenProvider()


def _fetch_token(endpoint: str, known: Mapping[str, Any]) -> str:
    import base64
    import json
    import urllib.parse
    import urllib.request

    form = {"grant_type": "client_credentials"}
    if "sasl.oauthbearer.scope" in known:
        form["scope"] = known["sasl.oauthbearer.scope"]
    client = f"{known['sasl.oauthbearer.client.id']}:{known['sasl.oauthbearer.client.secret']}"
    request = urllib.request.Request(  # noqa: S310 - the endpoint is the user's own
        endpoint,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {base64.b64encode(client.encode()).decode()}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        token: str = json.load(answer)["access_token"]
    return token

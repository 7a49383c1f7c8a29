"""TLS, for the server and its clients. Files are PEM: a certificate with those that signed it, and its key."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.errors import ConfigurationError

# Where a client finds whom it trusts, and what it shows of itself
CA_VARIABLE = "PENSTOCK_TLS_CA"
CERTIFICATE_VARIABLE = "PENSTOCK_TLS_CERTIFICATE"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What a server shows to clients, and whom it trusts; `trusted` None: it asks clients for no certificate."""

    certificate: str
    password: str | None = None
    trusted: str | None = None

    @staticmethod
    def from_configuration(configuration: Configuration) -> TlsSettings | None:
        """Read Flink's options; None if TLS is not wanted."""
        mutual = configuration.get(options.REST_SSL_AUTHENTICATION)
        if not configuration.get(options.REST_SSL_ENABLED):
            if mutual:
                raise ConfigurationError(
                    f"'{options.REST_SSL_AUTHENTICATION.key}' is set, and TLS is off",
                    hint=f"set {options.REST_SSL_ENABLED.key} to true, too",
                )
            return None
        certificate = configuration.get(options.REST_SSL_KEYSTORE)
        trusted = configuration.get(options.REST_SSL_TRUSTSTORE)
        if certificate is None:
            raise _missing(options.REST_SSL_KEYSTORE.key, "its certificate and key")
        if mutual and trusted is None:
            raise _missing(options.REST_SSL_TRUSTSTORE.key, "whose certificates it trusts")
        return TlsSettings(
            certificate,
            configuration.get(options.REST_SSL_KEY_PASSWORD),
            trusted if mutual else None,
        )

    def context(self) -> ssl.SSLContext:
        """Return what the server speaks TLS with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load(context, self.certificate, self.password)
        if self.trusted is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            _trust(context, self.trusted)
        return context


def client_context(trusted: str | None = None) -> ssl.SSLContext:
    """Return what a client speaks TLS with: it trusts the authorities in a file, else those of the system."""
    context = ssl.create_default_context()
    trusted = os.environ.get(CA_VARIABLE) or trusted
    if trusted:
        # A certificate that nobody else has signed, or of which only itself is given, is enough.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _trust(context, trusted)
    own = os.environ.get(CERTIFICATE_VARIABLE)
    if own:
        _load(context, own, None)
    return context


def _load(context: ssl.SSLContext, path: str, password: str | None) -> None:
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(path, password=password if password is not None else "")
    except (OSError, ssl.SSLError) as error:
        raise _unusable(path, "a certificate with its key", error) from error


def _trust(context: ssl.SSLContext, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(path, "certificates to trust", error) from error


def _unusable(path: str, what: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"'{path}' cannot be read as {what}",
        detail=str(error.strerror or error),
        hint="files are PEM; 'openssl pkcs12 -in FILE -nodes' makes one of a keystore of Java's",
    )


def _missing(option: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"TLS is on, and '{option}' does not say {what}", hint="name a file in PEM"
    )

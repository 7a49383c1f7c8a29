"""TLS, for the server and its clients. Files are PEM: a certificate with those that signed it, and its key."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass

from penstock import options
from penstock.errors import ConfigurationError
from penstock.options.configuration import Configuration

# Environment variables of clients: the certificates to trust, and the client's own certificate
CA_VARIABLE = "PENSTOCK_TLS_CA"
CERTIFICATE_VARIABLE = "PENSTOCK_TLS_CERTIFICATE"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The certificate of a server, and the certificates that it trusts; `trusted` None: no client certificates are required."""

    certificate: str
    password: str | None = None
    trusted: str | None = None

    @staticmethod
    def from_configuration(configuration: Configuration) -> TlsSettings | None:
        """Read Flink's options; None if TLS is disabled."""
        mutual = configuration.get(options.REST_SSL_AUTHENTICATION)
        if not configuration.get(options.REST_SSL_ENABLED):
            if mutual:
                raise ConfigurationError(
                    f"'{options.REST_SSL_AUTHENTICATION.key}' is set, but TLS is disabled",
                    hint=f"also set {options.REST_SSL_ENABLED.key} to true",
                )
            return None
        certificate = configuration.get(options.REST_SSL_KEYSTORE)
        trusted = configuration.get(options.REST_SSL_TRUSTSTORE)
        if certificate is None:
            raise _missing(options.REST_SSL_KEYSTORE.key, "the certificate and key of the server")
        if mutual and trusted is None:
            raise _missing(options.REST_SSL_TRUSTSTORE.key, "the certificates to trust")
        return TlsSettings(
            certificate,
            configuration.get(options.REST_SSL_KEY_PASSWORD),
            trusted if mutual else None,
        )

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load(context, self.certificate, self.password)
        if self.trusted is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            _trust(context, self.trusted)
        return context


def client_context(trusted: str | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client, which trusts the certificates in a file, or those of the system."""
    context = ssl.create_default_context()
    trusted = os.environ.get(CA_VARIABLE) or trusted
    if trusted:
        # Accept a self-signed certificate, or one that is given without its issuers.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _trust(context, trusted)
    own = os.environ.get(CERTIFICATE_VARIABLE)
    if own:
        _load(context, own, None)
    return context


def _load(context: ssl.SSLContext, path: str, password: str | None) -> None:
    try:
        # Without a password OpenSSL would prompt for one in the terminal.
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
        f"cannot read {what} from '{path}'",
        detail=str(error.strerror or error),
        hint="the file must be PEM; 'openssl pkcs12 -in FILE -nodes' converts a Java keystore",
    )


def _missing(option: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"TLS is enabled, but '{option}' is not set", hint=f"set it to a PEM file with {what}"
    )

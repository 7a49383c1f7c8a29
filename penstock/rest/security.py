"""Who may ask for what: tokens, client certificates, names of this server."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.rest import tokens
from penstock.rest.messages import HttpError
from penstock.rest.processes import is_loopback
from penstock.rest.routes import Role
from penstock.rest.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """What options say about who may ask for what."""

    tls: TlsSettings | None = None
    token_file: str | None = None
    read_token_file: str | None = None
    writers: frozenset[str] | None = None
    audit_file: str | None = None

    @staticmethod
    def from_configuration(configuration: Configuration) -> SecuritySettings:
        """Read the options."""
        writers = configuration.get(options.REST_WRITERS)
        names = None if writers is None else (name.strip() for name in writers.split(","))
        return SecuritySettings(
            tls=TlsSettings.from_configuration(configuration),
            token_file=configuration.get(options.REST_TOKEN_FILE),
            read_token_file=configuration.get(options.REST_READ_TOKEN_FILE),
            writers=None if names is None else frozenset(name for name in names if name),
            audit_file=configuration.get(options.REST_AUDIT_FILE),
        )

    def access(self, token: str, *, open_to_readers: bool, names: Collection[str]) -> Access:
        """Return who may ask for what of a server with this token, unless a file has another one.

        Who must show a certificate is never let in without one, also not from this machine.
        """
        mutual = self.tls is not None and self.tls.trusted is not None
        return Access(
            token if self.token_file is None else tokens.read_or_create(self.token_file),
            None if self.read_token_file is None else tokens.read_or_create(self.read_token_file),
            open_to_readers=open_to_readers and not mutual,
            names=names,
            writers=self.writers,
        )


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: its role, and its name in the audit."""

    role: Role
    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """Decides the role of clients.

    A token, or a certificate that the server has checked, says it; without either a client may read where only this machine
    can connect. Such a server answers those only under its own names, so that a web page cannot reach it by a name that it
    makes point here.
    """

    write_token: str
    read_token: str | None = None
    open_to_readers: bool = True  # on loopback
    names: Collection[str] = ("localhost",)
    # The common names of the certificates that may write; None: all that the server's authorities have signed.
    writers: Collection[str] | None = None

    def admit(self, headers: Mapping[str, str], peer: str | None, needs: Role) -> Client:
        """Return the client of a request with these headers; raise an HttpError if it may not ask.

        `peer` is the common name in the certificate that the client has shown.
        """
        client = self._known(headers.get("authorization", ""), peer)
        if client is None:
            client = self._unknown(headers.get("host"), needs)
        if client.role < needs:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"{client.name} may only read",
                "hint: changes need a token or certificate with the role write",
            )
        return client

    def _known(self, authorization: str, peer: str | None) -> Client | None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return self._bearer(token.strip())
        if peer is None:
            return None
        writes = self.writers is None or peer in self.writers
        return Client(Role.WRITE if writes else Role.READ, f"certificate '{peer}'")

    def _bearer(self, token: str) -> Client:
        given = token.encode("utf-8", "surrogateescape")
        if hmac.compare_digest(given, self.write_token.encode()):
            return Client(Role.WRITE, "the write token")
        if self.read_token is not None and hmac.compare_digest(given, self.read_token.encode()):
            return Client(Role.READ, "the read token")
        raise _unauthorized("the token is wrong")

    def _unknown(self, host: str | None, needs: Role) -> Client:
        allowed = Role.READ if self.open_to_readers else Role.OPEN
        if needs > allowed:
            raise _unauthorized("the request needs a token")
        if self.open_to_readers:
            self._check_name(host)
        return Client(allowed, "nobody")

    def _check_name(self, host: str | None) -> None:
        try:
            name = urlsplit(f"//{host or ''}").hostname or "localhost"
        except ValueError:
            name = str(host)
        if name not in self.names and not is_loopback(name):
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"this server is not called '{name}'",
                "hint: set rest.address to the name that clients use",
            )


def _unauthorized(reason: str) -> HttpError:
    return HttpError(
        HTTPStatus.UNAUTHORIZED,
        reason,
        "hint: send the header 'Authorization: Bearer <token>'",
        headers={"WWW-Authenticate": "Bearer"},
    )

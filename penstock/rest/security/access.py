"""Access control: tokens, client certificates, host names of this server."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from penstock import options
from penstock.options.configuration import Configuration
from penstock.rest.messages import HttpError
from penstock.rest.processes import is_loopback
from penstock.rest.routing.routes import Role
from penstock.rest.security import tokens
from penstock.rest.security.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The security options."""

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
        """Return the access rules of a server with this token, unless a token file is configured.

        If client certificates are required, no client is admitted without one, not even from this machine.
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
class Principal:
    """A client: its role, and its name in the audit log."""

    role: Role
    name: str


class InsufficientRoleError(HttpError):
    """A known client may not do what it asks for."""

    def __init__(self, client: Principal) -> None:
        super().__init__(
            HTTPStatus.FORBIDDEN,
            f"{client.name} may only read",
            "hint: changes need a token or certificate with the write role",
        )
        self.client = client


@dataclass(frozen=True, slots=True)
class Access:
    """Decides the role of clients.

    The role comes from a token or from a certificate that the server has verified. Without either a client may read if the server
    listens on loopback only. Such a server checks the Host header, so that a web page cannot reach it through a name that resolves
    to loopback (DNS rebinding).
    """

    write_token: str
    read_token: str | None = None
    open_to_readers: bool = True  # on loopback
    names: Collection[str] = ("localhost",)
    # The common names of the certificates with the write role; None: all certificates that the server trusts.
    writers: Collection[str] | None = None

    def admit(self, headers: Mapping[str, str], peer: str | None, needs: Role) -> Principal:
        """Return the client of a request with these headers; raise an HttpError if its role is too low.

        `peer` is the common name in the client's certificate.
        """
        client = self._known(headers.get("authorization", ""), peer)
        if client is None:
            client = self._unknown(headers.get("host"), needs)
        if client.role < needs:
            raise InsufficientRoleError(client)
        return client

    def _known(self, authorization: str, peer: str | None) -> Principal | None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return self._bearer(token.strip())
        if peer is None:
            return None
        writes = self.writers is None or peer in self.writers
        return Principal(Role.WRITE if writes else Role.READ, f"certificate '{peer}'")

    def _bearer(self, token: str) -> Principal:
        given = token.encode("utf-8", "surrogateescape")
        if hmac.compare_digest(given, self.write_token.encode()):
            return Principal(Role.WRITE, "the write token")
        if self.read_token is not None and hmac.compare_digest(given, self.read_token.encode()):
            return Principal(Role.READ, "the read token")
        raise _unauthorized("invalid token")

    def _unknown(self, host: str | None, needs: Role) -> Principal:
        allowed = Role.READ if self.open_to_readers else Role.OPEN
        if needs > allowed:
            raise _unauthorized("the request needs a token")
        if self.open_to_readers:
            self._check_name(host)
        return Principal(allowed, "anonymous")

    def _check_name(self, host: str | None) -> None:
        try:
            name = urlsplit(f"//{host or ''}").hostname or "localhost"
        except ValueError:
            name = str(host)
        if name not in self.names and not is_loopback(name):
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"unknown host name '{name}'",
                "hint: set rest.address to the name that clients use",
            )


def _unauthorized(reason: str) -> HttpError:
    return HttpError(
        HTTPStatus.UNAUTHORIZED,
        reason,
        "hint: send the header 'Authorization: Bearer <token>'",
        headers={"WWW-Authenticate": "Bearer"},
    )

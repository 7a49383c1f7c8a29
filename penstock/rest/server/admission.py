"""Admission of requests: the client's role, and its turn, before the body is read."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from starlette.requests import Request as IncomingRequest

from penstock.rest.messages import HttpError
from penstock.rest.routing.routes import Role
from penstock.rest.security.access import Access, InsufficientRoleError, Principal
from penstock.rest.server.throttling import RequestThrottle

# Keys in the state of requests
PEER: Final = "peer"  # the common name in the client's certificate, set by the connection
CLIENT: Final = "client"  # who was admitted, or is known but may not do this; unset if unknown
WRITES: Final = "writes"  # whether the route needs the write role
_VERSIONS: Final = {"1.0", "1.1"}


class Admission:
    """Admits clients with the role that a route needs, at the rate that the throttle allows."""

    def __init__(self, access: Access, throttle: RequestThrottle) -> None:
        self._access = access
        self._throttle = throttle

    async def admit(self, incoming: IncomingRequest, needs: Role) -> Principal:
        """Return the client of a request, when it is its turn; an error if its role is too low."""
        version = incoming.scope["http_version"]
        if version not in _VERSIONS:
            raise closing(
                HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{version} is not supported")
            )
        state = incoming.scope["state"]
        try:
            client = self._access.admit(dict(incoming.headers), state.get(PEER), needs)
            state[CLIENT] = client
        except HttpError as error:
            if isinstance(error, InsufficientRoleError):  # the audit log names who tried
                state[CLIENT] = error.client
            await self._throttle.pass_through()
            raise closing(error) from None
        if needs < Role.WRITE:  # write requests are not throttled by read requests
            await self._throttle.pass_through()
        return client


def closing(error: HttpError) -> HttpError:
    """Return an error that closes the connection, because a body that may follow is not read."""
    error.headers["Connection"] = "close"
    return error

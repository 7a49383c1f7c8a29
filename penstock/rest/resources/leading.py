"""Whether this process is the leader, for load balancers and Kubernetes probes."""

from __future__ import annotations

from http import HTTPStatus

from msgspec import Struct

from penstock.rest.messages import Request, Response
from penstock.rest.routing.routes import Role, Route, Services


class Leading(Struct, frozen=True):
    """Whether this process is the leader."""

    leading: bool


def leading(services: Services, _request: Request) -> Response:
    """Respond with 200 on the leader, and with 503 on a standby."""
    leads = services.elsewhere() is None
    status = HTTPStatus.OK if leads else HTTPStatus.SERVICE_UNAVAILABLE
    return Response(Leading(leads), status)


ROUTES = (
    Route(
        "GET",
        "/penstock/leading",
        leading,
        "whether this process is the leader: status 200, or 503 on a standby",
        role=Role.OPEN,
        response=Leading,
        answered_by_standbys=True,
    ),
)

"""Whether this process leads, for whoever sends clients to one that does: a load balancer, a probe of Kubernetes."""

from __future__ import annotations

from http import HTTPStatus

from penstock.rest.messages import Request, Response
from penstock.rest.routes import Role, Route, Services


def leading(services: Services, _request: Request) -> Response:
    """Answer with 200 where jobs are, and with 503 on a standby."""
    leads = services.elsewhere() is None
    status = HTTPStatus.OK if leads else HTTPStatus.SERVICE_UNAVAILABLE
    return Response({"leading": leads}, status)


_RESPONSE = {
    "type": "object",
    "properties": {"leading": {"type": "boolean"}},
    "required": ["leading"],
}

ROUTES = (
    Route(
        "GET",
        "/penstock/leading",
        leading,
        "whether this process leads: status 200 if it does, 503 if it is a standby",
        role=Role.OPEN,
        response=_RESPONSE,
        answered_by_standbys=True,
    ),
)

"""`/penstock/leader`: which of several JobManagers leads, and where the others are."""

from __future__ import annotations

from http import HTTPStatus

from penstock.rest.client import parse_address
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routes import Role, Route, Services
from penstock.rest.schemas import ANY_OBJECT, TEXT, fields


def _leader(services: Services, _request: Request) -> Response:
    return Response({"leader": services.elsewhere(), "standbys": services.peers.addresses()})


def _heartbeat(services: Services, request: Request) -> Response:
    address = request.query.get("address")
    if address is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the parameter 'address' is missing")
    parse_address(address)
    services.peers.note(address)
    return Response({})


_ADDRESSES = {"type": "array", "items": TEXT}

ROUTES = (
    Route(
        "GET",
        "/penstock/leader",
        _leader,
        "who leads: `leader` is null if this process does, empty if nobody is known; and the standbys that it knows",
        response=fields({"leader": {"type": ["string", "null"]}, "standbys": _ADDRESSES}),
        answered_by_standbys=True,
    ),
    # Pages go to the addresses that they are told, with their token: so only who has it may tell one. It is not a POST because
    # the audit is for what people change.
    Route(
        "GET",
        "/penstock/heartbeat",
        _heartbeat,
        "a standby says where it is: `?address=host:port`",
        role=Role.WRITE,
        query={"address": TEXT},
        response=ANY_OBJECT,
    ),
)

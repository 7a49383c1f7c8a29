"""`/penstock/leader`: the leader among several JobManagers, and the addresses of the standbys."""

from __future__ import annotations

from http import HTTPStatus

from msgspec import Struct

from penstock.rest.client.rest_client import parse_address
from penstock.rest.flink_json.parts import Empty
from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Role, Route, Services


class Leader(Struct, frozen=True):
    """The leader's address, null if it is this process, empty if unknown; and the known standbys."""

    leader: str | None
    standbys: list[str]


def _leader(services: Services, _request: Request) -> Response:
    return Response(Leader(services.elsewhere(), services.peers.addresses()))


def _heartbeat(services: Services, request: Request) -> Response:
    address = request.query.get("address")
    if address is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "missing parameter 'address'")
    parse_address(address)
    services.peers.note(address)
    return Response(Empty())


ROUTES = (
    Route(
        "GET",
        "/penstock/leader",
        _leader,
        "the leader: `leader` is null if it is this process, empty if unknown; and the known standbys",
        response=Leader,
        answered_by_standbys=True,
    ),
    # Pages send their token to these addresses, so adding one requires the token. It is not a POST because the audit log is for
    # changes by users.
    Route(
        "GET",
        "/penstock/heartbeat",
        _heartbeat,
        "heartbeat of a standby: `?address=host:port`",
        role=Role.WRITE,
        query={"address": str},
        response=Empty,
    ),
)

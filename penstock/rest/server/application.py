"""The ASGI application of a server: starlette with the routes of the API, its middleware and its error responses."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request as IncomingRequest
from starlette.responses import Response as OutgoingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.rest.messages import HttpError, error_response
from penstock.rest.routing.router import ApiRoute, in_order, no_route, routed_path
from penstock.rest.routing.routes import Role, Route, Services
from penstock.rest.security.access import Access
from penstock.rest.security.audit import Audit
from penstock.rest.server.admission import WRITES, Admission, closing
from penstock.rest.server.handling import RequestHandling, raw_path
from penstock.rest.server.in_flight_requests import InFlightRequests
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.middleware import AuditMiddleware, DeliveryMiddleware
from penstock.rest.server.responses import outgoing
from penstock.rest.server.throttling import RequestThrottle


def create_application(
    services: Services,
    access: Access,
    routes: Iterable[Route],
    limits: RequestLimits,
    in_flight_requests: InFlightRequests,
    audit: Audit,
    *,
    throttle: RequestThrottle | None = None,
) -> Starlette:
    """Return the application of a server."""
    throttle = throttle or RequestThrottle(limits)
    admission = Admission(access, throttle)
    handling = RequestHandling(services, limits, throttle)

    def served(route: Route) -> ApiRoute:
        async def respond(incoming: IncomingRequest) -> OutgoingResponse:
            incoming.scope["state"][WRITES] = route.needs is Role.WRITE
            client = await admission.admit(incoming, route.needs)
            return await handling.respond(incoming, route, client)

        return ApiRoute(route, respond)

    known = [served(route) for route in in_order(routes)]
    application = Starlette(
        routes=known,
        middleware=[
            Middleware(
                DeliveryMiddleware,
                limits=limits,
                in_flight_requests=in_flight_requests,
                throttle=throttle,
            ),
            Middleware(AuditMiddleware, audit=audit),
            Middleware(RoutedPathMiddleware),
        ],
        exception_handlers={HttpError: _refuse},  # type: ignore[dict-item]
    )
    application.router.redirect_slashes = False

    async def refuse_unrouted(scope: Scope, receive: Receive, _send: Send) -> None:
        incoming = IncomingRequest(scope, receive)
        await admission.admit(incoming, Role.READ)
        method = "GET" if incoming.method == "HEAD" else incoming.method
        raise closing(no_route(known, method, raw_path(scope)))

    application.router.default = refuse_unrouted
    return application


class RoutedPathMiddleware:
    """Sets the path that routes are matched with."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its routed path."""
        if scope["type"] == "http":
            scope = {**scope, "path": routed_path(raw_path(scope))}
        await self._app(scope, receive, send)


async def _refuse(_incoming: IncomingRequest, error: HttpError) -> OutgoingResponse:
    return outgoing(error_response(error))

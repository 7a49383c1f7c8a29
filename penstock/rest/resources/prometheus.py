"""`/metrics`: all metrics, for Prometheus."""

from __future__ import annotations

from penstock.rest.messages import Request, Response
from penstock.rest.reporters.starting import gather
from penstock.rest.routing.routes import Route, Services


def _metrics(services: Services, request: Request) -> Response:
    from penstock.rest.reporters.prometheus import expose

    content, media_type = expose(gather(services), request.headers.get("accept", ""))
    return Response(content, media_type=media_type)


ROUTES = (
    Route(
        "GET",
        "/metrics",
        _metrics,
        "metrics of all jobs for Prometheus, with the names and labels of Flink's reporter",
        media_type="text/plain",
    ),
)

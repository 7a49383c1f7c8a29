"""`/`: the web page. Its files contain no data, so they need no token, and standbys serve them too."""

from __future__ import annotations

from http import HTTPStatus

from penstock.rest.messages import HttpError, Request, Response
from penstock.rest.routing.routes import Role, Route, Services
from penstock.web import assets


def _index(_services: Services, request: Request) -> Response:
    return _send("index.html", request)


def _file(_services: Services, request: Request) -> Response:
    return _send(request.parameters["file"], request)


def _send(name: str, request: Request) -> Response:
    asset = assets.find(name)
    if asset is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"unknown file '{name}' of the web page")
    headers = {
        "ETag": asset.tag,
        "Cache-Control": "no-cache",  # browsers may cache it, but revalidate it by its ETag
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": assets.content_security_policy(),
        "Referrer-Policy": "no-referrer",
    }
    if request.headers.get("if-none-match") == asset.tag:
        return Response(b"", HTTPStatus.NOT_MODIFIED, headers, media_type=asset.media_type)
    return Response(asset.content, headers=headers, media_type=asset.media_type)


ROUTES = (
    Route(
        "GET",
        "/",
        _index,
        "the web page",
        role=Role.OPEN,
        media_type="text/html",
        answered_by_standbys=True,
    ),
    Route(
        "GET",
        "/web/*file",
        _file,
        "a file of the web page",
        role=Role.OPEN,
        media_type="application/octet-stream",
        answered_by_standbys=True,
    ),
)

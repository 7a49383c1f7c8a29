"""starlette's router of the routes: paths with and without their version, and refusals of what no route matches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as IncomingRequest
from starlette.responses import Response as OutgoingResponse
from starlette.routing import Match
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from penstock.rest.messages import VERSION, HttpError
from penstock.rest.routing.routes import Route

_SEGMENT: Final = "segment"
_SEGMENTS: Final = "segments"


class _Segment(Convertor[str]):
    """A part of a path, which is percent-encoded until it is matched: an encoded slash does not separate parts."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the text of the part."""
        return unquote(value)

    def to_string(self, value: str) -> str:
        """Return the part as it stands in paths."""
        return quote(value, safe="")


class _Segments(_Segment):
    """The rest of a path, with the slash before it; there may be none."""

    regex = "(?:/.*)?"

    def convert(self, value: str) -> str:
        """Return the text of the rest."""
        return unquote(value[1:])


register_url_convertor(_SEGMENT, _Segment())
register_url_convertor(_SEGMENTS, _Segments())


Endpoint = Callable[[IncomingRequest], Awaitable[OutgoingResponse]]


async def _not_served(_incoming: IncomingRequest) -> OutgoingResponse:
    raise NotImplementedError("these routes are only looked up")


class ApiRoute(StarletteRoute):
    """A route in starlette's router. It matches only with its method, because another route may have the path and that method."""

    def __init__(self, described: Route, endpoint: Endpoint = _not_served) -> None:
        super().__init__(_pattern(described), endpoint, methods=[described.method])
        self.described = described

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path and the method."""
        match, found = super().matches(scope)
        return (match, found) if match is Match.FULL else (Match.NONE, {})


def _pattern(route: Route) -> str:
    pattern = ""
    for part in route.segments:
        if part.startswith("*"):
            pattern += f"{{{part[1:]}:{_SEGMENTS}}}"
        elif part.startswith(":"):
            pattern += f"/{{{part[1:]}:{_SEGMENT}}}"
        else:
            pattern += f"/{part}"
    return pattern


def in_order(routes: Iterable[Route]) -> list[Route]:
    """Return the routes in the order in which they are tried: those with more literal parts from the left come first."""
    return sorted(routes, key=_specificity)


def _specificity(route: Route) -> list[int]:
    return [{":": 1, "*": 2}.get(part[:1], 0) for part in route.segments]


def routed_path(path: str) -> str:
    """Return a path as routes match it, from the one in the request: without its version, in one way of encoding.

    >>> routed_path("/v1/jobs/%61%2fb/")
    '/jobs/a%2Fb'
    """
    if path == VERSION or path.startswith(f"{VERSION}/"):
        path = path.removeprefix(VERSION)
    return "/" + "/".join(quote(unquote(part), safe="") for part in path.strip("/").split("/"))


def find_route(
    routes: Iterable[ApiRoute], method: str, path: str
) -> tuple[Route, Mapping[str, str]]:
    """Return the route of a path as it was sent, and its parameters; an error if there is none."""
    known = list(routes)
    scope: Scope = {"type": "http", "method": method, "path": routed_path(path)}
    for each in known:
        match, found = each.matches(scope)
        if match is Match.FULL:
            return each.described, found["path_params"]
    raise no_route(known, method, path)


def no_route(routes: Iterable[ApiRoute], method: str, path: str) -> HttpError:
    """Return the error for a request that no route matches: 405 if it is because of the method, else 404."""
    routed = routed_path(path)
    allowed = {each.described.method for each in routes if each.path_regex.match(routed)}
    if not allowed:
        return HttpError(HTTPStatus.NOT_FOUND, f"unknown path {path}")
    methods = ", ".join(sorted(allowed))
    return HttpError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        f"{method} is not allowed for {path}, only {methods}",
        headers={"Allow": methods},
    )

"""Calls of handlers without HTTP."""

from __future__ import annotations

import json

import msgspec

from penstock.rest.messages import Request
from penstock.rest.resources import ROUTES
from penstock.rest.routing.router import ApiRoute, find_route, in_order
from penstock.rest.routing.routes import call

_ROUTES = [ApiRoute(route) for route in in_order(ROUTES)]


def get(services, path, query):
    """Return the content of a GET, as a client gets it."""
    route, parameters = find_route(_ROUTES, "GET", path)
    response = call(route, services, Request("GET", path, query, parameters=parameters))
    return json.loads(msgspec.json.encode(response.content, enc_hook=str))

"""`/openapi.json`: the description of the API."""

from __future__ import annotations

import functools
from typing import Any

from penstock.rest.messages import Request, Response
from penstock.rest.routing.openapi import document
from penstock.rest.routing.routes import Route, Services


@functools.cache
def _document() -> dict[str, Any]:
    from penstock.rest.resources import ROUTES  # it imports this module

    return document(ROUTES)


def _openapi(_services: Services, _request: Request) -> Response:
    return Response(_document())


ROUTES = (
    Route(
        "GET",
        "/openapi.json",
        _openapi,
        "this description, as an OpenAPI document",
        response=dict[str, Any],
        answered_by_standbys=True,
    ),
)

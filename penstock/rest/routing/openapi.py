"""The OpenAPI document of the API, generated from the route table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import penstock
from penstock.rest.messages import VERSION
from penstock.rest.routing.routes import Role, Route
from penstock.rest.routing.schemas import (
    ID,
    INDEX,
    TEXT,
    Schema,
    array,
    fields,
)

_PATH_PARAMETERS: Final[dict[str, Schema]] = {
    "jobid": ID,
    "triggerid": ID,
    "subtaskindex": INDEX,
    "attempt": INDEX,
    "checkpointid": INDEX,
}
_REF: Final = "$ref"
_BEARER: Final = "token"
_CERTIFICATE: Final = "certificate"


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if "*" not in route.path:  # the files of the web page are not part of the API
            paths.setdefault(_template(route), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": penstock.__version__,
            "description": "Paths and JSON are those of Apache Flink's REST API; extensions are below /penstock or in "
            "fields of that name. All paths also work without the version.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": VERSION}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {"Errors": fields({"errors": array(TEXT)})},
            "responses": {
                "Error": {
                    "description": "the error, usually with a hint",
                    "content": {
                        "application/json": {"schema": {_REF: "#/components/schemas/Errors"}}
                    },
                },
            },
            "securitySchemes": {
                _BEARER: {"type": "http", "scheme": "bearer"},
                _CERTIFICATE: {"type": "mutualTLS"},
            },
        },
    }


def _template(route: Route) -> str:
    return "/" + "/".join(
        f"{{{part[1:]}}}" if part.startswith(":") else part for part in route.segments if part
    )


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [next((part for part in route.segments if part), "page")],
        "security": _security(route),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route),
    }
    if route.takes_bytes:
        operation["requestBody"] = {"required": True, "content": {"*/*": {}}}
    elif route.body is not None:
        content = {"application/json": {"schema": dict(route.body)}}
        operation["requestBody"] = {
            "required": bool(route.body.get("required")),
            "content": content,
        }
    return operation


def _operation_id(route: Route) -> str:
    parts = [part.strip(":").replace("-", "_") for part in route.segments if part]
    return "_".join([route.method.lower(), *parts])


def _security(route: Route) -> list[dict[str, list[str]]]:
    """Return the security requirements: on loopback, reading needs none."""
    known: list[dict[str, list[str]]] = [{_BEARER: []}, {_CERTIFICATE: []}]
    return known if route.needs is Role.WRITE else [*known, {}]


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    names = [part[1:] for part in route.segments if part.startswith(":")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": dict(_PATH_PARAMETERS.get(name, {"type": "string", "minLength": 1})),
        }
        for name in names
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "schema": dict(schema)}
        for name, schema in route.query.items()
    ]


def _responses(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {route.media_type: {"schema": dict(route.response or {})}}
    done = {"description": route.summary, "content": content}
    # Asynchronous operations are accepted, and polled for their result.
    success = {"200": done} if route.method == "GET" else {"200": done, "202": done}
    refused = {_REF: "#/components/responses/Error"}
    return {**success, "3XX": refused, "4XX": refused, "501": refused, "503": refused}

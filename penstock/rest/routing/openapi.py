"""The OpenAPI document of the API, generated from the routes and the types of their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

import penstock
from penstock.rest.flink_json.parts import Id, Index
from penstock.rest.messages import VERSION, Errors
from penstock.rest.routing.routes import Role, Route

Schema = Mapping[str, Any]

_PATH_PARAMETERS: Final[dict[str, object]] = {
    "jobid": Id,
    "triggerid": Id,
    "subtaskindex": Index,
    "attempt": Index,
    "checkpointid": Index,
}
_SEGMENT: Final = {"type": "string", "minLength": 1}
_REF: Final = "$ref"
_BEARER: Final = "token"
_CERTIFICATE: Final = "certificate"


class _Schemas:
    """The schemas of all types that the routes name."""

    def __init__(self, types: Iterable[object]) -> None:
        known = list(types)
        found, self.components = msgspec.json.schema_components(
            known, ref_template="#/components/schemas/{name}"
        )
        self._by_type = list(zip(known, found, strict=True))
        for component in self.components.values():
            _require_fields_with_defaults(component)

    def __getitem__(self, wanted: object) -> Schema:
        return next(schema for known, schema in self._by_type if known is wanted)


def _require_fields_with_defaults(component: dict[str, Any]) -> None:
    """Require the fields of an answer that have defaults: answers always have them. A request may leave them out."""
    properties = component.get("properties")
    if properties and component.get("additionalProperties") is not False:
        required = set(component.get("required", ()))
        component["required"] = [
            name for name, schema in properties.items() if name in required or "default" in schema
        ]


def _types(routes: Iterable[Route]) -> Iterable[object]:
    yield Errors
    yield from _PATH_PARAMETERS.values()
    for route in routes:
        yield from route.query.values()
        yield from (each for each in (route.body, route.response) if each is not None)


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document."""
    # The files of the web page are not part of the API.
    described = [route for route in routes if "*" not in route.path]
    schemas = _Schemas(_types(described))
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        paths.setdefault(_template(route), {})[route.method.lower()] = _operation(route, schemas)
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
            "schemas": dict(sorted(schemas.components.items())),
            "responses": {
                "Error": {
                    "description": "the error, usually with a hint",
                    "content": {"application/json": {"schema": schemas[Errors]}},
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


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [next((part for part in route.segments if part), "page")],
        "security": _security(route),
        "parameters": [*_path_parameters(route, schemas), *_query_parameters(route, schemas)],
        "responses": _responses(route, schemas),
    }
    if route.takes_bytes:
        operation["requestBody"] = {"required": True, "content": {"*/*": {}}}
    elif route.body is not None:
        content = {"application/json": {"schema": schemas[route.body]}}
        operation["requestBody"] = {"required": _is_required(route.body), "content": content}
    return operation


def _is_required(body: object) -> bool:
    """Whether a body has fields that must be there."""
    if not isinstance(body, type) or not issubclass(body, msgspec.Struct):
        return False
    return any(field.required for field in msgspec.structs.fields(body))


def _operation_id(route: Route) -> str:
    parts = [part.strip(":").replace("-", "_") for part in route.segments if part]
    return "_".join([route.method.lower(), *parts])


def _security(route: Route) -> list[dict[str, list[str]]]:
    """Return the security requirements: on loopback, reading needs none."""
    known: list[dict[str, list[str]]] = [{_BEARER: []}, {_CERTIFICATE: []}]
    return known if route.needs is Role.WRITE else [*known, {}]


def _path_parameters(route: Route, schemas: _Schemas) -> list[dict[str, Any]]:
    names = [part[1:] for part in route.segments if part.startswith(":")]
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schemas[_PATH_PARAMETERS[name]] if name in _PATH_PARAMETERS else _SEGMENT,
        }
        for name in names
    ]


def _query_parameters(route: Route, schemas: _Schemas) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "required": False, "schema": schemas[wanted]}
        for name, wanted in route.query.items()
    ]


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {
        route.media_type: {"schema": {} if route.response is None else schemas[route.response]}
    }
    done = {"description": route.summary, "content": content}
    # Asynchronous operations are accepted, and polled for their result.
    success = {"200": done} if route.method == "GET" else {"200": done, "202": done}
    refused = {_REF: "#/components/responses/Error"}
    return {**success, "3XX": refused, "4XX": refused, "501": refused, "503": refused}

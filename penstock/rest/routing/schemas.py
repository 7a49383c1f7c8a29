"""Short constructors of JSON Schema for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
ANY_OBJECT: Final[Schema] = {"type": "object"}
ID: Final[Schema] = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
INDEX: Final[Schema] = {"type": "integer", "minimum": 0}


def nullable(schema: Schema) -> Schema:
    """Return a schema that also accepts null."""
    return {"anyOf": [schema, {"type": "null"}]}


def choice(*values: str) -> Schema:
    """Return the schema of an enum of strings."""
    return {"type": "string", "enum": list(values)}


def array(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Return the schema of an object with arbitrary keys."""
    return {"type": "object", "additionalProperties": values}


def fields(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """Return the schema of an object in a response, which may have additional fields."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def body(optional: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """Return the schema of a request body, which must not have other fields."""
    return {
        "type": "object",
        "properties": dict(optional),
        "required": list(required),
        "additionalProperties": False,
    }


TRIGGER_ID: Final = fields({"request-id": ID})
_STATUS: Final = fields({"id": choice("IN_PROGRESS", "COMPLETED")})


def operation(result: Mapping[str, Schema]) -> Schema:
    """Return the schema of the status of an operation whose result has these fields."""
    failure = fields({"class": TEXT, "message": TEXT, "stack-trace": TEXT})
    outcome = fields({}, {**result, "failure-cause": failure})
    return fields({"status": _STATUS}, {"operation": nullable(outcome)})


TIMES: Final[Mapping[str, Schema]] = {
    "start-time": INTEGER,
    "end-time": INTEGER,
    "duration": INTEGER,
}

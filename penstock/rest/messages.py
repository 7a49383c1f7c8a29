"""Requests and responses as handlers see them: JSON in, JSON out, errors with a status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigurationError,
    InvalidProgramError,
    PenstockError,
    UnsupportedOperationError,
)

VERSION = "/v1"  # of the paths


class HttpError(Exception):
    """Ends a request with a status and texts for `{"errors": [...]}`."""

    def __init__(
        self, status: HTTPStatus, *errors: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(*errors)
        self.status = status
        self.errors = errors
        self.headers = dict(headers or {})


class Errors(Struct, frozen=True):
    """An error, usually with a hint."""

    errors: list[str]


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `parameters` are the parts of the path that its route names.

    `headers` have names in lower case; `raw` is the body of a route that takes bytes; `who` is the client's name in the audit log.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    who: str = ""

    def refuse_unknown_fields(self, body: type[Struct]) -> None:
        """Reject a body with a field that its type does not have: it may be misspelt."""
        known = body.__struct_encode_fields__
        unknown = sorted(set(self.body) - set(known))
        if unknown:
            hints = (f"hint: known fields are {', '.join(known)}",) if known else ()
            raise HttpError(HTTPStatus.BAD_REQUEST, f"unknown field '{unknown[0]}'", *hints)

    def text(self, *names: str) -> str | None:
        """Return the first of these fields that the body has, which must be a string."""
        value = self._first(names)
        if value is not None and (not isinstance(value, str) or not value):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"field '{names[0]}' must be a string")
        if value is not None and "\0" in value:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"field '{names[0]}' contains a NUL character")
        return value

    def flag(self, *names: str) -> bool:
        """Return the first of these fields that the body has, which must be a boolean; False if it has none."""
        value = self._first(names)
        if value is not None and not isinstance(value, bool):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"field '{names[0]}' must be true or false")
        return bool(value)

    def _first(self, names: tuple[str, ...]) -> Any:
        for name in names:
            if self.body.get(name) is not None:
                return self.body[name]
        return None


@dataclass(frozen=True, slots=True)
class Response:
    """A response: JSON data, or text or bytes with their own `media_type`, or a `stream` of them.

    A stream is iterated in a thread, unless it is asynchronous: one that waits for long should be. `sent` is called when the
    whole response is written.
    """

    content: Any = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: Callable[[], None] | None = None
    media_type: str | None = None
    stream: Iterable[bytes | str] | AsyncIterator[bytes | str] | None = None


def error_response(error: HttpError) -> Response:
    """Return the response for an error."""
    return Response(Errors(list(error.errors)), error.status, error.headers)


def as_http_error(error: PenstockError) -> HttpError:
    """Return the status and the texts for an error of a job."""
    if isinstance(
        error, ArgumentError | ArgumentTypeError | ConfigurationError | InvalidProgramError
    ):
        status = HTTPStatus.BAD_REQUEST
    elif isinstance(error, UnsupportedOperationError):
        status = HTTPStatus.NOT_IMPLEMENTED
    else:
        status = HTTPStatus.CONFLICT
    return HttpError(status, *str(error).split("\n"))

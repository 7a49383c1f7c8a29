"""Requests and responses as handlers see them: JSON in, JSON out, errors with a status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from msgspec import Struct

from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigurationError,
    InvalidProgramError,
    PenstockError,
    UnsupportedOperationError,
)
from penstock.errors.json_values import read_json

T = TypeVar("T")

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
    body: Mapping[str, object] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    who: str = ""

    def read(self, wanted: type[T]) -> T:
        """Return the body as an object of the type that its route names; raise ArgumentError if it is not one."""
        return read_json(self.body, wanted)


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

"""A client of the REST API, for the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import ArgumentError, JobRequestError
from penstock.rest.routes import VERSION


class ServerGoneError(JobRequestError):
    """Nothing answers at an address."""


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, with or without `http://`."""
    scheme, separator, rest = text.partition("://")
    try:
        parts = urlsplit(f"//{rest if separator else text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or (separator and scheme != "http"):
        raise ArgumentError(
            f"'{text}' is not an address", hint="write host:port, such as localhost:8081"
        )
    return host, port


class RestClient:
    """Asks one server. Errors of the server are raised as JobRequestErrors."""

    def __init__(self, address: str, token: str | None = None, timeout_s: float = 30) -> None:
        self.host, self.port = parse_address(address)
        self.address = (
            f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        )
        self._token = token
        self._timeout_s = timeout_s

    def get(self, path: str) -> Any:
        """Read a resource."""
        return self.request("GET", path)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return the JSON of its response."""
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = HTTPConnection(self.host, self.port, timeout=self._timeout_s)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, VERSION + path, content, headers)
            response = connection.getresponse()
            status, text = response.status, response.read()
        except TimeoutError as error:
            raise JobRequestError(
                f"the process at {self.address} did not answer within {self._timeout_s:g} s"
            ) from error
        except (OSError, HTTPException) as error:
            raise ServerGoneError(
                f"nothing answers at {self.address}",
                detail=str(error) or type(error).__name__,
                hint="'penstock list' shows which jobs run",
            ) from error
        finally:
            connection.close()
        return self._content(status, text)

    def _content(self, status: int, text: bytes) -> Any:
        try:
            content = json.loads(text)
        except ValueError as error:
            raise JobRequestError(f"what answers at {self.address} is not Penstock") from error
        if status == 401:
            raise JobRequestError(
                f"the process at {self.address} refused the request: {content['errors'][0]}",
                hint="give its token with --token or in PENSTOCK_TOKEN; "
                "it is in the process's file below ~/.penstock/processes on its machine",
            )
        if status >= 400:
            message, *more = content.get("errors") or [f"status {status}"]
            known = {
                line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in more if ": " in line
            }
            raise JobRequestError(message, detail=known.get("detail"), hint=known.get("hint"))
        return content

"""A client of the REST API, for the command line."""

from __future__ import annotations

import itertools
import json
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from penstock.errors import ArgumentError, JobRequestError
from penstock.rest.messages import VERSION

# How long a client waits for a leader: longer than a failover takes
LEADER_TIMEOUT_S = 15.0
_PAUSE_S = 0.3


class ServerUnreachableError(JobRequestError):
    """No server answers at an address."""


class Address(NamedTuple):
    """The address of a server."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https://' if self.tls else ''}{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `host:port`, with or without `http://` or `https://`."""
    scheme, separator, rest = text.strip().rstrip("/").partition("://")
    try:
        parts = urlsplit(f"//{rest if separator else scheme}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or (separator and scheme not in ("http", "https")):
        raise ArgumentError(
            f"invalid address '{text}'", hint="write host:port, such as localhost:8081"
        )
    return Address(host, port, tls=scheme == "https" and bool(separator))


class RestClient:
    """Sends requests to one server, or to the leader of several. Errors of the server are raised as JobRequestErrors.

    `address` may be a comma-separated list of the JobManagers of one cluster: each of them redirects to the leader. While there is no
    leader, and after the leader has died, the client retries for a while. `trusted` is a file with the certificates to trust for
    TLS, as is PENSTOCK_TLS_CA; PENSTOCK_TLS_CERTIFICATE is a file with the client's own certificate.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout_s: float = 30,
        trusted: str | None = None,
    ) -> None:
        self._trusted = trusted
        self._given = [parse_address(each) for each in address.split(",")]
        self._turn = 0  # index of the address in use
        self._go_to(self._given[0])
        self._token = token
        self._timeout_s = timeout_s

    def _go_to(self, address: Address) -> None:
        self._at = address
        self.host, self.port = address.host, address.port
        self.address = str(address)

    def page_address(self, place: str) -> str:
        """Return the address of a place on the web page, with the token in the fragment, which browsers do not send."""
        scheme = "https" if self._at.tls else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        token = f"token={quote(self._token, safe='')}&" if self._token else ""
        return f"{scheme}://{host}:{self.port}/#{token}{place}"

    def get(self, path: str) -> Any:
        """Read a resource."""
        return self.request("GET", path)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return the JSON of its response."""
        until = time.monotonic() + LEADER_TIMEOUT_S
        for tries in itertools.count():
            if tries > 1:  # the redirect led to a process that is not the leader any more
                time.sleep(_PAUSE_S)
            late = time.monotonic() > until
            try:
                status, headers, text = self._send(method, path, body)
            except ServerUnreachableError as error:
                if late or not self._may_ask_others(method, error):
                    raise
                continue
            if late or not self._follow(status, headers):
                return self._content(status, text)
        raise AssertionError  # the loop is endless

    def _may_ask_others(self, method: str, error: ServerUnreachableError) -> bool:
        """Switch to the next address, if there is another one and the request was not sent or changes nothing."""
        begun = not isinstance(error.__cause__, ConnectionRefusedError)
        if method != "GET" and begun:
            return False
        self._turn = (self._turn + 1) % len(self._given)
        before, found = self._at, self._given[self._turn]
        self._go_to(found)
        return found != before or len(self._given) > 1

    def _follow(self, status: int, headers: HTTPMessage) -> bool:
        """Whether to retry: at the leader that a standby redirects to, or at the same process once there is a leader."""
        if status == HTTPStatus.TEMPORARY_REDIRECT and "Location" in headers:
            leader = urlsplit(headers["Location"])
            self._go_to(parse_address(f"{leader.scheme}://{leader.netloc}"))
            return True
        return status == HTTPStatus.SERVICE_UNAVAILABLE and "Retry-After" in headers

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, HTTPMessage, bytes]:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connection()
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, VERSION + path, content, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except TimeoutError as error:
            raise JobRequestError(
                f"the process at {self.address} did not answer within {self._timeout_s:g} s"
            ) from error
        except ssl.SSLError as error:
            raise JobRequestError(
                f"TLS connection to {self.address} failed",
                detail=error.reason or str(error),
                hint="set PENSTOCK_TLS_CA to a file with the certificates to trust, PENSTOCK_TLS_CERTIFICATE to one with "
                "your own certificate and its key",
            ) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            raise ServerUnreachableError(
                f"the process at {self.address} closed the connection without an answer",
                detail=str(error) or type(error).__name__,
                hint="if it uses TLS, write https:// before its address; if it requires a client certificate, set PENSTOCK_TLS_CERTIFICATE "
                "to a file with yours and its key; otherwise it has just ended",
            ) from error
        except (OSError, HTTPException) as error:
            raise ServerUnreachableError(
                f"cannot connect to {self.address}",
                detail=str(error) or type(error).__name__,
                hint="'penstock list' shows running jobs",
            ) from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if not self._at.tls:
            return HTTPConnection(self.host, self.port, timeout=self._timeout_s)
        from penstock.rest.security.tls import client_context

        return HTTPSConnection(
            self.host, self.port, timeout=self._timeout_s, context=client_context(self._trusted)
        )

    def _content(self, status: int, text: bytes) -> object:
        try:
            content = json.loads(text)
        except ValueError as error:
            raise JobRequestError(
                f"the server at {self.address} is not a Penstock JobManager"
            ) from error
        if status == 401:
            raise JobRequestError(
                f"the process at {self.address} rejected the request: {content['errors'][0]}",
                hint="pass its token with --token or in PENSTOCK_TOKEN; "
                "it is in the file of the process in ~/.penstock/processes on its machine",
            )
        if status >= 300:
            message, *more = content.get("errors") or [f"status {status}"]
            known = {
                line.split(": ", 1)[0]: line.split(": ", 1)[1] for line in more if ": " in line
            }
            raise JobRequestError(message, detail=known.get("detail"), hint=known.get("hint"))
        return content

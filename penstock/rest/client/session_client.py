"""Finds the session to which a program is submitted."""

from __future__ import annotations

import os

from penstock import options
from penstock.errors import JobRequestError
from penstock.options.configuration import Configuration
from penstock.rest import processes
from penstock.rest.client.rest_client import RestClient
from penstock.rest.processes import ProcessRecord
from penstock.rest.security.tokens import TOKEN_VARIABLE
from penstock.rest.services.job_session import PROGRAM

_SENDING_S = 300.0  # a program may be large, and the network slow


def sessions() -> list[ProcessRecord]:
    """Return the sessions of this user on this machine."""
    return [record for record in processes.read_all() if record.program == PROGRAM]


def find_session(
    address: str | None = None, token: str | None = None, trusted: str | None = None
) -> RestClient:
    """Return a client of the session at an address, or of this user's session on this machine."""
    token = token or os.environ.get(TOKEN_VARIABLE)
    found = sessions()
    if address is not None:
        plain = RestClient(address)
        found = [record for record in found if record.address == plain.address]
        if not found:
            return RestClient(address, token, timeout_s=_SENDING_S, trusted=trusted)
    if (
        len({record.token for record in found}) == 1
    ):  # one session, possibly with several JobManagers
        own = found[0]
        return RestClient(
            ",".join(record.address for record in found),
            token or own.token,
            timeout_s=_SENDING_S,
            trusted=trusted or own.certificate,
        )
    if found:
        raise JobRequestError(
            f"{len(found)} sessions are running on this machine",
            detail=", ".join(f"{record.address} (pid {record.pid})" for record in found),
            hint="select one with --session HOST:PORT",
        )
    raise JobRequestError(
        "no session is running on this machine",
        hint="start one with 'penstock session start', or use another one with --session HOST:PORT",
    )


def session_of(configuration: Configuration) -> RestClient:
    """Return a client of the session at rest.address and rest.port, or of this user's session."""
    port = configuration.get(options.REST_PORT)
    if port == 0:
        return find_session()
    scheme = "https" if configuration.get(options.REST_SSL_ENABLED) else "http"
    host = configuration.get(options.REST_ADDRESS) or "127.0.0.1"
    trusted = configuration.get(options.REST_SSL_TRUSTSTORE)
    return find_session(f"{scheme}://{host}:{port}", trusted=trusted)

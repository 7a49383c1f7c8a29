"""Heartbeats of a standby JobManager: it sends its address to the leader periodically."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from penstock.errors import JobRequestError
from penstock.rest.client.rest_client import RestClient

_EVERY_S: Final = 3.0

_log = logging.getLogger(__name__)


def announce(
    elsewhere: Callable[[], str | None], address: str, token: str, scheme: str = "http"
) -> None:
    """Start a thread that sends the address of this standby to the current leader periodically."""

    def run() -> None:
        while True:
            _send_heartbeat(elsewhere(), address, token, scheme)
            time.sleep(_EVERY_S)

    threading.Thread(target=run, name="penstock-peers", daemon=True).start()


def _send_heartbeat(leader: str | None, address: str, token: str, scheme: str) -> None:
    if not leader or leader == address:
        return
    try:
        RestClient(f"{scheme}://{leader}", token, timeout_s=5).get(
            f"/penstock/heartbeat?address={quote(address, safe='')}"
        )
    except JobRequestError as error:  # the next heartbeat tries again
        _log.debug("the heartbeat to the leader at %s failed: %s", leader, error)

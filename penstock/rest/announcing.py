"""What a standby does to be known: it tells the leader where it is, again and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from penstock.errors import JobRequestError
from penstock.rest.client import RestClient

_EVERY_S: Final = 3.0

_log = logging.getLogger(__name__)


def announce(
    elsewhere: Callable[[], str | None], address: str, token: str, scheme: str = "http"
) -> None:
    """Tell whoever leads, from now on, that this process stands by at an address. In a thread of its own."""

    def run() -> None:
        while True:
            _tell(elsewhere(), address, token, scheme)
            time.sleep(_EVERY_S)

    threading.Thread(target=run, name="penstock-peers", daemon=True).start()


def _tell(leader: str | None, address: str, token: str, scheme: str) -> None:
    if not leader or leader == address:
        return
    try:
        RestClient(f"{scheme}://{leader}", token, timeout_s=5).get(
            f"/penstock/heartbeat?address={quote(address, safe='')}"
        )
    except JobRequestError as error:  # it is told again
        _log.debug("the leader at %s does not know of this standby: %s", leader, error)

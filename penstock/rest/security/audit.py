"""The audit log: one line for each write request, authorized or not."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request as IncomingRequest

    from penstock.rest.security.access import Principal

_log = logging.getLogger("penstock.audit")


class Audit:
    """Writes the audit log: to the log, and as JSON to a file if one is configured."""

    def __init__(self, file: str | None = None) -> None:
        self._lock = threading.Lock()
        self._file = None if file is None else Path(file)
        if self._file is not None:
            self._append("")  # so that a file that is not writable is reported at the start

    def note(self, incoming: IncomingRequest, client: Principal | None, status: int) -> None:
        """Log who sent which request, from where, and the status of the response."""
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "who": "anonymous" if client is None else client.name,
            "from": incoming.client.host if incoming.client is not None else "?",
            "method": incoming.method,
            "path": incoming.scope["raw_path"].decode("ascii", "replace"),
            "query": incoming.scope["query_string"].decode("ascii", "replace"),
            "status": int(status),
        }
        _log.info("%s", " ".join(f"{name}={value!r}" for name, value in entry.items()))
        if self._file is not None:
            try:
                self._append(json.dumps(entry) + "\n")
            except OSError as error:
                _log.error("cannot write the audit log to %s: %s", self._file, error.strerror)

    def _append(self, line: str) -> None:
        assert self._file is not None
        with self._lock:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
                stream.write(line)

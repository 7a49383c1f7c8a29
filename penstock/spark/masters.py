"""Checks that a Spark master can be reached: Spark itself retries for a minute and a half without a clear error."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from penstock.errors import PenstockError

STANDALONE = "spark://"
MASTER_FORMS = "local[4], spark://host:7077, yarn, k8s://https://host:port"
_TIMEOUT_S = 5.0


class MasterNotFoundError(PenstockError, ConnectionError):
    """Nothing answers at the address of a Spark master."""


def check_master(master: str, timeout_s: float = _TIMEOUT_S) -> None:
    """Raise MasterNotFoundError if none of the addresses in `spark://host:port,host:port` answers; let others pass."""
    if not master.startswith(STANDALONE):
        return
    problems = []
    for address in master.removeprefix(STANDALONE).split(","):
        try:
            parts = urlsplit(f"//{address}")
            with socket.create_connection((parts.hostname or "", parts.port or 7077), timeout_s):
                return
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            problems.append(f"{address}: {reason}")
    raise MasterNotFoundError(
        f"no Spark master answers at {master}",
        detail="; ".join(problems),
        hint="start it, or check the address: option -m of 'penstock run', or spark.master",
    )

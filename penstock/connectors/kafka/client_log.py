"""Forwards the log of librdkafka's clients to the log of the job.

A client logs each attempt to connect to a broker that is down, many times a second, and suppresses some of them itself. Here it
is logged once for all clients of a process, and then only how often, periodically.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from penstock.logs.repeated_lines import LogLineKind, RepeatedLineFilter

# FAIL [shop-enumerator#consumer-2] [thrd:b1:9092/bootstrap]: b1:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state ...)
_LINE: Final = re.compile(r"([A-Z_]+) \[([^\]]*)\](?: \[thrd:[^\]]*\])?: (.*)", re.DOTALL)
_STATE: Final = re.compile(r" \(after \d+ms in state .*\)$")
_LEFT_OUT: Final = re.compile(r"(\d+) identical error\(s\) suppressed")
_BROKER_ID: Final = re.compile(r"^(\S+?)/(?:bootstrap|\d+)(?=: )")
_ADDRESS: Final = re.compile(r"Connect to \S+ failed: ")


def read_client_line(record: logging.LogRecord) -> LogLineKind:
    """Parse a client's log line. The key is the same for all clients, and all addresses of a broker."""
    text = record.getMessage()
    line = _LINE.fullmatch(text)
    if line is None:
        return LogLineKind(text, text, record.levelno)
    facility, client, said = line.groups()
    problem = _problem(said)
    left_out = _LEFT_OUT.search(said)
    times = 1 if left_out is None else 1 + int(left_out[1])
    name = client.partition("#")[0]
    if facility != "FAIL":
        return LogLineKind((facility, problem), f"{name}: {problem}", record.levelno, times)
    # A failed attempt is an error for the client; for the job it is one only if it lasts too long.
    level = min(record.levelno, logging.WARNING)
    return LogLineKind(_ADDRESS.sub("", problem), f"{name}: {problem}; retrying", level, times)


def _problem(text: str) -> str:
    """Return a problem without the state of the connection and the id of the broker.

    >>> _problem("b1:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)")
    'b1:9092: Connect to ipv4#10.0.0.1:9092 failed: Connection refused'
    """
    return _BROKER_ID.sub(r"\1", _STATE.sub("", text))


client_log: Final = logging.getLogger("penstock.connectors.kafka.client")
client_log.addFilter(RepeatedLineFilter(read_client_line))


def log_client_error(client: str, error: Any) -> None:
    """Log an error that a client recovers from. Most of them are logged by the client already."""
    client_log.warning("FAIL [%s]: %s", client, error.str())

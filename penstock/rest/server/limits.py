"""Limits on the resources of the process that clients of its REST API may use."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field

from penstock import options
from penstock.options.configuration import Configuration


def _connections() -> int:
    """Return the maximum number of connections: at most half of the process's limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else max(16, min(2048, soft // 2))


def _processor_share() -> float:
    """Return the share of one processor that requests may use: a fortieth of the machine, and at most half a processor.

    Requests run under the GIL, which the JobMaster needs too.
    """
    return min(0.5, (os.cpu_count() or 1) / 40)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of a server."""

    connections: int = field(default_factory=_connections)
    threads: int = 8  # that handle requests
    arrival_s: float = (
        10.0  # until a request must have arrived, or the first byte of the next one on a connection
    )
    bytes_per_s: int = 64 * 1024  # minimum rate of large bodies, after that time
    sending_s: float = 60.0  # until a client must have read some more of a response
    head_bytes: int = 64 * 1024  # of the request line and the headers together
    waiting: int = 4096  # maximum number of queued requests
    processor_share: float = field(default_factory=_processor_share)
    burst_s: float = 0.5  # processor time that may be used at once after an idle period

    @staticmethod
    def from_configuration(configuration: Configuration) -> RequestLimits:
        """Read the options."""
        share = configuration.get(options.REST_PROCESSOR_SHARE)
        return RequestLimits() if share is None else RequestLimits(processor_share=share)

"""What clients may take of the process whose jobs they look at."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, field

from penstock.common import options
from penstock.common.configuration import Configuration


def _connections() -> int:
    """Return how many connections there may be: at most half of the files that the process may open are theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else max(16, min(2048, soft // 2))


def _processor_share() -> float:
    """Return which part of one processor answering may take: a fortieth of the machine, and no more than half of one.

    All of it runs under the one lock of the interpreter that the JobMaster needs, too.
    """
    return min(0.5, (os.cpu_count() or 1) / 40)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server."""

    connections: int = field(default_factory=_connections)
    threads: int = 8  # that run handlers
    arrival_s: float = (
        10.0  # in which a request must have come, or the first byte of the next one on a connection
    )
    bytes_per_s: int = 64 * 1024  # that large bodies must come with, beyond that
    sending_s: float = 60.0  # in which a client must take some more of a response
    head_bytes: int = 64 * 1024  # of the first line and the headers together
    waiting: int = 4096  # requests that wait for their turn
    processor_share: float = field(default_factory=_processor_share)
    burst_s: float = 0.5  # of processor time that may be taken at once after a rest

    @staticmethod
    def from_configuration(configuration: Configuration) -> Limits:
        """Read the options."""
        share = configuration.get(options.REST_PROCESSOR_SHARE)
        return Limits() if share is None else Limits(processor_share=share)

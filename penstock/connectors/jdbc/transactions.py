"""What a sink that writes exactly once hands from its writers to its committer, and how its transactions are named.

The name of a transaction tells whose it is: `penstock:JOB:SINK:CHECKPOINT:SUBTASK:ATTEMPT`. So those that nobody will end any more can be found in
`pg_prepared_xacts` after a crash.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from penstock.connectors.sink import EpochContext, WriterContext
from penstock.connectors.staged_sinks import StagedOutput

_PREFIX = "penstock"


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that was prepared at a barrier."""

    name: str
    prepared_ms: int


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows that could not be written before the checkpoint was durable; they are written when it is committed, under this name."""

    name: str
    prepared_ms: int
    output: StagedOutput


Committable = PreparedTransaction | HeldRows


def short_hash(*parts: str) -> str:
    """Return 12 hexadecimal digits that stand for these texts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _plain(text: str, length: int) -> str:
    """Return text that can be part of a name: short, of letters and digits; what is lost is made up for by a hash."""
    plain = re.sub(r"[^\w.-]", "_", text, flags=re.ASCII)
    if plain == text and len(plain) <= length:
        return plain
    return f"{plain[: length - 13]}-{short_hash(text)}"


def sink_prefix(job_id: str, sink_id: str) -> str:
    """Return how the names of all transactions of a sink begin.

    >>> sink_prefix("a1b2", "orders")
    'penstock:a1b2:orders:'
    """
    return f"{job_prefix(job_id)}{_plain(sink_id, 60)}:"


def job_prefix(job_id: str) -> str:
    """Return how the names of all transactions of a job begin."""
    return f"{_PREFIX}:{_plain(job_id, 60)}:"


def transaction_name(context: WriterContext, epoch: EpochContext, sink_id: str) -> str:
    """Return the name of what one subtask writes in one attempt at an epoch."""
    prefix = sink_prefix(context.job_id, sink_id)
    attempt = short_hash(context.operator_id, epoch.attempt)
    return f"{prefix}{epoch.epoch}:{context.subtask}:{attempt}"


def tag_of(prefix: str, subtask: int | None = None) -> str:
    """Return the name of the connection of a sink's writer, or how those of all its subtasks begin.

    Whoever takes over finds by it those that were given up and live on.
    """
    return f"penstock {short_hash(prefix)} {'' if subtask is None else f'{subtask}.'}"


def prefix_of(name: str) -> str:
    """Return how the names of the transactions of the same sink begin."""
    return name.rsplit(":", 3)[0] + ":"


def epoch_of(name: str) -> int:
    """Return the number of the checkpoint that a transaction was prepared for."""
    return int(name.rsplit(":", 3)[1])


def subtask_of(name: str) -> int:
    """Return the subtask that a transaction is of."""
    return int(name.rsplit(":", 3)[2])

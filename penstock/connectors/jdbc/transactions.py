"""The committables of the exactly-once sink, and the names of its transactions.

The name of a transaction says whose it is: `penstock:JOB:SINK:CHECKPOINT:SUBTASK:ATTEMPT`. So abandoned ones can be found in
`pg_prepared_xacts` after a crash.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.connectors.base.staged_sinks import StagedOutput

_PREFIX = "penstock"


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that was prepared at a barrier."""

    name: str
    prepared_ms: int


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows that could not be written before the checkpoint was durable; they are written during the commit, under this name."""

    name: str
    prepared_ms: int
    output: StagedOutput


Committable = PreparedTransaction | StagedRows


def short_hash(*parts: str) -> str:
    """Return a hash of these texts, 12 hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _plain(text: str, length: int) -> str:
    """Return a short text of letters and digits for use in a name; a changed text gets a hash."""
    plain = re.sub(r"[^\w.-]", "_", text, flags=re.ASCII)
    if plain == text and len(plain) <= length:
        return plain
    return f"{plain[: length - 13]}-{short_hash(text)}"


def sink_prefix(job_id: str, sink_id: str) -> str:
    """Return the prefix of the names of all transactions of a sink.

    >>> sink_prefix("a1b2", "orders")
    'penstock:a1b2:orders:'
    """
    return f"{job_prefix(job_id)}{_plain(sink_id, 60)}:"


def job_prefix(job_id: str) -> str:
    """Return the prefix of the names of all transactions of a job."""
    return f"{_PREFIX}:{_plain(job_id, 60)}:"


def transaction_name(context: WriterContext, checkpoint: CheckpointContext, sink_id: str) -> str:
    """Return the name of the transaction of one subtask and attempt for a checkpoint."""
    prefix = sink_prefix(context.job_id, sink_id)
    attempt = short_hash(context.operator_id, checkpoint.attempt)
    return f"{prefix}{checkpoint.checkpoint_id}:{context.subtask}:{attempt}"


def tag_of(prefix: str, subtask: int | None = None) -> str:
    """Return the connection tag of a sink's writer, or the common prefix of all its subtasks' tags.

    A later attempt finds connections of earlier attempts that are still open by this tag.
    """
    return f"penstock {short_hash(prefix)} {'' if subtask is None else f'{subtask}.'}"


def prefix_of(name: str) -> str:
    """Return the prefix of the transactions of the same sink."""
    return name.rsplit(":", 3)[0] + ":"


def checkpoint_id_of(name: str) -> int:
    """Return the id of the checkpoint that a transaction was prepared for."""
    return int(name.rsplit(":", 3)[1])


def subtask_of(name: str) -> int:
    """Return the subtask of a transaction."""
    return int(name.rsplit(":", 3)[2])

"""The Kafka committable: a transaction, with everything that identifies it. And pure decisions about its state.

A producer runs many transactions with one transactional id, producer id and producer epoch, one for each checkpoint. So these
three do not identify a transaction: its start time, as recorded by the coordinator, does. Without it a commit that is repeated
after a crash could commit the unfinished transaction that follows.
"""

from __future__ import annotations

import enum
import hashlib
import re
from dataclasses import dataclass
from typing import Final

from penstock.connectors.kafka.transactions import Transaction, TransactionState

# Pattern of a transactional id: <prefix>-<operator>-<subtask>-<writer>-<number>
_ID: Final = re.compile(r"-(?P<subtask>\d+)-(?P<writer>[0-9a-f]+)-(?P<number>\d+)$")

_ABORTED: Final = {
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_ABORT,
    TransactionState.PREPARE_EPOCH_FENCE,
}


@dataclass(frozen=True, slots=True)
class KafkaCommittable:
    """A transaction that contains all records of a subtask for a checkpoint, flushed and not ended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int
    bootstrap: str

    def describes(self, found: Transaction) -> bool:
        """Whether a coordinator's transaction is this one and not a later one."""
        return found.started_ms == self.started_ms


class CommitDecision(enum.Enum):
    """What to do with a committable."""

    COMMIT = "commit"
    DONE = "done"  # it was committed before
    LOST = "lost"  # it was aborted


def judge(wanted: KafkaCommittable, found: Transaction | None) -> CommitDecision:
    """Decide the fate of a transaction from its coordinator's state of the transactional id.

    A producer begins another transaction, and an id gets another producer, only after this one was committed: a later one proves
    that it was. The id alone is not enough, see above.
    """
    if found is None:
        return CommitDecision.LOST
    if not wanted.describes(found):
        unused = found.state is TransactionState.EMPTY and _same_producer(wanted, found)
        return CommitDecision.LOST if unused else CommitDecision.DONE
    if found.state in _ABORTED:
        return CommitDecision.LOST
    if found.state is TransactionState.COMPLETE_COMMIT:
        return CommitDecision.DONE
    if found.state in {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT}:
        return CommitDecision.COMMIT if _same_producer(wanted, found) else CommitDecision.LOST
    return CommitDecision.LOST


def _same_producer(wanted: KafkaCommittable, found: Transaction) -> bool:
    return (wanted.producer_id, wanted.producer_epoch) == (found.producer_id, found.producer_epoch)


def may_be_fenced(found: Transaction, kept: list[KafkaCommittable]) -> bool:
    """Whether an id may get a new producer: no checkpoint refers to its transaction.

    An aborted transaction that a checkpoint refers to stays unchanged: it proves the loss when that checkpoint is committed.
    """
    if found.fenced:
        return False
    if not any(each.describes(found) for each in kept):
        return True
    return found.state is TransactionState.COMPLETE_COMMIT


def operator_prefix(prefix: str | None, job_id: str, operator_id: str) -> str:
    """Return the prefix of the transactional ids of all writers of a sink, in this run of the job and in the next.

    >>> operator_prefix("orders", "9f", "sink")
    'orders-58bb10d2-'
    >>> operator_prefix(None, "9f", "sink")
    'penstock-9f-58bb10d2-'
    """
    operator = hashlib.sha256(operator_id.encode()).hexdigest()[:8]
    return f"{prefix if prefix is not None else f'penstock-{job_id}'}-{operator}-"


def transactional_id(prefix: str, subtask: int, writer: str, number: int) -> str:
    """Return the transactional id of one producer of one writer."""
    return f"{prefix}{subtask}-{writer}-{number}"


def subtask_of(transactional_id: str) -> int | None:
    """Return the subtask of a transactional id; None if it is not one of a writer."""
    match = _ID.search(transactional_id)
    return None if match is None else int(match["subtask"])

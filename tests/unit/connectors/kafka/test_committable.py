"""The state of a checkpoint's transaction, and which transactional ids may be fenced."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.committable import (
    CommitDecision,
    KafkaCommittable,
    judge,
    may_be_fenced,
    operator_prefix,
    subtask_of,
    transactional_id,
)
from penstock.connectors.kafka.transactions import (
    FENCED_TIMEOUT_MS,
    Transaction,
    TransactionState,
)

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
COMMITTING, COMMITTED = TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT
ABORTING, ABORTED = TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT
FENCING = TransactionState.PREPARE_EPOCH_FENCE

OURS = KafkaCommittable("id", 7, 3, 1000, 60_000, "broker:9092")


def found(state, checkpoint_id=3, started=1000, timeout=60_000, producer=7):
    return Transaction("id", state, producer, checkpoint_id, started, timeout)


@pytest.mark.parametrize(
    ("transaction", "verdict"),
    [
        pytest.param(found(ONGOING), CommitDecision.COMMIT, id="it waits"),
        pytest.param(found(COMMITTING), CommitDecision.COMMIT, id="a commit is under way"),
        pytest.param(found(COMMITTED), CommitDecision.DONE, id="it was committed"),
        pytest.param(
            found(ONGOING, started=2000), CommitDecision.DONE, id="the next one is under way"
        ),
        pytest.param(
            found(COMMITTED, started=2000), CommitDecision.DONE, id="the next one is committed"
        ),
        pytest.param(
            found(ABORTED, started=2000), CommitDecision.DONE, id="the next one was aborted"
        ),
        pytest.param(found(ABORTED, 4, 2000), CommitDecision.DONE, id="the next one timed out"),
        pytest.param(found(EMPTY, 4, -1), CommitDecision.DONE, id="fenced after the commit"),
        pytest.param(
            found(EMPTY, 0, -1, producer=9), CommitDecision.DONE, id="epochs were used up"
        ),
        pytest.param(found(ABORTED, 4), CommitDecision.LOST, id="it timed out"),
        pytest.param(found(ABORTING, 4), CommitDecision.LOST, id="it is timing out"),
        pytest.param(found(FENCING), CommitDecision.LOST, id="it is being fenced"),
        pytest.param(found(ABORTED), CommitDecision.LOST, id="its producer aborted it"),
        pytest.param(found(EMPTY, 3, -1), CommitDecision.LOST, id="it never was"),
        pytest.param(found(TransactionState.DEAD), CommitDecision.LOST, id="its id has expired"),
        pytest.param(found(ONGOING, 4), CommitDecision.LOST, id="another producer has it"),
        pytest.param(None, CommitDecision.LOST, id="unknown to the cluster"),
    ],
)
def test_state_of_a_transaction_at_the_coordinator(transaction, verdict):
    assert judge(OURS, transaction) is verdict


@pytest.mark.parametrize(
    ("transaction", "named", "expected"),
    [
        pytest.param(found(ONGOING), False, True, id="no checkpoint needs it"),
        pytest.param(found(ONGOING), True, False, id="a checkpoint counts on it"),
        pytest.param(found(ONGOING, started=2000), True, True, id="the one after it"),
        pytest.param(found(COMMITTED), True, True, id="committed"),
        pytest.param(found(ABORTED, 4), True, False, id="the proof of a loss"),
        pytest.param(found(EMPTY, 0, -1), False, True, id="a writer that has not begun"),
        pytest.param(
            found(EMPTY, 5, -1, FENCED_TIMEOUT_MS), False, False, id="fenced for good before"
        ),
    ],
)
def test_an_id_is_fenced_unless_a_checkpoint_counts_on_its_transaction(
    transaction, named, expected
):
    assert may_be_fenced(transaction, [OURS] if named else []) is expected


def test_ids_tell_the_sink_and_the_subtask():
    prefix = operator_prefix("orders-3", "job", "sink")
    assert prefix.startswith("orders-3-")
    assert prefix != operator_prefix("orders-3", "job", "other")
    assert prefix == operator_prefix("orders-3", "another job", "sink")
    assert operator_prefix(None, "job", "sink") != operator_prefix(None, "another job", "sink")
    name = transactional_id(prefix, 12, "ab3f", 4)
    assert name.startswith(prefix)
    assert subtask_of(name) == 12
    assert subtask_of(f"{prefix}probe") is None


def test_state_of_a_newer_broker_is_unknown():
    assert TransactionState.of("Prepared") is TransactionState.UNKNOWN
    assert judge(OURS, found(TransactionState.UNKNOWN)) is CommitDecision.LOST

"""The Kafka committer, on the driver: commits the transactions of checkpoints, and aborts abandoned ones.

After a crash, `penstock.jobmanager.running.checkpoints.Checkpoints.restore` commits the requests of the restored manifest again:
`penstock.checkpoint.coordinator` decides which. For each transaction, `judge` in `penstock.connectors.kafka.committable` decides
whether it is to be committed, is committed already and stays as it is, or is lost. `penstock.connectors.kafka.transactions` asks
the brokers for its state and ends it. `KafkaCommitter.clean_up` then aborts transactions that no checkpoint refers to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from penstock.connectors.base.sink import CommitRequest, Committer, CommitterContext
from penstock.connectors.kafka.committable import (
    CommitDecision,
    KafkaCommittable,
    judge,
    may_be_fenced,
    operator_prefix,
    subtask_of,
)
from penstock.connectors.kafka.errors import KafkaDataLossError
from penstock.connectors.kafka.transactions import (
    FENCED_TIMEOUT_MS,
    Transaction,
    Transactions,
    TransactionState,
)

_log = logging.getLogger("penstock.connectors.kafka")

LOSS_HINT: Final = "set_ignore_lost_transactions(True)"
_ABORT_TIMEOUT_S: Final = 30.0
_STRAYS_EVERY_S: Final = 10.0


class KafkaCommitter(Committer):
    """Ends transactions of writers, whatever process these are in.

    An aborted transaction that a checkpoint refers to is an error, because its records are lost; with `ignores_losses` it is a
    warning, so that a job whose transactions timed out while it was down can be started at all.
    """

    def __init__(
        self,
        transactions: Transactions,
        prefix: str | None,
        timeout_ms: int,
        *,
        ignores_losses: bool = False,
        loss_hint: str = LOSS_HINT,
    ) -> None:
        self._transactions = transactions
        self._prefix = prefix
        self._timeout_ms = timeout_ms
        self._ignores_losses = ignores_losses
        self._loss_hint = loss_hint
        self._context: CommitterContext | None = None
        self._probed = False
        self._commits = 0
        self._next_look = time.monotonic() + _STRAYS_EVERY_S

    def open(self, context: CommitterContext) -> None:
        """Keep the operator's context, and warn of transaction timeouts that are shorter than the checkpoint interval."""
        self._context = context
        interval = context.checkpoint_interval_ms
        if interval is not None and 2 * interval > self._timeout_ms:
            _log.warning(
                "transactions of KafkaSink time out after %d ms (transaction.timeout.ms), and checkpoints are taken every %d ms: "
                "a late checkpoint, or a long restart, loses records; set it to several intervals plus the longest downtime of the job",
                self._timeout_ms,
                interval,
            )

    def commit(self, request: CommitRequest) -> None:
        """Commit transactions; a repeated commit has no effect."""
        wanted: list[KafkaCommittable] = request.committables
        found = self._transactions.describe(each.transactional_id for each in wanted)
        lost = []
        for each in wanted:
            verdict = self._commit(each, found.get(each.transactional_id))
            if verdict is CommitDecision.LOST:
                lost.append(each)
        if lost:
            self._report(lost, found, request.checkpoint_id)
        self._commits += 1
        self._abort_strays()

    def _abort_strays(self) -> None:
        """Periodically abort transactions of tasks that ran twice: of two attempts at a checkpoint only one was committed.

        Only while no writer is active, and not with the first commit: that one may come from a driver that is still running.
        """
        context = self._context
        if context is None or not context.writers_rest or self._commits < 2:
            return
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _STRAYS_EVERY_S
        found = self._transactions.describe(
            self._transactions.list_ids(self._ids_of(context.job_id))
        )
        self._fence(
            [name for name, each in found.items() if each.state is TransactionState.ONGOING], []
        )

    def _commit(self, wanted: KafkaCommittable, found: Transaction | None) -> CommitDecision:
        verdict = judge(wanted, found)
        if verdict is CommitDecision.COMMIT:
            self._transactions.commit(
                wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
            )
        return verdict

    def _report(
        self,
        lost: Sequence[KafkaCommittable],
        found: Mapping[str, Transaction],
        checkpoint_id: int,
    ) -> None:
        reasons = "; ".join(_reason(each, found.get(each.transactional_id)) for each in lost)
        what = f"checkpoint {checkpoint_id} refers to Kafka transactions that were aborted: their records are lost"
        if self._ignores_losses:
            _log.error("%s: %s", what, reasons)
            return
        raise KafkaDataLossError(
            what,
            detail=f"brokers: {self._transactions.bootstrap}; {reasons}",
            hint="the property transaction.timeout.ms must be longer than the downtime of the job; "
            f"to continue without these records: {self._loss_hint}",
        )

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Abort transactions of earlier attempts' writers, and fence these writers; transactions of checkpoints are kept."""
        self._probe(job_id)
        kept = [each for request in requests for each in request.committables]
        self._fence(self._transactions.list_ids(self._ids_of(job_id)), kept)

    def abandon(self, subtasks: Collection[int], job_id: str) -> None:
        """Abort transactions of lost writers, and fence these writers: no checkpoint refers to their uncommitted transactions."""
        ids = self._transactions.list_ids(self._ids_of(job_id))
        self._fence((each for each in ids if subtask_of(each) in subtasks), [])

    def _ids_of(self, job_id: str) -> str:
        assert self._context is not None
        return operator_prefix(self._prefix, job_id, self._context.operator_id)

    def _probe(self, job_id: str) -> None:
        """Check early that the brokers accept the timeout, the prefix and the principal of the writers."""
        if not self._probed:
            self._transactions.initialize(f"{self._ids_of(job_id)}probe", self._timeout_ms)
            self._probed = True

    def _fence(self, transactional_ids: Iterable[str], kept: Sequence[KafkaCommittable]) -> None:
        found = self._transactions.describe(transactional_ids)
        named: dict[str, list[KafkaCommittable]] = {}
        for each in kept:
            named.setdefault(each.transactional_id, []).append(each)
        aborting = []
        for name, transaction in found.items():
            if subtask_of(name) is None or not may_be_fenced(transaction, named.get(name, [])):
                continue
            if transaction.state is TransactionState.ONGOING:
                _log.info("aborting the transaction '%s' of an earlier attempt", name)
            if not self._transactions.initialize(name, FENCED_TIMEOUT_MS):
                aborting.append(name)
        self._wait_for_aborts(aborting)

    def _wait_for_aborts(self, names: Sequence[str]) -> None:
        """Wait until readers of committed records are not blocked any more."""
        end = time.monotonic() + _ABORT_TIMEOUT_S
        while names and time.monotonic() < end:
            found = self._transactions.describe(names)
            names = [name for name, each in found.items() if each.state in _UNDER_WAY]
            if names:
                time.sleep(0.01)

    def close(self) -> None:
        """Disconnect."""
        self._transactions.close()


_UNDER_WAY: Final = {
    TransactionState.ONGOING,
    TransactionState.PREPARE_ABORT,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_EPOCH_FENCE,
}


def _reason(wanted: KafkaCommittable, found: Transaction | None) -> str:
    name = f"'{wanted.transactional_id}'"
    if found is None:
        return f"{name} is unknown to the brokers: it is from another cluster, or it has expired"
    age = (time.time() * 1000 - wanted.started_ms) / 1000
    limit = wanted.timeout_ms / 1000
    if age > limit:
        return f"{name} timed out: it began {age:.0f} s ago, and transaction.timeout.ms allows {limit:.0f} s"
    return f"{name} is {found.state.value} and has the producer epoch {found.producer_epoch} instead of {wanted.producer_epoch}"

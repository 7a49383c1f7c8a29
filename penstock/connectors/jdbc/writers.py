"""The writers of the database sink, in tasks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from penstock.connectors.base.sink import CheckpointContext, SinkWriter, WriterContext
from penstock.connectors.base.staged_sinks import StagingBuffer
from penstock.connectors.jdbc.failures import may_pass, refused, sqlstate, with_retries
from penstock.connectors.jdbc.options import JdbcExactlyOnceOptions, JdbcExecutionOptions
from penstock.connectors.jdbc.parameters import Parameters
from penstock.connectors.jdbc.postgres import PostgresSession
from penstock.connectors.jdbc.session import JdbcSession
from penstock.connectors.jdbc.transactions import (
    Committable,
    PreparedTransaction,
    StagedRows,
    sink_prefix,
    tag_of,
    transaction_name,
)
from penstock.errors import PenstockError
from penstock.metrics.metricbase import Counter
from penstock.time import clock

# Errors of rows that are locked by others: lock timeout, deadlock.
_HELD_BY_OTHERS = {"55P03", "40P01"}


class BatchWriter(SinkWriter):
    """Sends records in batches, each in its own transaction: at least once.

    A batch is sent when it is full, when its interval is over, and at the barrier.
    """

    def __init__(
        self,
        session: JdbcSession,
        parameters: Parameters,
        execution: JdbcExecutionOptions,
        context: WriterContext,
    ) -> None:
        self._session = session
        self._parameters = parameters
        self._size = execution.get_batch_size()
        self._interval = execution.get_batch_interval_ms()
        self._retries = execution.get_max_retries()
        self._rows: list[Sequence[Any]] = []
        self._since_ms = 0  # arrival time of the oldest row
        self._retried = _counter(context, "numBatchesRetried")
        self._sent = _counter(context, "numBatchesSent")

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Add records, and send full batches."""
        if not self._rows:
            self._since_ms = clock.now_ms()
        self._rows += self._parameters.of(values)
        while self._size and len(self._rows) >= self._size:
            self._send(self._size)

    def next_wakeup(self) -> int | None:
        """Return when the interval of the current batch is over."""
        return self._since_ms + self._interval if self._interval and self._rows else None

    def wake_up(self) -> None:
        """Send the current batch."""
        self._send(len(self._rows))

    def prepare_commit(self) -> list[Any]:
        """Send the current batch; nothing is left to commit."""
        self._send(len(self._rows))
        return []

    def close(self) -> None:
        """Close the connection."""
        self._session.leave()

    def _send(self, count: int) -> None:
        if not count:
            return
        rows = self._rows[:count]
        try:
            with_retries(lambda: self._session.write(rows), self._retries, self._begin_again)
        except PenstockError:
            raise
        except Exception as error:
            raise self._session.explain(error, rows) from error
        _count(self._sent)
        self._rows = self._rows[count:]
        self._since_ms = clock.now_ms()

    def _begin_again(self, _: BaseException) -> None:
        _count(self._retried)
        self._session.leave()


class StagingWriter(SinkWriter):
    """Keeps the records of a checkpoint on checkpoint storage; the committer writes them: exactly once, for any database."""

    def __init__(self, parameters: Parameters, context: WriterContext, sink_id: str) -> None:
        self._parameters = parameters
        self._context = context
        self._sink_id = sink_id
        self._buffer = StagingBuffer(context)
        self._name = ""

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the next checkpoint's records."""
        self._name = transaction_name(self._context, checkpoint, self._sink_id)
        self._buffer.begin(checkpoint)

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Add records."""
        self._buffer.write(pickle.dumps(self._parameters.of(values), 5))

    def prepare_commit(self) -> list[Any]:
        """Return the collected records as a committable."""
        return [StagedRows(self._name, clock.now_ms(), output) for output in self._buffer.finish()]

    def close(self) -> None:
        """Discard records that were not handed over."""
        self._buffer.close()


class TwoPhaseWriter(SinkWriter):
    """Writes the records of a checkpoint in one PostgreSQL transaction, and prepares it at the barrier: exactly once.

    The previous transaction is prepared and keeps its row locks until its checkpoint is complete. Waiting for it here could
    deadlock: the checkpoint may need a barrier that this very thread has to forward. So records are buffered as long as that
    transaction is pending. If it still is at the next barrier (several checkpoints are pending, or one was aborted), and locks
    rows that are needed, or if another subtask locks them, then the rest of the records is handed over as rows (HeldRows): the
    committer writes them, after the transactions that lock the rows.
    """

    def __init__(
        self,
        session: PostgresSession,
        parameters: Parameters,
        execution: JdbcExecutionOptions,
        exactly_once: JdbcExactlyOnceOptions,
        context: WriterContext,
        sink_id: str,
    ) -> None:
        session.tag = tag_of(sink_prefix(context.job_id, sink_id), context.subtask)
        self._session = session
        self._parameters = parameters
        #: Rows of one statement.
        self._size = execution.get_batch_size() or 5000
        self._retries = execution.get_max_retries()
        self._options = exactly_once
        self._context = context
        self._sink_id = sink_id
        #: The checkpoint whose records are written now.
        self._checkpoint = CheckpointContext(0, "")
        #: Buffered, in order; not in the transaction yet.
        self._rows: list[Sequence[Any]] = []
        #: Whether this writer has made sure that the ledger table exists.
        self._has_ledger = False
        #: Whether a transaction is open.
        self._begun = False
        #: Rows in the transaction; 0 if none is open.
        self._put = 0
        #: Rows are locked by others: later rows must wait, or they would overtake.
        self._blocked = False
        #: Committables that are not known to be committed, with their checkpoints, oldest first.
        self._under_way: list[tuple[int, Committable]] = []
        #: Metric: rows that were handed over to the committer.
        self._held = _counter(context, "numRecordsHeld")

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the next checkpoint's records; the transaction begins with the first batch."""
        self._checkpoint = checkpoint
        self._blocked = False

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Add records, and send them when there are enough."""
        self._rows += self._parameters.of(values)
        if len(self._rows) >= self._size and not self._blocked and not self._under_way:
            self._send()

    def prepare_commit(self) -> list[Any]:
        """Send the rest and prepare the transaction; hand over rows that are blocked by locks of others."""
        name = transaction_name(self._context, self._checkpoint, self._sink_id)
        if self._rows and not self._blocked and not self._waits_for_rows():
            self._send()
        committables: list[Committable] = []
        if self._put:
            self._prepare(name)
            committables.append(PreparedTransaction(name, clock.now_ms()))
        elif self._begun:
            self._session.roll_back()
        if self._rows:
            committables.append(self._hand_over(f"{name}+"))
        self._begun, self._put = False, 0
        self._under_way += [(self._checkpoint.checkpoint_id, each) for each in committables]
        return list(committables)

    def on_committed(self, checkpoint_id: int) -> None:
        """Record that transactions up to this checkpoint hold no locks any more."""
        self._under_way = [each for each in self._under_way if each[0] > checkpoint_id]

    def close(self) -> None:
        """Close the connection; the server rolls back an unprepared transaction."""
        self._session.leave()

    def _waits_for_rows(self) -> bool:
        """Whether rows of an earlier checkpoint are still to be written: those of this one must not overtake them."""
        names = [each.name for _, each in self._under_way if isinstance(each, StagedRows)]
        if not names:
            return False
        try:
            return not self._session.noted(self._options.ledger_table, names).issuperset(names)
        except Exception as error:
            if self._put or not may_pass(error):
                raise refused(error, self._session.target, "be read") from error
            self._session.leave()
            return True

    def _send(self) -> None:
        try:
            with_retries(self._put_all, 0 if self._put else self._retries, self._begin_again)
        except PenstockError:
            raise
        except Exception as error:
            raise self._explain(error) from error

    def _put_all(self) -> None:
        if not self._has_ledger:
            self._session.create_ledger(self._options.ledger_table)
            self._has_ledger = True
        if not self._begun:
            self._session.begin()
            self._session.limit_lock_waits(self._options.lock_timeout_ms)
            self._begun = True
        try:
            while self._rows:
                self._session.put(self._rows[: self._size])
                self._put += len(self._rows[: self._size])
                self._rows = self._rows[self._size :]
        except Exception as error:
            if sqlstate(error) in _HELD_BY_OTHERS:
                self._blocked = True  # the transaction keeps its earlier rows
                return
            raise

    def _begin_again(self, error: BaseException) -> None:
        if self._put:
            raise self._explain(error) from error
        self._session.leave()
        self._begun = False

    def _explain(self, error: BaseException) -> PenstockError:
        return self._session.explain(error, self._rows[: self._size])

    def _prepare(self, name: str) -> None:
        try:
            self._session.note(self._options.ledger_table, name)
            self._session.prepare(name)
        except Exception as error:
            raise refused(error, self._session.target, "prepare a transaction") from error

    def _hand_over(self, name: str) -> StagedRows:
        if self._held is not None:
            self._held.inc(len(self._rows))
        buffer = StagingBuffer(self._context)
        buffer.begin(self._checkpoint)
        buffer.write(pickle.dumps(self._rows, 5))
        self._rows = []
        (output,) = buffer.finish()
        return StagedRows(name, clock.now_ms(), output)


def _counter(context: WriterContext, name: str) -> Counter | None:
    return None if context.metrics is None else context.metrics.counter(name)


def _count(counter: Counter | None) -> None:
    if counter is not None:
        counter.inc()

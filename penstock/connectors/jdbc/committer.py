"""The committer of the database sink, on the driver.

Each transaction writes its own name into the ledger table. So if a transaction is not prepared (any more), the ledger says
whether it was committed, by a driver that died before it could report it, or lost. See docs/developers/decisions/0021-ledger-of-committed-transactions.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from penstock.connectors.base.retrying import Backoff, retry
from penstock.connectors.base.sink import CommitRequest, Committer
from penstock.connectors.base.staged_sinks import unpickled
from penstock.connectors.jdbc.failures import (
    DatabaseError,
    may_pass,
    named,
    sqlstate,
)
from penstock.connectors.jdbc.options import JdbcConnectionOptions, JdbcExactlyOnceOptions
from penstock.connectors.jdbc.postgres import PostgresSession
from penstock.connectors.jdbc.session import open_session
from penstock.connectors.jdbc.transactions import (
    Committable,
    PreparedTransaction,
    StagedRows,
    checkpoint_id_of,
    prefix_of,
    sink_prefix,
    subtask_of,
    tag_of,
)
from penstock.errors import PenstockError
from penstock.files.file_system import resolve
from penstock.time import clock

_log = logging.getLogger("penstock.connectors.jdbc")

_DAY_MS = 24 * 3600 * 1000
_ROWS = 5000
# How long handed-over rows wait for locks of other transactions.
_LOCK_TIMEOUT_MS = 3_000


class JdbcCommitter(Committer):
    """Commits prepared transactions and writes handed-over rows, each exactly once."""

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        sql: str,
        options: JdbcExactlyOnceOptions,
        sink_id: str,
    ) -> None:
        self._session = open_session(connection, sql)
        self._timeout_s = connection.timeout_seconds
        self._options = options
        self._sink_id = sink_id
        self._retrying(self._check, "be prepared for exactly-once writes")

    def commit(self, request: CommitRequest) -> Any:
        """Commit the checkpoint's transactions, unless they are committed already."""
        if not request.committables:
            return
        self._retrying(lambda: self._commit(request), "commit")
        for each in request.committables:
            if isinstance(each, StagedRows) and each.output.path is not None:
                files, path = resolve(each.output.path)
                files.delete(path)

    def clean_up(self, requests: Sequence[CommitRequest], job_id: str) -> None:
        """Roll back prepared transactions of the sink that no checkpoint names, and delete old entries of the ledger."""
        prefix = sink_prefix(job_id, self._sink_id)
        kept = {each.name for request in requests for each in request.committables}

        def end() -> None:
            if isinstance(self._session, PostgresSession):
                self._session.end_transactions_of(
                    tag_of(prefix)
                )  # of earlier attempts that are still running
            self._roll_back(lambda name: name not in kept, prefix)
            days = self._options.ledger_retention_days
            self._session.forget(self._options.ledger_table, prefix, days)

        self._retrying(end, "end transactions that are in doubt")

    def abandon(self, subtasks: Collection[int], job_id: str) -> None:
        """Roll back the prepared transactions of these subtasks, and terminate their connections."""
        prefix = sink_prefix(job_id, self._sink_id)

        def end() -> None:
            if isinstance(self._session, PostgresSession):
                for subtask in sorted(subtasks):
                    self._session.end_transactions_of(tag_of(prefix, subtask))
            self._roll_back(lambda name: subtask_of(name) in subtasks, prefix)

        self._retrying(end, "end transactions of tasks that have failed")

    def close(self) -> None:
        """Close the connection."""
        self._session.leave()

    # One attempt

    def _check(self) -> None:
        session = self._session
        if isinstance(session, PostgresSession):
            if int(session.setting("max_prepared_transactions")) == 0:
                raise DatabaseError(
                    "the database does not allow prepared transactions",
                    detail=f"max_prepared_transactions is 0 at {session.target.name}",
                    hint="set it to at least twice the sink's parallelism in postgresql.conf and restart the server, "
                    "or write at least once with JdbcSink.sink and an upsert",
                )
            self._warn_of_strangers(session)
        session.create_ledger(self._options.ledger_table)

    def _commit(self, request: CommitRequest) -> None:
        session, ledger = self._session, self._options.ledger_table
        items: list[Committable] = request.committables
        done = session.noted(ledger, [each.name for each in items])
        todo = [each for each in items if each.name not in done]
        # Rows come last: their locks may be held by one of the transactions, of any subtask.
        for each in todo:
            if isinstance(each, PreparedTransaction):
                self._commit_prepared(each)
        # A task that was retried has left the transactions of its first attempt. Everything up to this checkpoint that is to be
        # committed is in its request.
        named_here = {each.name for each in items}
        for prefix in sorted({prefix_of(each.name) for each in items}):
            self._roll_back(
                lambda name: (
                    name not in named_here and checkpoint_id_of(name) <= request.checkpoint_id
                ),
                prefix,
            )
        for each in todo:
            if isinstance(each, StagedRows):
                self._write(each, request.checkpoint_id)

    def _commit_prepared(self, each: PreparedTransaction) -> None:
        session = self._session
        assert isinstance(session, PostgresSession)
        if session.commit_prepared(each.name) or self._is_committed(each.name):
            return
        age = clock.now_ms() - each.prepared_ms
        if age > self._options.ledger_retention_days * _DAY_MS:
            _log.warning("%s is older than the ledger: assuming that it was committed", each.name)
            return
        raise DatabaseError(
            "a transaction of the checkpoint no longer exists",
            detail=f"'{each.name}' is neither prepared nor in the table {self._options.ledger_table} of committed transactions, "
            f"at {session.target.name}",
            hint="it was rolled back manually, or the database was restored to an earlier state: its records are lost. "
            "Start the job from an earlier checkpoint",
        )

    def _is_committed(self, name: str) -> bool:
        return name in self._session.noted(self._options.ledger_table, [name])

    def _write(self, held: StagedRows, checkpoint_id: int) -> None:
        try:
            self._try_to_write(held)
        except Exception as error:
            session = self._session
            if sqlstate(error) != "55P03" or not isinstance(session, PostgresSession):
                raise
            # A cancelled attempt may still be running, with a transaction that it will never end. If the transaction of a current
            # attempt is terminated instead, the job restarts and repeats it.
            if not session.end_transactions_of(tag_of(prefix_of(held.name))):
                raise self._given_way(held, checkpoint_id) from error
            self._try_to_write(held)

    def _try_to_write(self, held: StagedRows) -> None:
        session = self._session
        session.begin()
        if isinstance(session, PostgresSession):
            session.limit_lock_waits(_LOCK_TIMEOUT_MS)
        rows: Sequence[Any] = ()
        try:
            for part in unpickled(held.output):
                for start in range(0, len(part), _ROWS):
                    rows = part[start : start + _ROWS]
                    session.put(rows)
            session.note(self._options.ledger_table, held.name)
            session.commit()
        except Exception as error:
            session.leave()
            if isinstance(error, PenstockError) or may_pass(error):
                raise
            raise session.explain(error, rows) from error

    def _given_way(self, held: StagedRows, checkpoint_id: int) -> DatabaseError:
        """Roll back the later transactions that hold locks on these rows, so that the job repeats them; return the error."""
        self._roll_back(lambda name: checkpoint_id_of(name) > checkpoint_id, prefix_of(held.name))
        return DatabaseError(
            "rows of the table are locked by other transactions",
            detail=f"waited {_LOCK_TIMEOUT_MS / 1000:g} s, at {self._session.target.name}, "
            f"statement: {' '.join(self._session.sql.split())}",
            hint="key the stream by the table's primary key before the sink, so that one subtask writes each row; "
            "or check pg_locks for other sessions that hold the locks",
        )

    def _roll_back(self, is_stray: Callable[[str], bool], prefix: str) -> None:
        session = self._session
        if not isinstance(session, PostgresSession):
            return
        for name in session.prepared(prefix):
            if is_stray(name):
                _log.info("rolling back %s: no checkpoint refers to it", name)
                session.roll_back_prepared(name)

    def _warn_of_strangers(self, session: PostgresSession) -> None:
        others = [name for name in session.prepared("penstock:") if f":{self._sink_id}:" in name]
        if others:
            _log.info(
                "%d transactions of this sink are in doubt at %s, such as '%s': those of this job are committed or rolled back now, those of other "
                "jobs when they restart, or by JdbcSink.roll_back_in_doubt",
                len(others),
                session.target.name,
                others[0],
            )

    def _retrying(self, action: Callable[[], None], doing: str) -> None:
        """Run an action, with retries while the database is unreachable, for the connection timeout."""
        name, since = self._session.target.name, time.monotonic()
        within_ms = self._timeout_s * 1000
        backoff = Backoff(100, 2000, within_ms=within_ms, jitter=0, cuts_last_pause=False)

        def attempt() -> None:
            try:
                action()
            except Exception:
                self._session.leave()
                raise

        with named(self._session.target, doing):
            retry(
                attempt,
                backoff.pauses(since),
                when=may_pass,
                before_pause=lambda error: _log.info(
                    "retrying to %s at %s: %s", doing, name, error
                ),
            )


def roll_back_in_doubt(connection: JdbcConnectionOptions, prefix: str) -> list[str]:
    """Roll back all prepared transactions whose names start with a prefix; return their names."""
    session = PostgresSession(connection, "")
    try:
        with named(session.target, "end transactions that are in doubt"):
            return [name for name in session.prepared(prefix) if session.roll_back_prepared(name)]
    finally:
        session.leave()

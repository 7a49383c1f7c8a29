"""A sink that runs a statement for every record."""

from __future__ import annotations

from typing import Any

from penstock.common.type_information import TypeInformation
from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import (
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    text,
)
from penstock.connectors.jdbc.parameters import Parameters, Setter
from penstock.connectors.jdbc.postgres import PostgresSession, check_table_name
from penstock.connectors.jdbc.session import open_session
from penstock.connectors.jdbc.statements import check_sql, count_parameters
from penstock.connectors.jdbc.transactions import job_prefix, short_hash
from penstock.errors import ArgumentError, ArgumentTypeError


class JdbcSink(Sink):
    """Writes records to a database with a statement whose `?` are a record's fields. Created by `sink` or `exactly_once_sink`.

    >>> from penstock.common import Types
    >>> options = JdbcConnectionOptions("jdbc:postgresql://localhost:5432/shop")
    >>> JdbcSink.sink(
    ...     "INSERT INTO orders (id, amount) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount",
    ...     Types.ROW([Types.LONG(), Types.DOUBLE()]),
    ...     options,
    ... )
    JdbcSink('postgresql://localhost:5432/shop', at least once)
    """

    def __init__(
        self,
        sql: str,
        type_info: TypeInformation | None,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
        parameter_setter: Setter | None = None,
    ) -> None:
        self._sql = check_sql(sql)
        self._connection = check_options(jdbc_connection_options)
        if jdbc_execution_options is not None:
            _check_kind(jdbc_execution_options, JdbcExecutionOptions, "jdbc_execution_options")
        self._execution = jdbc_execution_options or JdbcExecutionOptions.defaults()
        if jdbc_exactly_once_options is not None:
            _check_kind(
                jdbc_exactly_once_options, JdbcExactlyOnceOptions, "jdbc_exactly_once_options"
            )
            if not check_table_name(jdbc_exactly_once_options.ledger_table):
                raise ArgumentError(
                    "invalid name of the ledger table",
                    detail=f"got '{jdbc_exactly_once_options.ledger_table}'",
                    hint="use letters, digits and underscores, optionally with a schema and a dot before it",
                )
        self._exactly_once = jdbc_exactly_once_options
        self._parameters = Parameters(count_parameters(sql), type_info, parameter_setter)

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation | None,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        *,
        parameter_setter: Setter | None = None,
    ) -> JdbcSink:
        """Create an at-least-once sink: after a failure, records since the last checkpoint are written again.

        With an idempotent statement (an upsert) the table has the same content as if they had been written once.
        `parameter_setter` is a function of the record that returns the parameters; the default is the record's fields.
        """
        return JdbcSink(
            sql,
            type_info,
            jdbc_connection_options,
            jdbc_execution_options,
            None,
            parameter_setter,
        )

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation | None,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
        *,
        parameter_setter: Setter | None = None,
    ) -> JdbcSink:
        """Create an exactly-once sink, for any statement.

        In PostgreSQL every checkpoint is a transaction of each subtask, prepared before the checkpoint and committed after it. In
        other databases the records of a checkpoint are kept on checkpoint storage, and the driver writes them in one transaction
        when it is complete.
        """
        return JdbcSink(
            sql,
            type_info,
            jdbc_connection_options,
            jdbc_execution_options,
            jdbc_exactly_once_options or JdbcExactlyOnceOptions.defaults(),
            parameter_setter,
        )

    @staticmethod
    def roll_back_in_doubt(
        jdbc_connection_options: JdbcConnectionOptions, job_id: str
    ) -> list[str]:
        """Roll back the prepared transactions of a job that will never be started again; return their names.

        A job that is restarted, from its checkpoint and with its id, ends them itself.
        """
        from penstock.connectors.jdbc.committer import roll_back_in_doubt

        return roll_back_in_doubt(
            check_options(jdbc_connection_options), job_prefix(text(job_id, "the id of the job"))
        )

    @property
    def sink_id(self) -> str:
        """The id that distinguishes this sink's transactions from those of other sinks in the same job."""
        assert self._exactly_once is not None
        prefix = self._exactly_once.transaction_prefix
        return prefix or short_hash(self._connection.target.name, self._sql)

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Open the writer of one subtask."""
        from penstock.connectors.jdbc.writers import BatchWriter, StagingWriter, TwoPhaseWriter

        session = open_session(self._connection, self._sql)
        if self._exactly_once is None:
            return BatchWriter(session, self._parameters, self._execution, context)
        if not isinstance(session, PostgresSession):
            return StagingWriter(self._parameters, context, self.sink_id)
        return TwoPhaseWriter(
            session, self._parameters, self._execution, self._exactly_once, context, self.sink_id
        )

    def create_committer(self) -> Committer | None:
        """Create the committer; it checks that the database supports exactly-once writes."""
        from penstock.connectors.jdbc.committer import JdbcCommitter

        if self._exactly_once is None:
            return None
        return JdbcCommitter(self._connection, self._sql, self._exactly_once, self.sink_id)

    def output_path(self) -> str | None:
        """Return a name that is unique per sink: two exactly-once sinks must not share their transactions."""
        if self._exactly_once is None:
            return None
        return f"{self._connection.target.name} (transaction_prefix '{self.sink_id}')"

    def __repr__(self) -> str:
        how = "at least once" if self._exactly_once is None else "exactly once"
        return f"JdbcSink({self._connection.target.name!r}, {how})"


def check_options(options: object) -> JdbcConnectionOptions:
    """Return connection options after checking their type."""
    return _check_kind(options, JdbcConnectionOptions, "jdbc_connection_options")  # type: ignore[no-any-return]


def _check_kind(value: object, kind: type, name: str) -> Any:
    if isinstance(value, kind):
        return value
    hint = f"pass a {kind.__name__}, the result of its builder"
    raise ArgumentTypeError(
        f"{name} is not {kind.__name__}", detail=f"got {type(value).__name__}", hint=hint
    )

"""The SQL client: executes statements one after the other, shows their results, and keeps track of the jobs that it started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cli.sql.output import SqlClientOutput
from penstock.options import EXECUTION_MODE
from penstock.options.table import RESULT_MODE
from penstock.sql.parse.parser import parse
from penstock.sql.parse.splitting import StatementPiece, split_statements
from penstock.sql.parse.statements import QueryStatement, SetStatement, Statement

if TYPE_CHECKING:
    from penstock.table import TableEnvironment, TableResult

_TIMEOUT_S = 5.0
_LEAVE = ("quit", "exit", "\\q")
_HELP = ("help", "\\h", "\\?", "?")
HELP_TEXT = """\
Statements end with a semicolon and may span several lines.
  \\q, QUIT, EXIT, Ctrl-D    quit
  \\h, HELP                  show this help
  CLEAR, Ctrl-L             clear the screen
  Ctrl-C                    discard the input; stop a running query
  Ctrl-R, up, down          search and browse the history
  SET;                      list options; SET 'key' = 'value' sets one, RESET 'key' resets it
  SET 'sql-client.execution.result-mode' = 'table' | 'changelog' | 'tableau';
                            show rows as an updating table, as a changelog, or as plain lines
  SHOW TABLES; DESCRIBE t; EXPLAIN SELECT ...; SHOW JOBS; STOP JOB 'id';
"""


class ClientExit(Exception):  # noqa: N818 - not an error
    """The user quits the client."""


class SqlClient:
    """Executes statements in a TableEnvironment. `show_rows` shows the rows of a query; without it they are printed.

    Jobs in a session continue after the client exits. Others run in its process: it waits for them, or cancels them.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        output: SqlClientOutput,
        *,
        in_session: bool = False,
        eager: bool = False,
    ) -> None:
        self.environment = environment
        self.output = output
        self._in_session = in_session
        self._eager = eager  # show rows of streams as soon as they arrive
        self.show_rows: Callable[[TableResult, str], None] | None = None
        self._jobs: list[tuple[str, Any]] = []

    # --- statements ---------------------------------------------------------------------------

    def run_script(self, text: str) -> bool:
        """Execute all statements of a script up to the first one that fails; return whether all succeeded."""
        pieces, rest = split_statements(text)
        if rest:
            pieces.append(StatementPiece(rest, text[: text.rindex(rest)].count("\n") + 1))
        try:
            return all(self._run_piece(piece, many=len(pieces) > 1) for piece in pieces)
        except ClientExit:
            return True
        except KeyboardInterrupt:
            return self._stopped()

    def _run_piece(self, piece: StatementPiece, *, many: bool) -> bool:
        done = self._attempt(piece.text)
        if not done and many:
            self.output.note(f"the statement that failed starts in line {piece.line}")
        return done

    def run(self, text: str) -> bool:
        """Execute one statement or client command and print errors. Return whether it succeeded."""
        try:
            return self._attempt(text)
        except KeyboardInterrupt:
            return self._stopped()

    def _stopped(self) -> bool:
        self.output.note("stopped")
        return False

    def _attempt(self, text: str) -> bool:
        command = text.strip().rstrip(";").strip().lower()
        if command in _LEAVE:
            raise ClientExit
        if command in _HELP:
            self.output.text(HELP_TEXT)
            return True
        if command == "clear":
            self.output.clear()
            return True
        try:
            for statement in parse(text):
                self._execute(statement)
        except Exception as error:  # noqa: BLE001 - user code and libraries may raise anything
            self.output.error(error)
            return False
        return True

    def _execute(self, statement: Statement) -> None:
        if self._eager:
            self._choose_mode(statement)
        result = self.environment.execute_sql(statement.text)
        client = result.get_job_client()
        if isinstance(statement, QueryStatement):
            self._show(result)
        elif client is not None:  # INSERT, a statement set, CREATE TABLE AS
            self._keep(result, client)
        else:
            self.output.result(result)

    def _choose_mode(self, statement: Statement) -> None:
        """Use pipelined mode for streaming jobs and epoch mode for batch jobs, unless the user sets the mode."""
        if isinstance(statement, SetStatement) and statement.key == EXECUTION_MODE.key:
            self._eager = False
            return
        config = self.environment.get_config()
        if config.is_batch:
            config.reset(EXECUTION_MODE.key)
        else:
            config.set(EXECUTION_MODE.key, "pipelined")

    # --- results ------------------------------------------------------------------------------

    @property
    def result_mode(self) -> str:
        """How rows are shown: table, changelog or tableau."""
        return self.environment.get_config().get(RESULT_MODE.key, RESULT_MODE.default).lower()

    def _show(self, result: TableResult) -> None:
        if self.show_rows is not None and self.result_mode != "tableau":
            self.show_rows(result, self.result_mode)
            return
        try:
            self.output.result(result)
        except KeyboardInterrupt:
            cancel(result)
            raise

    # --- jobs ---------------------------------------------------------------------------------

    def _keep(self, result: TableResult, client: Any) -> None:
        job_id = str(client.get_job_id())
        self.output.job(job_id)
        if not self._in_session:
            self._jobs.append((job_id, result))

    def running_jobs(self) -> list[str]:
        """Return the ids of the INSERT jobs that still run."""
        return [job_id for job_id, result in self._jobs if not _is_over(result)]

    def wait_for_jobs(self) -> bool:
        """Wait until the started jobs have ended; Ctrl-C cancels them. Return whether all of them succeeded."""
        well = True
        for job_id, result in self._jobs:
            try:
                result.wait()
            except KeyboardInterrupt:
                self.cancel_jobs()
                return False
            except Exception as error:  # noqa: BLE001 - user code and libraries may raise anything
                self.output.error(error)
                well = False
            else:
                self.output.note(f"job {job_id} has finished")
        return well

    def cancel_jobs(self) -> None:
        """Cancel the running jobs."""
        for _, result in self._jobs:
            if not _is_over(result):
                cancel(result)


def cancel(result: TableResult) -> None:
    """Cancel the job of a result if it still runs."""
    client = result.get_job_client()
    if client is not None and not _is_over(result):
        with contextlib.suppress(
            TimeoutError
        ):  # in epoch mode the job ends only after the current epoch
            client.cancel().result(_TIMEOUT_S)


def _is_over(result: TableResult) -> bool:
    client = result.get_job_client()
    if client is None:
        return True
    status = client.get_job_status().result()
    return status.name in ("FINISHED", "FAILED", "CANCELED")

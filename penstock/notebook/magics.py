"""The magics `%flink_sql`, `%%flink_sql` and `%flink_cluster`. The only module that imports IPython."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import HTML, display

from penstock.errors import PenstockError
from penstock.notebook.live_result import LiveResult
from penstock.options import PROGRESS
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import QueryStatement, Statement
from penstock.table import EnvironmentSettings, TableEnvironment

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import DisplayHandle

    from penstock.client.local_cluster import LocalCluster
    from penstock.table import TableResult

_NAME = "t_env"
_CLUSTERS = ("local", "spark")


@contextlib.contextmanager
def _quiet(environment: TableEnvironment) -> Iterator[None]:
    """Let jobs that are started meanwhile say nothing in the cell, unless the user has chosen how they show their progress."""
    config = environment.get_config()
    chosen = config.get(PROGRESS.key, "")
    if not chosen:
        config.set(PROGRESS.key, "never")
    try:
        yield
    finally:
        if not chosen:
            config.reset(PROGRESS.key)


@magics_class
class PenstockMagics(Magics):
    """SQL in cells, and where their jobs run."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._cluster: LocalCluster | None = None

    @magic_arguments()
    @argument("-e", "--env", help="the TableEnvironment to use: the name of a variable")
    @argument("-o", "--output", help="a variable that gets the last query as a Table")
    @argument("-r", "--rows", type=int, default=20, help="rows to show, 20 by default")
    @argument(
        "-w", "--width", type=int, default=100, help="letters of a value to show, 100 by default"
    )
    @argument("-n", "--changes", type=int, help="stop queries after so many changes")
    @argument(
        "-c",
        "--changelog",
        action="store_true",
        help="show the changes instead of the rows that are left",
    )
    @line_cell_magic
    def flink_sql(self, line: str, cell: str | None = None) -> None:
        """Execute SQL statements. Rows of queries are shown while they run; interrupt the cell to stop them.

        %flink_sql SELECT ...       one statement; options are for cells
        %%flink_sql [options]       statements, separated by semicolons
        """
        given = parse_argstring(self.flink_sql, "" if cell is None else line)
        for name in ("rows", "width", "changes"):
            value = getattr(given, name)
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be at least 1, got {value}")
        text = line if cell is None else cell
        if not text.strip():
            raise UsageError("no statement: write it behind %flink_sql, or below %%flink_sql")
        environment = self._environment(given.env)
        try:
            for statement in parse(text):
                self._execute(environment, statement, given)
        except PenstockError as error:
            # The frames are those of this package: the message says what is wrong.
            raise error.with_traceback(None) from None

    def _execute(
        self, environment: TableEnvironment, statement: Statement, given: Namespace
    ) -> None:
        with _quiet(environment):
            result = environment.execute_sql(statement.text)
        if not isinstance(statement, QueryStatement):
            display(result.get_job_client() or result)
            return
        if given.output is not None:
            self.shell.user_ns[given.output] = environment.sql_query(statement.text)
        self._follow(environment, result, given)

    @staticmethod
    def _follow(environment: TableEnvironment, result: TableResult, given: Namespace) -> None:
        handle: DisplayHandle | None = None

        def show(html: str) -> None:
            nonlocal handle
            if handle is None:
                handle = display(HTML(html), display_id=True)
            else:
                handle.update(HTML(html))

        LiveResult(
            result,
            show,
            changelog=given.changelog,
            most_rows=given.rows,
            widest=given.width,
            most_changes=given.changes,
            zone=environment.get_config().zone,
        ).follow()

    def _environment(self, name: str | None) -> TableEnvironment:
        """Return the environment with a name, the only one that there is, or a new one as `t_env`."""
        variables: Mapping[str, Any] = self.shell.user_ns
        if name is not None:
            found = variables.get(name)
            if not isinstance(found, TableEnvironment):
                raise UsageError(f"'{name}' is not a TableEnvironment")
            return found
        if isinstance(variables.get(_NAME), TableEnvironment):
            return variables[_NAME]  # type: ignore[no-any-return]
        others = {
            key: value
            for key, value in variables.items()
            if isinstance(value, TableEnvironment) and not key.startswith("_")
        }
        if len({id(each) for each in others.values()}) > 1:
            raise UsageError(
                f"several TableEnvironments: choose one with -e, of {', '.join(sorted(others))}"
            )
        if others:
            return next(iter(others.values()))
        made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        self.shell.user_ns[_NAME] = made
        return made

    @line_magic
    def flink_cluster(self, line: str) -> None:
        """Choose where jobs run: `local`, in this process and without Spark, or `spark`."""
        from penstock.client.local_cluster import LocalCluster

        wanted = line.strip()
        if wanted not in _CLUSTERS:
            raise UsageError(f"write %flink_cluster local, or %flink_cluster spark; got '{wanted}'")
        self.leave()
        if wanted == "local":
            self._cluster = LocalCluster("auto")
            self._cluster.__enter__()

    def leave(self) -> None:
        """Run jobs on Spark again."""
        if self._cluster is not None:
            self._cluster.__exit__(None, None, None)
            self._cluster = None

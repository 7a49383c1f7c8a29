"""SQL files as programs, for `penstock run` and `penstock plan`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.sql.client import SqlClient
from penstock.cli.sql.environments import create_environment
from penstock.cli.sql.output import PlainOutput
from penstock.options import EXECUTION_ATTACHED

if TYPE_CHECKING:
    from penstock.table import TableResult


class ScriptOutput(PlainOutput):
    """Prints rows, jobs and errors, but no OK after a definition."""

    def result(self, result: TableResult) -> None:
        """Print rows."""
        from penstock.table import ResultKind

        if result.get_result_kind() is ResultKind.SUCCESS_WITH_CONTENT:
            super().result(result)


def execute_file(path: str) -> None:
    """Execute the statements of a file and wait for the jobs that they start; exit with code 1 if one failed."""
    environment = create_environment()
    client = SqlClient(environment, ScriptOutput())
    done = client.run_script(Path(path).read_text(encoding="utf-8"))
    if environment.get_config().effective().get(EXECUTION_ATTACHED):
        done = client.wait_for_jobs() and done
    if not done:
        sys.exit(1)


# The program that runs a SQL file. Its Python frames are not the user's.
PROGRAM = f"import {__name__}\n{__name__}.{execute_file.__name__}(__file__)\n"

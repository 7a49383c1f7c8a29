"""`penstock sql`: statements from a prompt, a file or the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.program_options import add_json, add_settings

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_EPILOG = """\
Without -e and -f a prompt starts: statements end with a semicolon, \\q quits, \\h shows help.
SET 'sql-client.execution.result-mode' = 'table', 'changelog' or 'tableau' sets how rows are shown.
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "sql",
        help="execute SQL",
        description="Execute SQL statements: from a prompt, a file or the command line.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(call=_call)
    parser.add_argument(
        "-e",
        "--execute",
        dest="statements",
        action="append",
        default=[],
        metavar="SQL",
        help="execute these statements and exit; repeatable",
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="execute the statements in this file and exit"
    )
    parser.add_argument(
        "-i",
        "--init",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="execute the statements in this file first; repeatable",
    )
    add_settings(parser)
    parser.add_argument(
        "--py-files",
        metavar="PATHS",
        help="comma-separated Python files and archives with functions that statements use",
    )
    parser.add_argument(
        "--session",
        metavar="HOST:PORT",
        help="run INSERT jobs in a session (default: this user's), where they continue after the client exits",
    )
    parser.add_argument(
        "--no-spark",
        dest="spark",
        action="store_false",
        help="run in this process without Spark, to try statements out with little data",
    )
    add_json(parser)


def _call(given: argparse.Namespace) -> int:
    from penstock.cli.sql.starting import start
    from penstock.pyflink_compat import pyflink_names

    # Modules with functions (CREATE FUNCTION ... LANGUAGE PYTHON) may use `import pyflink`.
    with pyflink_names():
        return start(given)

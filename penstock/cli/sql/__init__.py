"""`penstock sql`: statements from a prompt, a file or the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.program_options import add_json, add_settings

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_EPILOG = """\
Without -e and -f there is a prompt: statements end with a semicolon, \\q leaves, \\h helps.
SET 'sql-client.execution.result-mode' = 'table', 'changelog' or 'tableau' says how rows are shown.
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
        help="execute these statements and end; may be given many times",
    )
    parser.add_argument(
        "-f", "--file", metavar="FILE", help="execute the statements of this file and end"
    )
    parser.add_argument(
        "-i",
        "--init",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="execute the statements of this file first; may be given many times",
    )
    add_settings(parser)
    parser.add_argument(
        "--py-files",
        metavar="PATHS",
        help="Python files and archives with functions that statements use, separated by commas",
    )
    parser.add_argument(
        "--session",
        metavar="HOST:PORT",
        help="run the jobs of INSERT in a session, this user's or the one that listens there, where they go on without the client",
    )
    parser.add_argument(
        "--no-spark",
        dest="spark",
        action="store_false",
        help="run in this process, to try statements out with little data",
    )
    add_json(parser)


def _call(given: argparse.Namespace) -> int:
    from penstock.cli.sql.starting import start
    from penstock.pyflink_compat import pyflink_names

    # Modules with functions (CREATE FUNCTION ... LANGUAGE PYTHON) may say `import pyflink`.
    with pyflink_names():
        return start(given)

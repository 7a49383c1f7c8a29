"""The `penstock` command: its sub-commands and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import penstock
from penstock.errors import PenstockError

_RUN_EPILOG = """\
Options of penstock stand before the program, its own arguments after it:

  penstock run -p 4 -D execution.checkpointing.interval=10s job.py --input in.csv

What the program itself sets wins over -D, -p and -m. It may say 'import pyflink' or 'import penstock'.
"""


def create_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="penstock", description="Flink's streaming model, in Python, on Spark."
    )
    parser.add_argument("--version", action="version", version=f"penstock {penstock.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run a program",
        description="Run a program written for Penstock or, unchanged, for PyFlink.",
        epilog=_RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument(
        "-D",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an option; may be given many times",
    )
    run.add_argument(
        "-p", "--parallelism", type=int, metavar="N", help="parallelism of operators that set none"
    )
    run.add_argument("-m", "--master", metavar="URL", help="Spark master, such as local[4] or yarn")
    run.add_argument(
        "-s",
        "--from",
        dest="recover",
        metavar="PATH",
        help="start from the checkpoints in this directory, or from one checkpoint",
    )
    run.add_argument(
        "--py-files",
        metavar="PATHS",
        help="Python files and archives that tasks need, separated by commas",
    )
    run.add_argument(
        "--no-pyflink",
        dest="pyflink",
        action="store_false",
        help="let 'import pyflink' mean PyFlink itself",
    )
    run.add_argument(
        "--no-spark",
        dest="spark",
        action="store_false",
        help="run in this process, to try a program out with little data",
    )
    run.add_argument("script", metavar="PROGRAM", help="the Python file to run")
    run.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="what the program gets"
    )
    commands.add_parser("info", help="show versions and where they are")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = create_parser().parse_args(arguments)
    try:
        if given.command == "run":
            from penstock.cli.run import RunOptions, run

            return run(
                RunOptions(
                    script=given.script,
                    arguments=tuple(given.arguments),
                    options=tuple(given.options),
                    parallelism=given.parallelism,
                    master=given.master,
                    recover=given.recover,
                    python_files=given.py_files,
                    pyflink=given.pyflink,
                    spark=given.spark,
                )
            )
        from penstock.cli.info import info

        sys.stdout.write(info())
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return 2
    return 0

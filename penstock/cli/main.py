"""The `penstock` command: its sub-commands and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import penstock
from penstock.cli import jobs, replay, state
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_RUN_EPILOG = """\
Options of penstock stand before the program, its own arguments after it:

  penstock run -p 4 -D execution.checkpointing.interval=10s job.py --input in.csv

What the program itself sets wins over -D, -p and -m. It may say 'import pyflink' or 'import penstock'.
"""


def create_parser() -> argparse.ArgumentParser:
    """Describe the command line.

    Every sub-command sets `call`: the function that takes what was given and returns the exit code.
    """
    parser = argparse.ArgumentParser(
        prog="penstock", description="Flink's streaming model, in Python, on Spark."
    )
    parser.add_argument("--version", action="version", version=f"penstock {penstock.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_info(commands)
    jobs.add_commands(commands)
    state.add_commands(commands)
    replay.add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = create_parser().parse_args(arguments)
    try:
        code: int = given.call(given)
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return 2
    return code


def _add_run(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        help="run a program",
        description="Run a program written for Penstock or, unchanged, for PyFlink.",
        epilog=_RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.set_defaults(call=_run)
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
        help="start from a savepoint, from one checkpoint, or from the checkpoints in a directory",
    )
    run.add_argument(
        "-n",
        "--allow-non-restored-state",
        action="store_true",
        help="leave out state of operators that the program no longer has",
    )
    run.add_argument(
        "-rm",
        "--claim-mode",
        type=str.upper,
        choices=["NO_CLAIM", "CLAIM"],
        metavar="MODE",
        help="who owns what -s names: NO_CLAIM, still you (the default); CLAIM, the job, which "
        "deletes it in time",
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
    run.add_argument(
        "--verbose",
        action="store_true",
        help="show all frames of a failure, those of Penstock and of Spark too",
    )
    run.add_argument("script", metavar="PROGRAM", help="the Python file to run")
    run.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="what the program gets"
    )


def _run(given: argparse.Namespace) -> int:
    from penstock.cli.run import RunOptions, run

    return run(
        RunOptions(
            script=given.script,
            arguments=tuple(given.arguments),
            options=tuple(given.options),
            parallelism=given.parallelism,
            master=given.master,
            recover=given.recover,
            allow_non_restored_state=given.allow_non_restored_state,
            claim_mode=given.claim_mode,
            python_files=given.py_files,
            pyflink=given.pyflink,
            spark=given.spark,
            verbose=given.verbose,
        )
    )


def _add_info(commands: Commands) -> None:
    info = commands.add_parser(
        "info",
        help="show versions and where they are",
        description="Show versions and where they are: what a report of a problem should say.",
    )
    info.set_defaults(call=_info)


def _info(_given: argparse.Namespace) -> int:
    from penstock.cli.info import info

    sys.stdout.write(info())
    return 0

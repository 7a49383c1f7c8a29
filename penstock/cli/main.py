"""The `penstock` command: its sub-commands and their options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import penstock
from penstock.cli import (
    completion,
    config,
    doctor,
    info,
    jobs,
    kubernetes,
    logs,
    page,
    plan,
    replay,
    session,
    sql,
    state,
)
from penstock.cli.examples import add_examples
from penstock.cli.output import report
from penstock.cli.program_options import add_settings
from penstock.cli.submit import with_session_value
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_WRONG, _INTERRUPTED, _NO_READER = 2, 130, 141
_RUN_EPILOG = """\
Options of penstock stand before the program, its own arguments after it.
-D, -p and -m count whatever the program sets; what it sets goes before penstock.yaml. It may say 'import pyflink' or 'import penstock'.
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
    plan.add_commands(commands)
    config.add_commands(commands)
    info.add_commands(commands)
    jobs.add_commands(commands)
    page.add_commands(commands)
    doctor.add_commands(commands)
    logs.add_commands(commands)
    state.add_commands(commands)
    replay.add_commands(commands)
    sql.add_commands(commands)
    session.add_commands(commands)
    kubernetes.add_commands(commands)
    completion.add_commands(commands)
    add_examples(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    It is 0, 1 if what was asked for failed, 2 if the command line or an option is wrong, 130 after Ctrl-C, and 141 if nobody reads the
    output any more.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = create_parser()
    if words[:1] == [completion.ASK]:
        return completion.answer(parser, words[1:])
    given = parser.parse_args(with_session_value(words))
    try:
        code: int = given.call(given)
        sys.stdout.flush()
    except PenstockError as error:
        report(error, as_json=getattr(given, "json", False))
        return _WRONG
    except BrokenPipeError:
        # Python would try to write the rest once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NO_READER
    except KeyboardInterrupt:
        return _INTERRUPTED
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
    add_settings(run)
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
        "--session",
        metavar="HOST:PORT",
        help="send the program to a session, this user's or the one that listens there; see 'penstock session'",
    )
    run.add_argument(
        "-d",
        "--detached",
        action="store_true",
        help="return when the job runs, and leave it running in the background",
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
    run.add_argument(
        "--json",
        action="store_true",
        help="print the jobs and what became of them, as JSON; what the program prints goes to standard error",
    )
    run.add_argument("script", metavar="PROGRAM", help="the Python file to run, or a file of SQL")
    run.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="what the program gets"
    )


def _run(given: argparse.Namespace) -> int:
    if given.detached and given.session is None:
        from penstock.cli.submit import run_detached

        return run_detached(_without_detached(given), as_json=given.json)
    from penstock.cli.run import RunOptions, run

    options = RunOptions(
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
        config=given.config,
        session=given.session,
        detached=given.detached,
    )
    if not given.json:
        return _ended(run(options))
    from penstock.cli.output import print_json
    from penstock.cli.recording import JobRecording

    recording = JobRecording()
    code = _ended(run(options, recording))
    print_json(recording.to_json(code))
    return code


def _ended(code: int) -> int:
    """Say what a program has defined and not executed, unless it failed; return its exit code."""
    from penstock.datastream._unexecuted import forget_unexecuted, warn_of_unexecuted

    forget_unexecuted() if code else warn_of_unexecuted()
    return code


def _without_detached(given: argparse.Namespace) -> list[str]:
    """Return the arguments of a `penstock run` that is not detached itself."""
    named = {
        "--parallelism": given.parallelism,
        "--master": given.master,
        "--from": given.recover,
        "--claim-mode": given.claim_mode,
        "--py-files": given.py_files,
        "--config": given.config,
    }
    flags = {
        "--allow-non-restored-state": given.allow_non_restored_state,
        "--no-pyflink": not given.pyflink,
        "--no-spark": not given.spark,
        "--verbose": given.verbose,
    }
    return [
        *(part for option in given.options for part in ("-D", option)),
        *(f"{name}={value}" for name, value in named.items() if value is not None),
        *(name for name, is_given in flags.items() if is_given),
        given.script,
        *given.arguments,
    ]

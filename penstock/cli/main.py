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
    init,
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
from penstock.processes.exit_status import note_exit_code

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

_WRONG, _INTERRUPTED, _NO_READER = 2, 130, 141
_RUN_EPILOG = """\
Options of penstock come before the program, the program's own arguments after it.
-D, -p and -m override what the program sets; the program overrides penstock.yaml. It may use 'import pyflink' or 'import penstock'.
"""


def create_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line.

    Every sub-command sets `call`: the function that takes the parsed arguments and returns the exit code.
    """
    parser = argparse.ArgumentParser(
        prog="penstock", description="Flink's streaming model, in Python, on Spark."
    )
    parser.add_argument("--version", action="version", version=f"penstock {penstock.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    init.add_commands(commands)
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

    It is 0; 1 if the operation failed; 2 if the command line or an option is wrong; 130 after Ctrl-C; 141 if the reader of the output
    has closed the pipe.
    """
    code = _command(list(sys.argv[1:] if arguments is None else arguments))
    if arguments is None:
        note_exit_code(code)
    return code


def _command(words: list[str]) -> int:
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
        # At exit Python would flush the rest into the closed pipe and fail again.
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
        help="start from a savepoint, a checkpoint, or the latest checkpoint in a directory",
    )
    run.add_argument(
        "-n",
        "--allow-non-restored-state",
        action="store_true",
        help="skip state of operators that the program no longer has",
    )
    run.add_argument(
        "-rm",
        "--claim-mode",
        type=str.upper,
        choices=["NO_CLAIM", "CLAIM"],
        metavar="MODE",
        help="who owns the snapshot given by -s: NO_CLAIM (default) leaves it to you, CLAIM lets the "
        "job delete it once unneeded",
    )
    run.add_argument(
        "--py-files",
        metavar="PATHS",
        help="comma-separated Python files and archives that tasks need",
    )
    run.add_argument(
        "--session",
        metavar="HOST:PORT",
        help="submit the program to a session, by default this user's; see 'penstock session'",
    )
    run.add_argument(
        "-d",
        "--detached",
        action="store_true",
        help="return once the job runs, and leave it running in the background",
    )
    run.add_argument(
        "--no-pyflink",
        dest="pyflink",
        action="store_false",
        help="do not alias pyflink to Penstock",
    )
    run.add_argument(
        "--no-spark",
        dest="spark",
        action="store_false",
        help="run in this process without Spark, to try a program out with little data",
    )
    run.add_argument(
        "--verbose",
        action="store_true",
        help="show full tracebacks, with the frames of Penstock and Spark",
    )
    run.add_argument(
        "--json",
        action="store_true",
        help="print the jobs and their final states as JSON; the program's output goes to standard error",
    )
    run.add_argument("script", metavar="PROGRAM", help="the Python or SQL file to run")
    run.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments passed to the program"
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
    """Warn of streams that a program has defined and not executed, unless it failed; return its exit code."""
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

"""Commands that talk to running jobs: list, job, savepoint, stop, cancel, rescale. Their options, and which function they call.

`penstock.cli.job_commands` carries the commands out: it finds the job (`penstock.cli.reach`), sends a REST request, and waits for its
result. In the process of the job, `penstock.rest.resources` answers: `jobs` (list, job, cancel), `savepoints` (savepoint, stop, cancel
with a savepoint) and `rescaling`. `penstock.cli.examples` has the examples of their help.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_JOB_EPILOG = (
    "JOB is a job id, a unique id prefix, or a job name. Jobs of this user on this machine are found "
    "automatically; -m HOST:PORT asks one process, on this machine or another."
)


def add_commands(commands: Commands) -> None:
    """Add the commands of this module to the command line."""
    _add_list(commands)
    _add_job(commands)
    _add_savepoint(commands)
    _add_stop(commands)
    _add_cancel(commands)
    _add_rescale(commands)


def add_job_command(
    commands: Commands, name: str, call: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    """Add a command that sends requests to the process of a job."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=None if name == "list" else _JOB_EPILOG,
    )
    parser.set_defaults(call=lambda given: _call(call, given))
    parser.add_argument("-m", "--address", metavar="HOST:PORT", help="address of the REST API")
    parser.add_argument(
        "--token",
        help="token of the REST API on another machine; or set PENSTOCK_TOKEN, which other users cannot see",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _call(call: Callable[[argparse.Namespace], int], given: argparse.Namespace) -> int:
    """Return exit code 1 for a failed request; wrong usage and other errors have exit code 2."""
    from penstock.cli.output import report
    from penstock.errors import CheckpointError, JobRequestError

    try:
        return call(given)
    except (JobRequestError, CheckpointError) as error:
        report(error, as_json=given.json)
        return 1


def _add_detach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--detach",
        action="store_true",
        help="do not wait for the result; print the id of the request",
    )


def _add_list(commands: Commands) -> None:
    def call(given: argparse.Namespace) -> int:
        from penstock.cli.job_commands import list_jobs

        return list_jobs(
            given.address, given.token, ended=given.all and not given.running, as_json=given.json
        )

    parser = add_job_command(commands, "list", call, "list jobs")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-r", "--running", action="store_true", help="only running jobs (the default)"
    )
    which.add_argument(
        "-a", "--all", action="store_true", help="include finished jobs whose process still runs"
    )


def _add_job(commands: Commands) -> None:
    def call(given: argparse.Namespace) -> int:
        from penstock.cli.job_commands import show_job

        return show_job(given.address, given.token, given.job, as_json=given.json)

    parser = add_job_command(commands, "job", call, "show one job and its vertices")
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")


def _add_savepoint(commands: Commands) -> None:
    def call(given: argparse.Namespace) -> int:
        from penstock.cli import job_commands

        if given.dispose is not None:
            if given.job is not None:
                parser.error("--dispose PATH takes no JOB")
            return job_commands.dispose(
                given.address, given.token, given.dispose, as_json=given.json
            )
        if given.job is None:
            parser.error("the following arguments are required: JOB")
        return job_commands.savepoint(
            given.address,
            given.token,
            given.job,
            given.directory,
            detach=given.detach,
            as_json=given.json,
        )

    parser = add_job_command(
        commands, "savepoint", call, "take a savepoint of a job, or delete one"
    )
    _add_detach(parser)
    parser.add_argument(
        "-d", "--dispose", metavar="PATH", help="delete this savepoint instead of taking one"
    )
    parser.add_argument("job", metavar="JOB", nargs="?", help="job id, id prefix or name")
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        help="target directory (default: the job's execution.checkpointing.savepoint-dir)",
    )


def _add_stop(commands: Commands) -> None:
    def call(given: argparse.Namespace) -> int:
        from penstock.cli.job_commands import stop

        return stop(
            given.address, given.token, given.job, given.savepoint_path,
            drain=given.drain, detach=given.detach, as_json=given.json,
        )  # fmt: skip

    parser = add_job_command(commands, "stop", call, "stop a job with a savepoint")
    parser.add_argument(
        "-d",
        "--drain",
        action="store_true",
        help="send the final watermark first, so that all windows and timers fire; only for jobs that are not resumed",
    )
    parser.add_argument(
        "-p",
        "--savepoint-path",
        metavar="DIR",
        help="target directory (default: the job's execution.checkpointing.savepoint-dir)",
    )
    _add_detach(parser)
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")


def _add_cancel(commands: Commands) -> None:
    def call(given: argparse.Namespace) -> int:
        from penstock.cli.job_commands import cancel

        return cancel(
            given.address,
            given.token,
            given.job,
            given.with_savepoint,
            detach=given.detach,
            as_json=given.json,
        )

    parser = add_job_command(commands, "cancel", call, "cancel a job")
    parser.add_argument(
        "-s",
        "--with-savepoint",
        metavar="DIR",
        help="stop the job with a savepoint in this directory, as 'stop' does",
    )
    _add_detach(parser)
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")


def _add_rescale(commands: Commands) -> None:
    def call(given: argparse.Namespace) -> int:
        from penstock.cli.job_commands import rescale

        if given.parallelism is None and not given.vertex:
            parser.error("give a parallelism N, or --vertex NAME=N")
        return rescale(
            given.address, given.token, given.job, given.parallelism, dict(given.vertex),
            detach=given.detach, as_json=given.json,
        )  # fmt: skip

    parser = add_job_command(
        commands, "rescale", call, "change the parallelism of a job while it runs"
    )
    parser.add_argument(
        "--vertex",
        action="append",
        default=[],
        type=_vertex,
        metavar="NAME=N",
        help="rescale one vertex only, given by uid, operator name or vertex id; repeatable",
    )
    _add_detach(parser)
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")
    parser.add_argument(
        "parallelism", metavar="N", nargs="?", type=_parallelism, help="parallelism of all vertices"
    )


def _parallelism(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"invalid parallelism '{text}'")
    return number


def _vertex(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"invalid vertex '{text}', expected NAME=N")
    return name, _parallelism(number)

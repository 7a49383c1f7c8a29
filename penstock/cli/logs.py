"""`penstock logs`: what a job has logged and printed, in the JobManager and in all its tasks."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from penstock.cli.jobs import add_job_command

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands
    from penstock.cli.reach import FoundJob

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_USUAL: Final = 1_000
_MOST: Final = 10_000  # lines that a server sends in one response
_POLL_S: Final = 0.3


def add_commands(commands: Commands) -> None:
    """Add `penstock logs` to the command line."""
    parser = add_job_command(commands, "logs", _logs, "show what a job has logged and printed")
    parser.add_argument("job", metavar="JOB", help="job id, id prefix or name")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="print new lines until the job has ended"
    )
    parser.add_argument(
        "-n",
        "--lines",
        type=_number,
        default=_USUAL,
        metavar="N",
        help=f"start with the last N lines (default: {_USUAL})",
    )
    parser.add_argument(
        "--level", type=str.upper, choices=_LEVELS, help="only lines of this level or higher"
    )
    parser.add_argument(
        "--vertex", metavar="NAME", help="only lines of one vertex: its id, or part of its name"
    )
    parser.add_argument(
        "--subtask", type=_number, metavar="N", help="only lines of one subtask, counted from 0"
    )
    parser.add_argument(
        "--taskmanager", metavar="ID", help="only lines of one TaskManager, or 'jobmanager'"
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MOST:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to {_MOST}")
    return int(text)


def _logs(given: argparse.Namespace) -> int:
    from penstock.cli.reach import find_jobs, select_job

    job = select_job(find_jobs(given.address, given.token), given.job)
    try:
        for line in _lines(job, given):
            sys.stdout.write(f"{_shown(line, as_json=given.json)}\n")
            if given.follow:
                sys.stdout.flush()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    return 0


def _shown(line: Mapping[str, Any], *, as_json: bool) -> str:
    from penstock.logs.lines import TEXT, LogLine

    if as_json:
        return json.dumps(line, ensure_ascii=False)
    return LogLine.from_json(line).in_format(TEXT)


def _lines(job: FoundJob, given: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    """Return the last lines of a job and then, with --follow, the new ones until it has ended."""
    wanted = {
        name: value
        for name in ("level", "vertex", "subtask", "taskmanager")
        if (value := getattr(given, name)) is not None
    }
    answer = _ask(job, {**wanted, "limit": given.lines})
    yield from answer["lines"]
    # If no line matched, follow from the newest line: lines are numbered from 1.
    last = answer["last"] or _newest(job)
    while given.follow:
        ended = not _runs(job)
        answer = _ask(job, {**wanted, "limit": _MOST, "after": last})
        yield from answer["lines"]
        last = answer["last"]
        if ended and not answer["lines"]:
            return
        time.sleep(0.0 if answer["lines"] else _POLL_S)


def _newest(job: FoundJob) -> int:
    return int(_ask(job, {"limit": 1})["last"])


def _ask(job: FoundJob, query: Mapping[str, Any]) -> dict[str, Any]:
    from penstock.rest.client.rest_client import ServerUnreachableError

    try:
        answer: dict[str, Any] = job.client.get(f"/penstock/jobs/{job.id}/logs?{urlencode(query)}")
    except ServerUnreachableError:
        if "after" not in query:
            raise
        return {"lines": [], "last": query["after"]}  # the program ended with its job
    return answer


def _runs(job: FoundJob) -> bool:
    from penstock.cli.reach import RUNNING_STATES
    from penstock.rest.client.rest_client import ServerUnreachableError

    try:
        return job.client.get(f"{job.path}/status")["status"] in RUNNING_STATES
    except ServerUnreachableError:
        return False

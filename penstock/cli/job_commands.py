"""What the commands about running jobs do: ask, wait, print."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.cli.reach import RUNNING_STATES, FoundJob, client_of, find_jobs, select_job
from penstock.errors import JobRequestError
from penstock.files.paths import normalize
from penstock.rest.client import RestClient, ServerGoneError

_FIRST_POLL_S = 0.05
_LAST_POLL_S = 0.5  # well below what the end of a process waits for its clients


def list_jobs(address: str | None, token: str | None, *, ended: bool) -> int:
    """Print the running jobs, or all."""
    jobs = [job for job in find_jobs(address, token) if ended or job.runs]
    if not jobs:
        _print("no jobs" if ended else "no job runs")
        return 0
    rows = [("JOB", "STATE", "STARTED", "FOR", "PROCESS", "NAME")]
    rows += [
        (
            job.id,
            job.state,
            _instant(job.overview["start-time"]),
            _duration(job.overview["duration"]),
            job.place,
            job.name,
        )
        for job in jobs
    ]
    _print_table(rows)
    return 0


def show_job(address: str | None, token: str | None, wanted: str) -> int:
    """Print one job and its vertices."""
    job = select_job(find_jobs(address, token), wanted)
    details = job.client.get(job.path)
    own = details["penstock"]
    facts = {
        "id": job.id,
        "name": job.name,
        "state": details["state"],
        "started": _instant(details["start-time"]),
        "ended": None if details["end-time"] < 0 else _instant(details["end-time"]),
        "duration": _duration(details["duration"]),
        "epoch": own["epoch"],
        "restarts": own["restarts"],
        "checkpoints": own["checkpoints"] or "none",
        "savepoint": own["savepoint"] or "none",
        "process": job.place,
    }
    _print_table([(name, str(fact)) for name, fact in facts.items() if fact is not None])
    rows = [("VERTEX", "PARALLELISM", "MAX", "NAME", "UIDS")]
    for vertex in details["vertices"]:
        uids = [operator["uid"] for operator in vertex["operators"] if operator.get("uid")]
        numbers = str(vertex["parallelism"]), str(vertex["maxParallelism"])
        rows.append((vertex["id"], *numbers, vertex["name"], ", ".join(uids)))
    _print("")
    _print_table(rows)
    return 0


def savepoint(
    address: str | None, token: str | None, wanted: str, directory: str | None, *, detach: bool
) -> int:
    """Take a savepoint and print its path."""
    job = select_job(find_jobs(address, token), wanted)
    body = {} if directory is None else {"target-directory": _absolute(directory)}
    return _savepoint(job, "/savepoints", body, detach=detach)


def stop(
    address: str | None,
    token: str | None,
    wanted: str,
    directory: str | None,
    *,
    drain: bool,
    detach: bool,
) -> int:
    """Stop a job with a savepoint and print its path."""
    job = select_job(find_jobs(address, token), wanted)
    body: dict[str, Any] = {"drain": drain}
    if directory is not None:
        body["targetDirectory"] = _absolute(directory)
    return _savepoint(job, "/stop", body, detach=detach)


def cancel(
    address: str | None, token: str | None, wanted: str, directory: str | None, *, detach: bool
) -> int:
    """Cancel a job, if wanted with a savepoint, and wait for its end."""
    job = select_job(find_jobs(address, token), wanted)
    if directory is not None:
        body = {"target-directory": _absolute(directory), "cancel-job": True}
        return _savepoint(job, "/savepoints", body, detach=detach)
    job.client.request("PATCH", f"{job.path}?mode=cancel")
    if detach:
        _print(f"job '{job.name}' ({job.id}) is being cancelled")
        return 0
    with _ctrl_c_tells(f"job {job.id} is being cancelled"):
        state = _state_at_the_end(job)
    _print(f"job '{job.name}' ({job.id}) is {state}")
    return 0 if state == "CANCELED" else 1


def _state_at_the_end(job: FoundJob) -> str:
    state = job.state
    for _ in _polls():
        try:
            state = str(job.client.get(f"{job.path}/status")["status"])
        except ServerGoneError:  # the program ended with its job
            state = "CANCELED"
        if state not in RUNNING_STATES:
            break
    return state


def rescale(
    address: str | None,
    token: str | None,
    wanted: str,
    parallelism: int | None,
    vertices: Mapping[str, int],
    *,
    detach: bool,
) -> int:
    """Change the parallelism of a job and print the new one."""
    job = select_job(find_jobs(address, token), wanted)
    body: dict[str, Any] = {"vertices": dict(vertices)} if vertices else {}
    if parallelism is not None:
        body["parallelism"] = parallelism
    result = _operation(job.client, f"{job.path}/rescale", None, body, detach=detach)
    if result is not None:
        _print_table([(name, str(number)) for name, number in result["parallelism"].items()])
    return 0


def dispose(address: str | None, token: str | None, path: str) -> int:
    """Delete a savepoint: by the process at an address, or here if none is given."""
    path = _absolute(path)
    if address is None:
        from penstock.savepoint.reader import dispose_savepoint

        dispose_savepoint(path)
    else:
        client = client_of(address, token)
        _operation(client, "/savepoint-disposal", None, {"savepoint-path": path}, detach=False)
    _print(f"deleted {path}")
    return 0


def _savepoint(job: FoundJob, resource: str, body: Mapping[str, Any], *, detach: bool) -> int:
    path = job.path
    result = _operation(job.client, path + resource, f"{path}/savepoints", body, detach=detach)
    if result is not None:
        _print(result["location"])
    return 0


def _operation(
    client: RestClient, start: str, status: str | None, body: Mapping[str, Any], *, detach: bool
) -> dict[str, Any] | None:
    """Start an operation and wait for its result; with `detach`, print its id instead and return None."""
    trigger = str(client.request("POST", start, body)["request-id"])
    if detach:
        _print(trigger)
        return None
    with _ctrl_c_tells(f"the request goes on, its id is {trigger}"):
        result = _result(client, f"{status or start}/{trigger}")
    failure = result.get("failure-cause")
    if failure is not None:
        raise JobRequestError(failure["message"])
    return result


def _result(client: RestClient, path: str) -> dict[str, Any]:
    for _ in _polls():
        try:
            answer = client.get(path)
        except ServerGoneError as error:
            raise JobRequestError(
                "the process of the job ended before it told the result",
                hint="look at its output; a savepoint that was completed is in its directory",
            ) from error
        if answer["status"]["id"] == "COMPLETED":
            break
    result: dict[str, Any] = answer["operation"]
    return result


@contextlib.contextmanager
def _ctrl_c_tells(what: str) -> Iterator[None]:
    """Ctrl-C ends the command, not what it has started."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"\npenstock: {what}\n")
        raise SystemExit(130) from None


def _polls() -> Iterator[None]:
    """Let a loop run again and again, with waits that grow."""
    wait_s = _FIRST_POLL_S
    while True:
        yield
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, _LAST_POLL_S)


def _absolute(path: str) -> str:
    """Return a path that means the same in the directory of another process."""
    return normalize(os.path.expanduser(path))  # noqa: PTH111 - it may be a URI


def _instant(millis: int) -> str:
    return dt.datetime.fromtimestamp(millis / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _duration(millis: int) -> str:
    seconds = millis // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        _print("  ".join(cells).rstrip())

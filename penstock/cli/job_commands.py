"""The commands for running jobs: send a request, wait for its result, print it."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.cli.output import WaitIndicator, print_json, print_line, print_table
from penstock.cli.reach import RUNNING_STATES, FoundJob, client_of, find_jobs, select_job
from penstock.errors import JobRequestError
from penstock.files.paths import normalize
from penstock.rest.client.rest_client import RestClient, ServerUnreachableError

_FIRST_POLL_S = 0.05
_LAST_POLL_S = 0.5  # well below the time for which an ending process waits for its clients


def list_jobs(address: str | None, token: str | None, *, ended: bool, as_json: bool = False) -> int:
    """Print the running jobs, or all jobs."""
    jobs = [job for job in find_jobs(address, token) if ended or job.runs]
    if as_json:
        print_json([{**job.overview, "process": job.place} for job in jobs])
        return 0
    if not jobs:
        print_line("no jobs" if ended else "no running jobs")
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
    print_table(rows)
    return 0


def show_job(address: str | None, token: str | None, wanted: str, *, as_json: bool = False) -> int:
    """Print one job and its vertices."""
    job = select_job(find_jobs(address, token), wanted)
    details = job.client.get(job.path)
    if as_json:
        print_json({**details, "process": job.place})
        return 0
    own = details["penstock"]
    facts = {
        "id": job.id,
        "name": job.name,
        "state": details["state"],
        "started": _instant(details["start-time"]),
        "ended": None if details["end-time"] < 0 else _instant(details["end-time"]),
        "duration": _duration(details["duration"]),
        "checkpoint_id": own["checkpoint_id"],
        "restarts": own["restarts"],
        "checkpoints": own["checkpoints"] or "none",
        "savepoint": own["savepoint"] or "none",
        "process": job.place,
    }
    print_table([(name, str(fact)) for name, fact in facts.items() if fact is not None])
    rows = [("VERTEX", "PARALLELISM", "MAX", "NAME", "UIDS")]
    for vertex in details["vertices"]:
        uids = [operator["uid"] for operator in vertex["operators"] if operator.get("uid")]
        numbers = str(vertex["parallelism"]), str(vertex["maxParallelism"])
        rows.append((vertex["id"], *numbers, vertex["name"], ", ".join(uids)))
    print_line("")
    print_table(rows)
    return 0


def savepoint(
    address: str | None,
    token: str | None,
    wanted: str,
    directory: str | None,
    *,
    detach: bool,
    as_json: bool = False,
) -> int:
    """Take a savepoint and print its path."""
    job = select_job(find_jobs(address, token), wanted)
    body = {} if directory is None else {"target-directory": _absolute(directory)}
    return _savepoint(job, "/savepoints", body, detach=detach, as_json=as_json)


def stop(
    address: str | None,
    token: str | None,
    wanted: str,
    directory: str | None,
    *,
    drain: bool,
    detach: bool,
    as_json: bool = False,
) -> int:
    """Stop a job with a savepoint and print its path."""
    job = select_job(find_jobs(address, token), wanted)
    body: dict[str, Any] = {"drain": drain}
    if directory is not None:
        body["targetDirectory"] = _absolute(directory)
    return _savepoint(job, "/stop", body, detach=detach, as_json=as_json)


def cancel(
    address: str | None,
    token: str | None,
    wanted: str,
    directory: str | None,
    *,
    detach: bool,
    as_json: bool = False,
) -> int:
    """Cancel a job, optionally with a savepoint, and wait until it has ended."""
    job = select_job(find_jobs(address, token), wanted)
    if directory is not None:
        body = {"target-directory": _absolute(directory), "cancel-job": True}
        return _savepoint(job, "/savepoints", body, detach=detach, as_json=as_json)
    job.client.request("PATCH", f"{job.path}?mode=cancel")
    state = "CANCELLING"
    if not detach:
        with _message_on_ctrl_c(f"job {job.id} is being cancelled"):
            state = _final_state(job)
    if as_json:
        print_json({"jid": job.id, "name": job.name, "state": state})
    else:
        print_line(f"job '{job.name}' ({job.id}) is {'being cancelled' if detach else state}")
    return 0 if detach or state == "CANCELED" else 1


def _final_state(job: FoundJob) -> str:
    state = job.state
    for _ in _polls(f"job '{job.name}' is being cancelled"):
        try:
            state = str(job.client.get(f"{job.path}/status")["status"])
        except ServerUnreachableError:  # the program ended with its job
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
    as_json: bool = False,
) -> int:
    """Change the parallelism of a job and print the new one."""
    job = select_job(find_jobs(address, token), wanted)
    body: dict[str, Any] = {"vertices": dict(vertices)} if vertices else {}
    if parallelism is not None:
        body["parallelism"] = parallelism
    what = f"job '{job.name}' is being rescaled"
    result = _operation(job.client, f"{job.path}/rescale", None, body, what, detach=detach)
    if as_json:
        print_json({"jid": job.id, **result})
    elif detach:
        print_line(result["request-id"])
    else:
        print_table([(name, str(number)) for name, number in result["parallelism"].items()])
    return 0


def dispose(address: str | None, token: str | None, path: str, *, as_json: bool = False) -> int:
    """Delete a savepoint: through the process at an address, or in this process if there is no address."""
    path = _absolute(path)
    if address is None:
        from penstock.savepoint.reader import dispose_savepoint

        dispose_savepoint(path)
    else:
        client = client_of(address, token)
        what = f"{path} is being deleted"
        body = {"savepoint-path": path}
        _operation(client, "/savepoint-disposal", None, body, what, detach=False)
    if as_json:
        print_json({"deleted": path})
    else:
        print_line(f"deleted {path}")
    return 0


def _savepoint(
    job: FoundJob, resource: str, body: Mapping[str, Any], *, detach: bool, as_json: bool
) -> int:
    status = f"{job.path}/savepoints"
    what = f"a savepoint of job '{job.name}' is being written"
    result = _operation(job.client, job.path + resource, status, body, what, detach=detach)
    if as_json:
        print_json({"jid": job.id, **result})
    else:
        print_line(result["request-id" if detach else "location"])
    return 0


def _operation(
    client: RestClient,
    start: str,
    status: str | None,
    body: Mapping[str, Any],
    what: str,
    *,
    detach: bool,
) -> dict[str, Any]:
    """Start an operation and return its result, or with `detach` only its id; `what` describes it while it runs."""
    trigger = str(client.request("POST", start, body)["request-id"])
    if detach:
        return {"request-id": trigger}
    with _message_on_ctrl_c(f"the request continues, its id is {trigger}"):
        result = _result(client, f"{status or start}/{trigger}", what)
    failure = result.get("failure-cause")
    if failure is not None:
        raise JobRequestError(failure["message"])
    return result


def _result(client: RestClient, path: str, what: str) -> dict[str, Any]:
    for _ in _polls(what):
        try:
            answer = client.get(path)
        except ServerUnreachableError as error:
            raise JobRequestError(
                "the process of the job ended before it reported the result",
                hint="look at its output; a savepoint that was completed is in its target directory",
            ) from error
        if answer["status"]["id"] == "COMPLETED":
            break
    result: dict[str, Any] = answer["operation"]
    return result


@contextlib.contextmanager
def _message_on_ctrl_c(what: str) -> Iterator[None]:
    """Print a message if Ctrl-C ends the command: the operation that it has started continues."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"\npenstock: {what}\n")
        raise SystemExit(130) from None


def _polls(what: str) -> Iterator[None]:
    """Pace a polling loop with growing waits; a terminal shows meanwhile what the command waits for."""
    wait_s = _FIRST_POLL_S
    with WaitIndicator(what) as waiting:
        while True:
            yield
            waiting.wait(wait_s)
            wait_s = min(wait_s * 1.5, _LAST_POLL_S)


def _absolute(path: str) -> str:
    """Return an absolute path: the process that gets it has another working directory."""
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

"""`penstock session start | stop | status`: one JobManager process and one Spark application for many jobs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from penstock.cli.program_options import add_config

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands
    from penstock.rest.client.rest_client import RestClient

_EPILOG = """\
A session outlives the programs that are submitted to it:

  penstock session start -m local[4]
  penstock run --session job.py
  penstock session status
  penstock session stop
"""
_START_S = 120.0
_END_S = 60.0


def add_commands(commands: Commands) -> None:
    """Add the command of this module to the command line."""
    parser = commands.add_parser(
        "session",
        help="start, stop or show a session: one JobManager and one Spark application for many jobs",
        description="Start, stop or show a session: one JobManager process and one Spark application for many jobs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_start(actions)
    _add_stop(actions)
    _add_status(actions)


def _add_start(actions: Commands) -> None:
    parser = actions.add_parser(
        "start",
        help="start a session in the background",
        description="Start a session in the background and wait until it accepts jobs.",
    )
    parser.set_defaults(call=_start)
    parser.add_argument(
        "-D",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set an option of the session, and a default of its jobs; repeatable",
    )
    parser.add_argument(
        "-m",
        "--master",
        metavar="URL",
        help="Spark master, such as local[4], spark://host:7077, yarn or k8s://...",
    )
    parser.add_argument(
        "--foreground", action="store_true", help="run in the foreground, until Ctrl-C or SIGTERM"
    )
    parser.add_argument(
        "--no-spark",
        dest="spark",
        action="store_false",
        help="run jobs in threads of the process, to try them out",
    )
    add_config(parser)
    _add_json(parser)


def _add_stop(actions: Commands) -> None:
    parser = actions.add_parser(
        "stop",
        help="stop a session; its jobs are cancelled",
        description="Stop a session. Its jobs are cancelled; their checkpoints are kept or deleted as configured.",
    )
    parser.set_defaults(call=_stop)
    _add_address(parser)
    parser.add_argument(
        "--keep-jobs",
        action="store_true",
        help="suspend the jobs instead, so that another JobManager with the same high-availability.storageDir resumes them",
    )
    _add_json(parser)


def _add_status(actions: Commands) -> None:
    parser = actions.add_parser(
        "status",
        help="show a session: its Spark application, slots and jobs",
        description="Show a session: its Spark application, its slots by job, its jobs. The exit code is 1 if none runs.",
    )
    parser.set_defaults(call=_status)
    _add_address(parser)
    _add_json(parser)


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address",
        metavar="HOST:PORT",
        nargs="?",
        help="address of the session (default: this user's session)",
    )
    parser.add_argument(
        "--token", help="token of a session on another machine; or set PENSTOCK_TOKEN"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _start(given: argparse.Namespace) -> int:
    from penstock.cli.run import RunOptions, configuration_of
    from penstock.options.config_file import load_config_file

    options = RunOptions("", options=tuple(given.options), master=given.master)
    defaults, _ = load_config_file(given.config)
    configuration = {**defaults.to_dict(), **configuration_of(options).to_dict()}
    if given.foreground:
        from penstock.session.process import run

        return run(configuration, spark=given.spark)
    return _start_in_background(configuration, spark=given.spark, as_json=given.json)


def _start_in_background(configuration: dict[str, str], *, spark: bool, as_json: bool) -> int:
    from penstock.cli.background import BackgroundProcess
    from penstock.errors import JobRequestError

    command = [sys.executable, "-m", "penstock.session.process"]
    asked = json.dumps({"options": configuration, "spark": spark}).encode()
    try:
        session = BackgroundProcess(command, "session", given=asked)
        record = session.wait_until(lambda _: True, "the session", _START_S)
    except JobRequestError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return 1
    assert record is not None  # a session does not end with exit code 0 by itself
    facts = {"address": record.address, "pid": record.pid, "log": str(session.log)}
    if as_json:
        _print(json.dumps(facts))
    else:
        _print(f"the session listens at {record.address} (pid {record.pid}); log: {session.log}")
    return 0


def _stop(given: argparse.Namespace) -> int:
    from penstock.errors import JobRequestError

    try:
        client = _client(given)
        session = client.get("/penstock/session")
        client.request("DELETE", f"/cluster?jobs={'keep' if given.keep_jobs else 'cancel'}")
        _wait_for_end(client, session)
    except JobRequestError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return 1
    if given.json:
        _print(json.dumps({"address": client.address, "ended": True}))
    else:
        _print(f"the session at {client.address} has stopped")
    return 0


def _wait_for_end(client: RestClient, session: dict[str, Any]) -> None:
    """Wait until the process has ended; if it is on another machine, until it no longer answers."""
    from penstock.errors import JobRequestError
    from penstock.rest.client.rest_client import ServerUnreachableError

    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        try:
            if client.get("/penstock/session")["start_ms"] != session["start_ms"]:
                return  # another session listens at the address
        except ServerUnreachableError:
            if not _is_here(session["pid"]):
                return
        time.sleep(0.05)
    raise JobRequestError(f"the session at {client.address} did not stop within {_END_S:g} s")


def _is_here(pid: int) -> bool:
    from penstock.rest import processes

    return processes.process_start(pid) is not None


def _status(given: argparse.Namespace) -> int:
    from penstock.errors import JobRequestError

    try:
        client = _client(given)
        session = client.get("/penstock/session")
        jobs = [] if session["phase"] == "standby" else client.get("/jobs/overview")["jobs"]
    except JobRequestError as error:
        if given.json:
            _print(json.dumps({"session": None, "error": error.message}))
        else:
            sys.stderr.write(f"penstock: {error}\n")
        return 1
    if given.json:
        overview = [{name: job[name] for name in ("jid", "name", "state")} for job in jobs]
        _print(json.dumps({"session": {"address": client.address, **session}, "jobs": overview}))
        return 0
    _show(client.address, session, jobs)
    return 0


def _show(address: str, session: dict[str, Any], jobs: list[dict[str, Any]]) -> None:
    slots, spark = session["slots"], session["spark"]
    names = {job["jid"]: job["name"] for job in jobs}
    _print(f"session   {address} (pid {session['pid']}), {session['phase']}")
    if session["leader"]:
        _print(f"leader    {session['leader']}")
    if spark:
        _print(f"spark     {spark['master']}, application {spark['application']}")
    if slots["total"]:
        waiting = f", {slots['waiting']} jobs waiting" if slots["waiting"] else ""
        _print(f"slots     {slots['free']} of {slots['total']} free{waiting}")
        for job_id, held in slots["held"].items():
            _print(f"          {held} held by '{names.get(job_id, job_id)}'")
    for job in jobs:
        _print(f"job       {job['jid']}  {job['state']:<10}  {job['name']}")
    if not jobs:
        _print("no jobs")


def _client(given: argparse.Namespace) -> RestClient:
    from penstock.rest.client.session_client import find_session

    return find_session(given.address, given.token)


def _print(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""`penstock run --session` and `--detached`: programs whose jobs continue after the command has returned."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from penstock import options
from penstock.cli.output import print_json
from penstock.errors import JobRequestError
from penstock.options.configuration import Configuration

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+")
_START_S = 120.0


def with_session_value(arguments: Sequence[str]) -> list[str]:
    """Make the value of `--session` optional: a following word that is not an address is the program.

    >>> with_session_value(["run", "--session", "job.py"])
    ['run', '--session=', 'job.py']
    >>> with_session_value(["run", "--session", "localhost:8081", "job.py"])
    ['run', '--session=localhost:8081', 'job.py']
    """
    found: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        if argument == "--session":
            has_address = bool(left) and _ADDRESS.fullmatch(left[0]) is not None
            argument = f"--session={left.pop(0) if has_address else ''}"
        found.append(argument)
        if argument.endswith(".py"):  # the rest are the program's own arguments
            break
    return [*found, *left]


def submit_to_session(configuration: Configuration, address: str) -> None:
    """Make the jobs of a program run in a session: the one at an address, or this user's."""
    from penstock.rest.client.rest_client import parse_address

    configuration.set(options.EXECUTION_TARGET, "session")
    if address:
        host, port, tls = parse_address(address)
        if tls:
            configuration.set(options.REST_SSL_ENABLED, True)
        configuration.set(options.REST_ADDRESS, f"[{host}]" if ":" in host else host)
        configuration.set(options.REST_PORT, port)


def add_defaults_of_session(defaults: Configuration, configuration: Configuration) -> None:
    """Use the session's default parallelism for a program that sets none: the program does not know the number of slots."""
    from penstock.rest.client.session_client import session_of

    if not defaults.contains(options.PARALLELISM):
        session = session_of(configuration).get("/penstock/session")
        defaults.set(options.PARALLELISM, session["parallelism"])


def run_detached(arguments: Sequence[str], *, as_json: bool = False) -> int:
    """Start `penstock run` with these arguments in the background; return when its first job has started."""
    from penstock.cli.background import BackgroundProcess
    from penstock.rest.client.rest_client import RestClient
    from penstock.rest.processes import ProcessRecord

    jobs: list[dict[str, str]] = []

    def has_jobs(record: ProcessRecord) -> bool:
        jobs[:] = RestClient(record.address, record.token, trusted=record.certificate).get(
            "/jobs/overview"
        )["jobs"]
        return bool(jobs)

    command = [sys.executable, "-m", "penstock", "run", *arguments]
    try:
        program = BackgroundProcess(command, "run")
        record = program.wait_until(has_jobs, "the program", _START_S)
    except JobRequestError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return 1
    if as_json:
        place = None if record is None else {"address": record.address, "pid": record.pid}
        entries = [{"jid": job["jid"], "name": job["name"], "state": job["state"]} for job in jobs]
        print_json({"process": place, "log": str(program.log), "jobs": entries})
        return 0
    if record is None:
        sys.stdout.write(f"the program has ended; output: {program.log}\n")
        return 0
    for job in jobs:
        sys.stdout.write(f"job '{job['name']}' ({job['jid']}) runs at {record.address}\n")
    sys.stdout.write(f"pid {record.pid}, output in {program.log}\n")
    return 0

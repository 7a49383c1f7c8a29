"""The files through which the command line finds the processes of this user that run jobs."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import secrets
import socket
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

HOME_VARIABLE = "PENSTOCK_HOME"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """How to reach a process that runs jobs.

    `started` is the start time of the process according to the operating system: it distinguishes a later process with the same pid.
    """

    pid: int
    started: str
    host: str
    address: str
    token: str
    program: str = ""
    certificate: str | None = None  # the file with its certificate, if it uses TLS


def directory() -> Path:
    """Return the directory of the files."""
    home = os.environ.get(HOME_VARIABLE)
    return (Path(home) if home else Path.home() / ".penstock") / "processes"


def describe_this_process(
    address: str, token: str, program: str, certificate: str | None = None
) -> ProcessRecord:
    """Return the record of this process."""
    pid = os.getpid()
    return ProcessRecord(
        pid, process_start(pid) or "", socket.gethostname(), address, token, program, certificate
    )


def write(record: ProcessRecord) -> Path:
    """Write a record to a file that only this user can read, and return the file."""
    folder = directory()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{record.pid}-{secrets.token_hex(4)}.json"
    hidden = path.with_suffix(".tmp")
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(record), file)
    hidden.replace(path)
    return path


def remove(path: Path) -> None:
    """Delete a record's file."""
    with contextlib.suppress(OSError):
        path.unlink()


def read_all() -> list[ProcessRecord]:
    """Return the records of running processes, and delete those of processes that have ended.

    A process of another host that shares the home directory cannot be checked: its record is kept.
    """
    here = socket.gethostname()
    living = []
    for path in sorted(directory().glob("*.json")):
        record = _read(path)
        if record is None:
            continue
        if record.host == here and process_start(record.pid) != (record.started or None):
            remove(path)
        elif record.host == here or not is_loopback(_host(record)):
            living.append(record)
    return living


def _read(path: Path) -> ProcessRecord | None:
    try:
        if path.stat().st_uid != os.getuid():
            return None
        return ProcessRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # deleted meanwhile, or written by another version
        return None


def _host(record: ProcessRecord) -> str:
    return urlsplit(f"//{record.address.removeprefix('https://')}").hostname or ""


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or `localhost`; other names that begin like one are not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def process_start(pid: int) -> str | None:
    """Return the start time of a process as the operating system prints it, or None if there is no such process."""
    if _BOOT_ID.exists():
        try:
            # After the name, which may contain anything: state, ..., start time in clock ticks since boot.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else f"{_BOOT_ID.read_text().strip()}/{fields[19]}"
    try:
        listed = subprocess.run(  # noqa: S603 - the input is a number
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:  # then records have no start time, and a reused pid is not noticed
        return None
    return listed.stdout.strip() or None

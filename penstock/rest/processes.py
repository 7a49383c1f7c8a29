"""The files by which the command line finds the processes of this user that run jobs."""

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
    """What a process with jobs tells about itself.

    `started` is when the process started, as the operating system says it: a later process with the same pid differs in it.
    """

    pid: int
    started: str
    host: str
    address: str
    token: str
    program: str = ""
    certificate: str | None = None  # the file of the one that it shows, where it speaks TLS


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
    """Return the records of processes that live, and delete those of processes that are gone.

    A process of another host that shares the home directory cannot be checked: its record is left alone.
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
    except (OSError, ValueError, TypeError):  # gone meanwhile, or not of this version
        return None


def _host(record: ProcessRecord) -> str:
    return urlsplit(f"//{record.address.removeprefix('https://')}").hostname or ""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine for itself: a name that only begins like such an address may be anybody's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def process_start(pid: int) -> str | None:
    """Return when a process started, in words of the operating system, or None if there is no such process."""
    if _BOOT_ID.exists():
        try:
            # After the name, which may contain anything: state, ..., start in clock ticks since the system's.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else f"{_BOOT_ID.read_text().strip()}/{fields[19]}"
    try:
        listed = subprocess.run(  # noqa: S603 - a number is no untrusted input
            ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:  # then records have no start, and none can be told from another
        return None
    return listed.stdout.strip() or None

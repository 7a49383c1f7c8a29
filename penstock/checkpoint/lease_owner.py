"""The owner of a job's lease, and the errors that name it."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import FencedError

_MAX_PID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """A driver process that runs or ran a job. `token` is unique to the run."""

    job: str
    host: str
    pid: int
    started_ms: int
    token: str
    machine: str = (
        ""  # identifies the host and pid namespace in which `pid` is valid; empty if unknown
    )

    @classmethod
    def here(cls, job: str) -> LeaseOwner:
        """Return this process as the owner of a job, with a new token."""
        started = int(time.time() * 1000)
        return cls(job, socket.gethostname(), os.getpid(), started, uuid.uuid4().hex, _machine())

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to be dead. False if it runs or its state is unknown."""
        if not self.machine or self.machine != _machine():
            return False
        if self.pid == os.getpid():
            return (
                True  # an earlier process with the same pid: leases of this one are checked before
            )
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def to_json(self) -> dict[str, Any]:
        """Return the owner as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Any) -> LeaseOwner | None:
        """Return the owner that `to_json` was called on, or None if it is not readable."""
        try:
            owner = cls(
                str(found["job"]),
                str(found["host"]),
                int(found["pid"]),
                int(found["started_ms"]),
                str(found["token"]),
                str(found.get("machine", "")),
            )
            str(owner)  # fails for an invalid time
        except (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError):
            return None
        return owner if 0 < owner.pid <= _MAX_PID else None

    @classmethod
    def decode(cls, data: bytes) -> LeaseOwner | None:
        """Return the owner in a record, or None if the record is incomplete."""
        try:
            return cls.from_json(json.loads(data))
        except ValueError:
            return None

    def encode(self) -> bytes:
        """Return the record."""
        return json.dumps(self.to_json()).encode() + b"\n"

    def __str__(self) -> str:
        since = dt.datetime.fromtimestamp(self.started_ms / 1000, dt.UTC)
        return f"pid {self.pid} on host {self.host} since {since:%Y-%m-%d %H:%M:%S} UTC"


def refused(directory: str, owner: LeaseOwner | None, lock: str | None = None) -> FencedError:
    """Return the error for a driver that may not start, because `owner` runs the job.

    `lock` is the path of its lock file, if the lease is a lock.
    """
    who = "an unknown owner" if owner is None else f"'{owner.job}', {owner}"
    if owner is not None and owner.pid == os.getpid() and owner.machine == _machine():
        who += " (this process)"
    hint = "stop the other driver, or start this one as a new job from a checkpoint (<job directory>/chk-<N>)"
    if lock is not None and owner is not None and owner.machine != _machine():
        hint += f". If {owner.host} has died and its file server keeps the lock, delete '{lock}'"
    return FencedError(
        f"another driver is running this job: {owner or 'unknown'}",
        detail=f"the directory '{directory}' is held by {who}",
        hint=hint,
    )


def fenced(directory: str, owner: LeaseOwner | None) -> FencedError:
    """Return the error for a driver that has lost its job to `owner`, or to an unknown driver."""
    if owner is None:
        return FencedError(
            "this driver has lost the lease of its job",
            detail=f"its lease in '{directory}' is gone: it was released or deleted",
            hint="do not delete the directory of a running job; cancel the job first",
        )
    return FencedError(
        f"another driver has taken over this job: {owner}",
        detail=f"the directory '{directory}' is held by '{owner.job}', {owner}; this driver has stopped writing",
        hint="follow the job there; if this driver was suspended or cut off from storage, there is nothing to do",
    )


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"  # every container has its own pid namespace
    except OSError:
        return ""

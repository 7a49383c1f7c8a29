"""Resource usage of this process, as reported by the operating system."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

from penstock.runtime.inspection.requests import ProcessFacts

_CONTAINER = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),  # cgroups v1
)
_UNLIMITED = 1 << 60


def process_facts() -> ProcessFacts:
    """Return the resource usage of this process."""
    status = _status()
    return ProcessFacts(
        process=os.getpid(),
        memory=status.get("VmRSS", 0),
        peak_memory=status.get("VmHWM", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
        limit=_limit(),
        threads=threading.active_count(),
    )


def _status() -> dict[str, int]:
    """Return the sizes in /proc/self/status, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(number) * 1024 for name, number, _ in sizes}


def _limit() -> int | None:
    """Return the memory limit of this process: its own (spark.executor.pyspark.memory), or its container's."""
    limits = [resource.getrlimit(resource.RLIMIT_AS)[0]]
    for path in _CONTAINER:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # missing, or "max"
            continue
    known = [limit for limit in limits if 0 < limit < _UNLIMITED]
    return min(known, default=None)

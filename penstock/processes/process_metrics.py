"""What this process uses of its machine, under the names that Flink has for its JVMs.

There is no JVM here: "heap" is the memory of the Python process that is in RAM, and the collector is Python's.
"""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, Final

CPU_LOAD: Final = "Status.JVM.CPU.Load"  # of all cores, from 0 to 1, since it was asked last
CPU_TIME: Final = "Status.JVM.CPU.Time"  # nanoseconds
MEMORY: Final = "Status.JVM.Memory.Heap.Used"  # bytes
MEMORY_MAX: Final = "Status.JVM.Memory.Heap.Max"  # of the machine
THREADS: Final = "Status.JVM.Threads.Count"
COLLECTIONS: Final = "Status.JVM.GarbageCollector.All.Count"

_STATM: Final = Path("/proc/self/statm")  # pages, the second number those in RAM


class ProcessFigures:
    """Measures the resource use of the process. Each reader needs its own object, because the load is that since its last call."""

    def __init__(self) -> None:
        self._identity = {"host": socket.gethostname(), "pid": os.getpid()}
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._memory = os.sysconf("SC_PHYS_PAGES") * self._page
        self._cores = os.cpu_count() or 1
        self._asked = (time.monotonic(), time.process_time())

    def take(self) -> dict[str, Any]:
        """Return host and process id, and figures by Flink's names. Takes some 20 us."""
        moment, used = time.monotonic(), time.process_time()
        before, used_before = self._asked
        self._asked = (moment, used)
        load = (used - used_before) / max(moment - before, 1e-6) / self._cores
        found = {
            **self._identity,
            CPU_LOAD: round(min(1.0, load), 4),
            CPU_TIME: int(used * 1e9),
            MEMORY_MAX: self._memory,
            THREADS: threading.active_count(),
            COLLECTIONS: sum(each["collections"] for each in gc.get_stats()),
        }
        resident = self._resident()
        return found if resident is None else {**found, MEMORY: resident}

    def _resident(self) -> int | None:
        try:
            return int(_STATM.read_text().split()[1]) * self._page
        except (OSError, ValueError, IndexError):  # no Linux
            return None

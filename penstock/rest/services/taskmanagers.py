"""The TaskManagers: Spark's executors, or this process if it runs its tasks in threads."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobmanager.job_view import SubtaskPlace
from penstock.logs.log_buffer import LOCAL
from penstock.rest.flink_json.taskmanagers import (
    AllocatedSlotInfo,
    GarbageCollectorInfo,
    HardwareDescription,
    MemoryConfiguration,
    MemoryMetrics,
    ResourceProfile,
    TaskManagerDetails,
    TaskManagerExtensions,
    TaskManagerInfo,
    ThreadDumpEntry,
)
from penstock.rest.flink_json.vertices import Location
from penstock.rest.services.published_jobs import Controller, PublishedJobs
from penstock.runtime.inspection.requests import SlotId, SlotInfo, ThreadDump, ThreadInfo
from penstock.runtime.inspection.stacks import dump_threads
from penstock.spark.executors import SparkExecutor, executors
from penstock.spark.logs import taskmanager_of_process

_TIMEOUT_S: Final = 5.0  # for the thread dump of a slot
_NO_SLOTS: Final = "No slots to inspect: thread dumps are only available for jobs in pipelined mode; in epoch mode tasks are short-lived."


@dataclass(frozen=True, slots=True)
class AllocatedSlot:
    """An allocated slot: the controller of its job, and the slot."""

    controller: Controller
    slot: SlotInfo


@dataclass(frozen=True, slots=True)
class TaskManager:
    """One TaskManager, with the slots that pipelined jobs have allocated on it."""

    executor: SparkExecutor
    residents: tuple[AllocatedSlot, ...] = ()

    @property
    def id(self) -> str:
        """Its id."""
        return self.executor.id

    def info(self) -> TaskManagerInfo:
        """Return the TaskManager as `/taskmanagers` lists it."""
        return TaskManagerInfo(**self._fields())

    def details(self) -> TaskManagerDetails:
        """Return the TaskManager as `/taskmanagers/<id>` shows it."""
        share = self.executor.max_memory // max(self.executor.slots, 1)
        slots = [
            AllocatedSlotInfo(
                str(each.controller.get_job_id()),
                ResourceProfile.of(1, share),
                len(each.slot.tasks),
            )
            for each in self.residents
        ]
        return TaskManagerDetails(
            **self._fields(), allocated_slots=slots, metrics=_memory_metrics(self.executor)
        )

    def _fields(self) -> dict[str, Any]:
        executor = self.executor
        host, _, port = executor.address.rpartition(":")
        free = max(executor.slots - executor.busy_slots, 0)
        unused = max(executor.max_memory - executor.used_memory, 0)
        return {
            "id": executor.id,
            "path": f"spark://{executor.address}",
            "data_port": int(port) if port.isdigit() else -1,
            "heartbeat_ms": executor.added_ms,
            "slots": executor.slots,
            "free_slots": free,
            "assigned_tasks": sum(len(each.slot.tasks) for each in self.residents),
            "total_resource": ResourceProfile.of(executor.slots, executor.max_memory),
            "free_resource": ResourceProfile.of(free, unused),
            "hardware": _hardware(host, executor, unused),
            "memory": MemoryConfiguration.of(executor.max_memory),
            "penstock": TaskManagerExtensions(host, executor.logs),
        }

    def metrics(self) -> dict[str, float]:
        """Return its metrics, with Flink's names where Flink has them."""
        memory = self.executor.memory
        return {
            "Status.JVM.Memory.Heap.Used": memory.get("JVMHeapMemory", 0),
            "Status.JVM.Memory.Heap.Max": self.executor.max_memory,
            "Status.JVM.Memory.NonHeap.Used": memory.get("JVMOffHeapMemory", 0),
            "Status.JVM.Memory.Direct.MemoryUsed": memory.get("DirectPoolMemory", 0),
            "Status.JVM.Memory.Mapped.MemoryUsed": memory.get("MappedPoolMemory", 0),
            "Status.JVM.GarbageCollector.All.Count": _collections(memory, "Count"),
            "Status.JVM.GarbageCollector.All.Time": _collections(memory, "Time"),
            "Status.Penstock.SlotsTotal": self.executor.slots,
            "Status.Penstock.SlotsAvailable": max(
                self.executor.slots - self.executor.busy_slots, 0
            ),
        }

    def threads(self) -> list[ThreadDumpEntry]:
        """Return the thread dump of its processes."""
        if self.id == LOCAL:
            return describe_threads(dump_threads())
        found: list[ThreadDumpEntry] = []
        seen: set[tuple[str, int]] = set()
        for each in self.residents:
            place = each.slot.host, each.slot.process
            if place not in seen:
                seen.add(place)
                found += _ask(each)
        return found or [ThreadDumpEntry("none", _NO_SLOTS)]


def _ask(resident: AllocatedSlot) -> list[ThreadDumpEntry]:
    slot = resident.slot
    try:
        dump = resident.controller.inspect(slot.id, ThreadDump()).result(_TIMEOUT_S)
    except (PenstockError, TimeoutError) as error:
        problem = f"process {slot.process}: {error or 'no response'}"
        return [ThreadDumpEntry(str(slot.id), problem)]
    return describe_threads(dump, f"process {slot.process}, ")


def describe_threads(threads: tuple[ThreadInfo, ...], where: str = "") -> list[ThreadDumpEntry]:
    """Return threads with their stacks as text."""
    return [
        ThreadDumpEntry(
            each.name,
            f'"{where}{each.name}" Id={each.ident}'
            + (" runs subtasks" if each.runs_tasks else "")
            + "".join(f"\n\tat {line}" for line in each.stack)
            + "\n\n",
        )
        for each in threads
    ]


@dataclass(frozen=True, slots=True)
class TaskManagers:
    """All current TaskManagers."""

    all: tuple[TaskManager, ...] = field(default=())

    @classmethod
    def now(cls, jobs: PublishedJobs) -> TaskManagers:
        """Get the current TaskManagers from Spark and from the jobs of this process."""
        found = executors()
        known = (_this_process(),) if found is None else tuple(found)
        residents: dict[str, list[AllocatedSlot]] = {}
        for controller in jobs.controllers():
            for slot in controller.slots():
                place = place_of(slot, known)
                residents.setdefault(place, []).append(AllocatedSlot(controller, slot))
        if found is None:
            known = (replace(known[0], busy_slots=len(residents.get(LOCAL, ()))),)
        return cls(tuple(TaskManager(each, tuple(residents.get(each.id, ()))) for each in known))

    def find(self, wanted: str) -> TaskManager | None:
        """Return a TaskManager by its id."""
        return next((each for each in self.all if each.id == wanted), None)


def place_of(slot: SlotInfo, known: tuple[SparkExecutor, ...]) -> str:
    """Return the id of the TaskManager of a slot."""
    if slot.process == os.getpid() and any(each.id == LOCAL for each in known):
        return LOCAL
    on_host = [each for each in known if each.address.rpartition(":")[0].strip("[]") == slot.host]
    if len(on_host) == 1:
        return on_host[0].id
    if len(known) == 1:
        return known[0].id
    return taskmanager_of_process(slot.process) or "unknown"


def locations_of(places: Sequence[SubtaskPlace]) -> dict[int, Location]:
    """Return where subtasks run, with the ids of their TaskManagers."""
    if not places:
        return {}
    found = executors()
    known = (_this_process(),) if found is None else tuple(found)
    nowhere = SlotId(0, 0)
    # Of several places of a subtask the first counts.
    return {
        place.subtask: Location(
            place.host, place_of(SlotInfo(nowhere, place.host, place.process, ()), known)
        )
        for place in reversed(places)
    }


def _this_process() -> SparkExecutor:
    return SparkExecutor(
        id=LOCAL,
        address=f"{socket.gethostname()}:0",
        slots=os.cpu_count() or 1,
        busy_slots=0,
        max_memory=_physical_memory(),
        used_memory=resident_memory(),
        added_ms=int(time.time() * 1000),
    )


def _hardware(host: str, executor: SparkExecutor, free: int) -> HardwareDescription:
    here = host in {"127.0.0.1", "localhost", "::1", socket.gethostname()}
    return HardwareDescription(
        cpu_cores=(os.cpu_count() or 1) if here else executor.slots,
        physical_memory=_physical_memory() if here else executor.max_memory,
        free_memory=free,
    )


def _memory_metrics(executor: SparkExecutor) -> MemoryMetrics:
    memory = executor.memory
    collector = GarbageCollectorInfo(
        "All", _collections(memory, "Count"), _collections(memory, "Time")
    )
    return MemoryMetrics(
        heap_used=memory.get("JVMHeapMemory", executor.used_memory),
        heap_committed=executor.max_memory,
        heap_max=executor.max_memory,
        non_heap_used=memory.get("JVMOffHeapMemory", 0),
        non_heap_committed=memory.get("JVMOffHeapMemory", 0),
        direct_used=memory.get("DirectPoolMemory", 0),
        mapped_used=memory.get("MappedPoolMemory", 0),
        garbage_collectors=[collector],
    )


def _collections(memory: Mapping[str, int], what: str) -> int:
    return sum(memory.get(f"{kind}GC{what}", 0) for kind in ("Minor", "Major"))


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):  # not available on this system
        return 0


def resident_memory() -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - not a regular file
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def process_metrics() -> dict[str, float]:
    """Return the metrics of this process, with Flink's names where Flink has them."""
    times = os.times()
    return {
        "Status.JVM.CPU.Time": int((times.user + times.system) * 1e9),
        "Status.JVM.CPU.Load": round(os.getloadavg()[0] / (os.cpu_count() or 1), 3),
        "Status.JVM.Memory.Heap.Used": resident_memory(),
        "Status.JVM.Memory.Heap.Max": _physical_memory(),
        "Status.JVM.Threads.Count": threading.active_count(),
        "Status.Penstock.Modules": len(sys.modules),
    }

"""Flink's JSON of TaskManagers: their slots, memory and threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from penstock.rest.flink_json.parts import Empty, Id

_MEGABYTE: Final = 1 << 20


class ResourceProfile(Struct, frozen=True, kw_only=True):
    """Processors, and memory in megabytes."""

    cpu_cores: float = field(name="cpuCores")
    task_heap_memory: int = field(name="taskHeapMemory")
    task_off_heap_memory: int = field(name="taskOffHeapMemory", default=0)
    managed_memory: int = field(name="managedMemory", default=0)
    network_memory: int = field(name="networkMemory", default=0)
    extended_resources: Empty = field(name="extendedResources", default=Empty())

    @classmethod
    def of(cls, cores: float, memory: int) -> ResourceProfile:
        """Return processors, and bytes of memory."""
        return cls(cpu_cores=float(cores), task_heap_memory=memory // _MEGABYTE)


class HardwareDescription(Struct, frozen=True, kw_only=True):
    """The machine of a TaskManager; memory in bytes."""

    cpu_cores: int = field(name="cpuCores")
    physical_memory: int = field(name="physicalMemory")
    free_memory: int = field(name="freeMemory")
    managed_memory: int = field(name="managedMemory", default=0)


class MemoryConfiguration(Struct, frozen=True, kw_only=True):
    """The memory of a TaskManager in bytes. It is not divided: all of it is heap memory of tasks."""

    framework_heap: int = field(name="frameworkHeap", default=0)
    framework_off_heap: int = field(name="frameworkOffHeap", default=0)
    task_off_heap: int = field(name="taskOffHeap", default=0)
    network_memory: int = field(name="networkMemory", default=0)
    managed_memory: int = field(name="managedMemory", default=0)
    task_heap: int = field(name="taskHeap")
    metaspace: int = field(name="jvmMetaspace", default=0)
    overhead: int = field(name="jvmOverhead", default=0)
    total_flink_memory: int = field(name="totalFlinkMemory")
    total_process_memory: int = field(name="totalProcessMemory")

    @classmethod
    def of(cls, memory: int) -> MemoryConfiguration:
        """Return a number of bytes."""
        return cls(task_heap=memory, total_flink_memory=memory, total_process_memory=memory)


class TaskManagerExtensions(Struct, frozen=True):
    """The field `penstock` of a TaskManager: its host, and the addresses of its logs in Spark's page."""

    host: str
    logs: Mapping[str, str]


class TaskManagerInfo(Struct, frozen=True, kw_only=True):
    """A TaskManager as `/taskmanagers` lists it."""

    #: Spark's id of the executor, or that of this process.
    id: str
    path: str
    #: -1 if it is unknown.
    data_port: int = field(name="dataPort")
    jmx_port: int = field(name="jmxPort", default=-1)
    #: When the executor was added: Spark does not tell the last heartbeat.
    heartbeat_ms: int = field(name="timeSinceLastHeartbeat")
    slots: int = field(name="slotsNumber")
    #: At most `slots`, and not negative.
    free_slots: int = field(name="freeSlots")
    #: Of pipelined jobs only.
    assigned_tasks: int = field(name="assignedTasks")
    total_resource: ResourceProfile = field(name="totalResource")
    free_resource: ResourceProfile = field(name="freeResource")
    hardware: HardwareDescription
    memory: MemoryConfiguration = field(name="memoryConfiguration")
    penstock: TaskManagerExtensions


class TaskManagerList(Struct, frozen=True):
    """`/taskmanagers`."""

    taskmanagers: list[TaskManagerInfo]


class AllocatedSlotInfo(Struct, frozen=True):
    """A slot that a pipelined job has allocated."""

    job_id: Id = field(name="jobId")
    resource: ResourceProfile
    assigned_tasks: int = field(name="assignedTasks")


class GarbageCollectorInfo(Struct, frozen=True):
    """The collections of a garbage collector, and their milliseconds."""

    name: str
    count: int
    time: int


class MemoryMetrics(Struct, frozen=True, kw_only=True):
    """The memory in use, in bytes; what Spark does not report is 0."""

    non_heap_max: int = field(name="nonHeapMax", default=0)
    direct_count: int = field(name="directCount", default=0)
    direct_max: int = field(name="directMax", default=0)
    mapped_count: int = field(name="mappedCount", default=0)
    mapped_max: int = field(name="mappedMax", default=0)
    segments_available: int = field(name="nettyShuffleMemorySegmentsAvailable", default=0)
    segments_used: int = field(name="nettyShuffleMemorySegmentsUsed", default=0)
    segments_total: int = field(name="nettyShuffleMemorySegmentsTotal", default=0)
    network_available: int = field(name="nettyShuffleMemoryAvailable", default=0)
    network_used: int = field(name="nettyShuffleMemoryUsed", default=0)
    network_total: int = field(name="nettyShuffleMemoryTotal", default=0)
    #: What the JVM reports, else the resident memory of the process.
    heap_used: int = field(name="heapUsed")
    heap_committed: int = field(name="heapCommitted")
    #: The same as `heapCommitted`.
    heap_max: int = field(name="heapMax")
    non_heap_used: int = field(name="nonHeapUsed")
    non_heap_committed: int = field(name="nonHeapCommitted")
    direct_used: int = field(name="directUsed")
    mapped_used: int = field(name="mappedUsed")
    #: One for all collectors together.
    garbage_collectors: list[GarbageCollectorInfo] = field(name="garbageCollectors")


class TaskManagerDetails(TaskManagerInfo, frozen=True, kw_only=True):
    """`/taskmanagers/<id>`."""

    allocated_slots: list[AllocatedSlotInfo] = field(name="allocatedSlots")
    metrics: MemoryMetrics


class ThreadDumpEntry(Struct, frozen=True):
    """A thread with its stack, as text."""

    name: str = field(name="threadName")
    text: str = field(name="stringifiedThreadInfo")


class ThreadDumpInfo(Struct, frozen=True):
    """A thread dump."""

    threads: list[ThreadDumpEntry] = field(name="threadInfos")


class LogInfo(Struct, frozen=True):
    """A log of a process: its size in characters, and when its last line was written."""

    name: str
    size: int
    mtime: int


class LogList(Struct, frozen=True):
    """The logs of a process."""

    logs: list[LogInfo]


class LogUrl(Struct, frozen=True):
    """The address of a log in the web page."""

    url: str

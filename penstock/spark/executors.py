"""The executors of Spark, as taskmanagers: where they are, how many tasks they run, what they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from penstock.spark.session import active_context

_TASKS: Final = 100_000
_MEMORY_METRICS: Final = (
    "JVMHeapMemory",
    "JVMOffHeapMemory",
    "OnHeapExecutionMemory",
    "OffHeapExecutionMemory",
    "DirectPoolMemory",
    "MappedPoolMemory",
    "MinorGCCount",
    "MinorGCTime",
    "MajorGCCount",
    "MajorGCTime",
)


@dataclass(frozen=True, slots=True)
class SparkExecutor:
    """One executor. `memory` has Spark's own figures by their names, as far as it reports them."""

    id: str
    address: str
    slots: int
    busy_slots: int
    max_memory: int  # bytes for execution and storage
    used_memory: int
    added_ms: int
    logs: dict[str, str] = field(default_factory=dict)  # addresses of what it prints, by name
    memory: dict[str, int] = field(default_factory=dict)


def executors() -> list[SparkExecutor] | None:
    """Return the executors that run tasks; None if there is no Spark."""
    context = active_context()
    if context is None or context._jsc is None:  # noqa: SLF001 - no public API
        return None
    spark = context._jsc.sc()  # noqa: SLF001
    listed = spark.statusStore().executorList(True)
    found = [_executor(listed.apply(index)) for index in range(listed.size())]
    # On a cluster the driver is in the list, too, and runs no tasks.
    return [each for each in found if each.slots > 0]


def _executor(summary: Any) -> SparkExecutor:
    return SparkExecutor(
        id=str(summary.id()),
        address=str(summary.hostPort()),
        slots=int(summary.maxTasks()),
        busy_slots=int(summary.activeTasks()),
        max_memory=int(summary.maxMemory()),
        used_memory=int(summary.memoryUsed()),
        added_ms=int(summary.addTime().getTime()),
        logs=_as_dict(summary.executorLogs()),
        memory=_peaks(summary.peakMemoryMetrics()),
    )


def _as_dict(scala_map: Any) -> dict[str, str]:
    pairs = scala_map.iterator()
    found = {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1())] = str(pair._2())  # noqa: SLF001 - that is what Scala calls them
    return found


def _peaks(option: Any) -> dict[str, int]:
    if option.isEmpty():
        return {}
    metrics = option.get()
    return {name: int(metrics.getMetricValue(name)) for name in _MEMORY_METRICS}


def executor_of(stage: int, task: int) -> str | None:
    """Return the id of the executor that runs or has run a task; None if Spark does not know, or not yet."""
    context = active_context()
    if context is None or context._jsc is None:  # noqa: SLF001
        return None
    store = context._jsc.sc().statusStore()  # noqa: SLF001
    try:
        attempt = store.lastStageAttempt(stage).attemptId()
        tasks = store.taskList(stage, attempt, _TASKS)
    except Exception:  # noqa: BLE001 - py4j's error, of a stage that it has not noted yet
        return None
    for index in range(tasks.size()):
        each = tasks.apply(index)
        if each.taskId() == task:
            return str(each.executorId())
    return None


def spark_configuration() -> dict[str, str]:
    """Return the options of the Spark context of this process; none if there is no Spark."""
    context = active_context()
    if context is None or context._jsc is None:  # noqa: SLF001
        return {}
    return {str(key): str(value) for key, value in context.getConf().getAll()}


def spark_ui() -> str | None:
    """Return the address of Spark's own UI; None if there is no Spark, or its UI is off."""
    context = active_context()
    return None if context is None else context.uiWebUrl

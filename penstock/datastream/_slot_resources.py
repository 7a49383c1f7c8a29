"""Compares the resources of slot sharing groups with those of a taskmanager.

Spark gives tasks no share of an executor's memory, so nothing is reserved. Requests that exceed an executor are rejected
before the job starts.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock import options
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.errors import InvalidProgramError
from penstock.options.config_values import format_memory, parse_memory
from penstock.options.configuration import Configuration

_log = logging.getLogger(__name__)

_LOCAL_MASTER = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_LEAST_OVERHEAD = 384 << 20  # Spark's minimum; larger executors have 10 % overhead
_OVERHEAD_FACTOR = 0.1


@dataclass(frozen=True, slots=True)
class TaskManagerResources:
    """The resources of a Spark executor; None if not set in the options."""

    cores: float | None
    memory: int | None

    @staticmethod
    def of(configuration: Configuration) -> TaskManagerResources:
        """Return the resources set in the options; on a local master the executor is this machine."""
        if configuration.get(options.EXECUTION_TARGET) != "local":
            return TaskManagerResources(None, None)
        spark = options.spark_options(configuration)
        cores = spark.get("spark.executor.cores")
        master = spark.get("spark.master") or os.environ.get("SPARK_MASTER")
        local = _LOCAL_MASTER.fullmatch(master or "local[*]")
        if local is None:
            return TaskManagerResources(None if cores is None else float(cores), _memory(spark))
        if master is not None:
            cores = "1" if local[1] is None else local[1]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return TaskManagerResources(
            float(cores if cores not in {None, "*"} else os.cpu_count() or 1), memory
        )


def _memory(spark: dict[str, str]) -> int:
    memory = _spark_size(spark.get("spark.executor.memory", "1g"))
    overhead = spark.get("spark.executor.memoryOverhead")
    if overhead is not None:
        return memory + _spark_size(overhead)
    return memory + max(_LEAST_OVERHEAD, int(memory * _OVERHEAD_FACTOR))


def _spark_size(text: str) -> int:
    """Parse a size like Spark: a plain number is in MiB."""
    return int(text) << 20 if text.strip().isdigit() else parse_memory(text)


def check_slot_resources(groups: Iterable[SlotSharingGroup], configuration: Configuration) -> None:
    """Reject groups whose slots fit no taskmanager, and log for the others that nothing is reserved."""
    asking = [group for group in groups if group.get_cpu_cores() is not None]
    if not asking:
        return
    there = TaskManagerResources.of(configuration)
    for group in asking:
        _check(group, there, options.spark_options(configuration))
        _log.warning(
            "slot sharing group '%s': its resources are %s and not reserved; tasks share the memory of their executor",
            group.get_name(),
            "checked" if there.cores is not None else "not checked",
        )


def _check(group: SlotSharingGroup, there: TaskManagerResources, spark: dict[str, str]) -> None:
    cores = group.get_cpu_cores() or 0.0
    if there.cores is not None and cores > there.cores:
        raise _missing(group, f"{cores:g} cores", f"{there.cores:g}", "spark.executor.cores")
    sizes = (
        group.get_task_heap_memory(),
        group.get_task_off_heap_memory(),
        group.get_managed_memory(),
    )
    memory = sum(size.get_bytes() for size in sizes if size is not None)
    if there.memory is not None and memory > there.memory:
        wanted, has = format_memory(memory), format_memory(there.memory)
        raise _missing(group, f"{wanted} of memory", has, "spark.executor.memory")
    for name, amount in group.get_external_resources().items():
        option = f"spark.executor.resource.{name}.amount"
        if amount > float(spark.get(option, "0")):
            raise _missing(group, f"{amount:g} of {name}", spark.get(option, "none"), option)


def _missing(group: SlotSharingGroup, wanted: str, has: str, option: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"slot sharing group '{group.get_name()}' needs {wanted}",
        detail=f"a taskmanager has {has}",
        hint=f"request less, or set {option}",
    )

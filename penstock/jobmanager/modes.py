"""Chooses the execution mode of a job: pipelined or epochs. Pure functions."""

from __future__ import annotations

from penstock.errors import ConfigurationError, PenstockError
from penstock.graph.stage import ClusterCapacity

AUTO, PIPELINED, EPOCHS = "auto", "pipelined", "epochs"
MODES = (AUTO, PIPELINED, EPOCHS)


class InsufficientSlotsError(PenstockError, RuntimeError):
    """A cluster does not have enough slots for a job in pipelined mode."""


def prefers_pipelined(mode: str, *, batch: bool, bounded: bool) -> bool:
    """Whether a job runs in pipelined mode if there are enough slots.

    >>> prefers_pipelined("auto", batch=False, bounded=False), prefers_pipelined("auto", batch=False, bounded=True)
    (True, False)
    """
    if mode == PIPELINED and batch:
        raise ConfigurationError(
            "penstock.execution.mode is 'pipelined', but the job is a BATCH job",
            detail="BATCH jobs run in epoch mode: one stage after another, each over all of its input",
            hint="set execution.runtime-mode to STREAMING, or remove penstock.execution.mode",
        )
    return mode == PIPELINED or (mode == AUTO and not batch and not bounded)


def mode_reason(mode: str, *, batch: bool, bounded: bool, origin: str) -> str:
    """Return why a job prefers its mode; `origin` says what set a mode other than auto.

    >>> mode_reason("auto", batch=False, bounded=True, origin="")
    'all sources are bounded'
    >>> mode_reason("pipelined", batch=False, bounded=True, origin="set by penstock.execution.mode")
    'set by penstock.execution.mode'
    """
    if batch:
        return "BATCH job"
    if mode != AUTO:
        return origin
    return "all sources are bounded" if bounded else "a source is unbounded"


def check_capacity(wanted: int, capacity: ClusterCapacity) -> None:
    """Reject pipelined mode if there are not enough slots."""
    if capacity.obstacle is not None and wanted > 0:
        raise InsufficientSlotsError(
            f"the job cannot run in pipelined mode: {capacity.obstacle}",
            hint="set spark.dynamicAllocation.enabled to false, or penstock.execution.mode to epochs",
        )
    if capacity.slots is not None and capacity.slots < wanted:
        raise InsufficientSlotsError(
            f"the job needs {_count(wanted)} to run in pipelined mode, but Spark has {capacity.slots}",
            detail="a slot is a core of Spark that one subtask of each operator occupies while the job runs; "
            "slot sharing groups add up, and streams that Spark reads, or sinks that run Spark jobs, need another one",
            hint=f"lower the parallelism, give Spark {wanted} cores (spark.master, spark.cores.max), "
            "or set penstock.execution.mode to epochs",
        )


def _count(slots: int) -> str:
    return f"{slots} slot" if slots == 1 else f"{slots} slots"

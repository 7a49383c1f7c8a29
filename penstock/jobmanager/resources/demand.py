"""The slot demand of jobs. Pure functions of their plans."""

from __future__ import annotations

from penstock.graph.placement import count_slots, count_slots_apart
from penstock.graph.stage import SlotDemand
from penstock.jobmanager.job import Job
from penstock.jobmanager.modes import AUTO


def slot_demand(job: Job, *, waits: bool = True) -> SlotDemand:
    """Return the demand of a job in pipelined mode; a job that may also use epoch mode does not wait for slots."""
    reserved = reserved_slots(job)
    return SlotDemand(
        job.job_id,
        job.name,
        slots=count_slots(job.job_graph) + reserved,
        preferred=count_slots_apart(job.job_graph) + reserved,
        timeout_s=job.slot_timeout_s,
        waits=waits and job.mode != AUTO,
    )


def reserved_slots(job: Job) -> int:
    """Return the slots of a job that stay free of its tasks: for streaming queries of Spark that sources read, and Spark jobs of sinks.

    Sinks commit one after another, so they share theirs.
    """
    of_sources: int = sum(source.reserved_slots for _, _, source, _ in job.sources())
    return of_sources + max((sink.reserved_slots for sink in job.sinks().values()), default=0)


def shared_demand(job: Job) -> SlotDemand:
    """Return the demand of a job in epoch mode: a share of the slots that are not allocated."""
    return SlotDemand(job.job_id, job.name, slots=0, timeout_s=job.slot_timeout_s)

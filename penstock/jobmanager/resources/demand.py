"""The slot demand of jobs. Pure functions of their plans."""

from __future__ import annotations

from penstock.graph.placement import count_slots, count_slots_apart
from penstock.graph.stage import SlotDemand
from penstock.jobmanager.job import Job
from penstock.jobmanager.modes import AUTO


def slot_demand(job: Job, *, waits: bool = True) -> SlotDemand:
    """Return the demand of a job in pipelined mode; a job that may also use epoch mode does not wait for slots."""
    return SlotDemand(
        job.job_id,
        job.name,
        slots=count_slots(job.job_graph),
        preferred=count_slots_apart(job.job_graph),
        timeout_s=job.slot_timeout_s,
        waits=waits and job.mode != AUTO,
    )


def shared_demand(job: Job) -> SlotDemand:
    """Return the demand of a job in epoch mode: a share of the slots that are not allocated."""
    return SlotDemand(job.job_id, job.name, slots=0, timeout_s=job.slot_timeout_s)

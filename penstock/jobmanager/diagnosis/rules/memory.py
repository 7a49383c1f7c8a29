"""How much memory the processes of a job need, and whether they have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.figures import JobFigures
from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent, size

_TIGHT: Final = 0.8
_DANGEROUS: Final = 0.95
_ROOM: Final = 1.5  # what is advised, against the most that was used
_STEP: Final = 256 << 20
_MUCH_STATE: Final = 1 << 30


def memory(job: JobFigures) -> Iterator[Finding]:
    """Say that a process is near its limit, and what it should have; or that state is large for memory."""
    limited = {place: each for place, each in job.processes.items() if each.limit}
    tight = max(
        limited.items(), key=lambda each: each[1].peak_memory / (each[1].limit or 1), default=None
    )
    if tight is not None:
        place, facts = tight
        assert facts.limit is not None
        share = facts.peak_memory / facts.limit
        if share >= _TIGHT:
            yield Finding(
                "memory",
                Severity.CRITICAL if share >= _DANGEROUS else Severity.WARNING,
                f"a process has used {percent(min(share, 1.0))} of the memory that it may use",
                f"{place}: {size(facts.peak_memory)} of {size(facts.limit)} at most, {size(facts.memory)} now",
                f"give it {size(advised(facts.peak_memory))} (spark.executor.pyspark.memory, spark.executor.memoryOverhead)"
                + _or_rocksdb(job),
                figures={"peak": facts.peak_memory, "limit": facts.limit},
            )
            return
    state = job.completed[-1].size if job.completed else 0
    if job.state_backend == "hashmap" and state >= _MUCH_STATE:
        most = max((each.peak_memory for each in job.processes.values()), default=0)
        used = f"; the largest process has used {size(most)}" if most else ""
        yield Finding(
            "memory",
            Severity.WARNING,
            f"{size(state)} of state are kept as objects in memory",
            f"objects take several times what they take in a checkpoint{used}",
            "with rocksdb state is on disk, and memory is a cache (state.backend.type)",
            figures={"state": state, "peak": most},
        )


def _or_rocksdb(job: JobFigures) -> str:
    return ", or keep state in rocksdb" if job.state_backend == "hashmap" else ""


def advised(peak: int) -> int:
    """Return the memory that a process should have which has used so much, in steps of 256 MB.

    >>> advised(700 << 20) >> 20
    1280
    """
    return -(-int(peak * _ROOM) // _STEP) * _STEP

"""The memory of the processes of a job, against their limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent, size
from penstock.jobmanager.diagnosis.metrics import JobFigures

_TIGHT: Final = 0.8
_DANGEROUS: Final = 0.95
_HEADROOM: Final = 1.5  # advised memory, as a multiple of the peak
_STEP: Final = 256 << 20
_MUCH_STATE: Final = 1 << 30


def memory(job: JobFigures) -> Iterator[Finding]:
    """Report a process near its memory limit, with the advised memory; or state that is large for the heap."""
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
                f"a process has used {percent(min(share, 1.0))} of its memory limit",
                f"{place}: peak {size(facts.peak_memory)} of {size(facts.limit)}, {size(facts.memory)} now",
                f"set it to {size(advised(facts.peak_memory))} (spark.executor.pyspark.memory, spark.executor.memoryOverhead)"
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
            f"{size(state)} of state are objects in memory",
            f"objects take several times their size in a checkpoint{used}",
            "with rocksdb state is on disk, and memory is only a cache (state.backend.type)",
            figures={"state": state, "peak": most},
        )


def _or_rocksdb(job: JobFigures) -> str:
    return ", or keep state in rocksdb" if job.state_backend == "hashmap" else ""


def advised(peak: int) -> int:
    """Return the advised memory of a process with this peak, in steps of 256 MB.

    >>> advised(700 << 20) >> 20
    1280
    """
    return -(-int(peak * _HEADROOM) // _STEP) * _STEP

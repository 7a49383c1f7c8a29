"""Failed, slow, large or missing checkpoints, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration, percent, size
from penstock.jobmanager.diagnosis.metrics import (
    CheckpointFigures,
    JobFigures,
    SubtaskCheckpointFigures,
)

_SLOW_OF_INTERVAL: Final = 0.5
_SLOW_OF_TIMEOUT: Final = 0.5
_SLOW_MS: Final = 1000  # faster checkpoints are never slow
_LARGE: Final = 256 << 20  # new bytes of one checkpoint
_WHOLE: Final = 0.7  # share of the state from which a checkpoint writes nearly all of it
_UNEVEN: Final = 3.0  # the slowest subtask against the average


def failed_checkpoints(job: JobFigures) -> Iterator[Finding]:
    """Report failed checkpoints, with the last reason."""
    failed = [each for each in job.checkpoints if each.failed]
    if not failed:
        return
    last = failed[-1]
    since = [each for each in job.completed if each.number > last.number]
    reason = (last.reason or "unknown reason").partition("\n")[0]  # without its hint
    timeout = job.timeout_ms is not None and "expired before completing" in reason
    yield Finding(
        "failed-checkpoints",
        Severity.INFO if since else Severity.CRITICAL,
        f"{len(failed)} of the last {len(job.checkpoints)} checkpoints failed",
        f"the last one was checkpoint {last.number}: {reason}"
        + (_not_acknowledged(job, last) if timeout else "")
        + (f"; {len(since)} were completed since" if since else "; none was completed since"),
        "they exceed execution.checkpointing.timeout: find what makes them slow; a flame graph shows a function that blocks"
        if timeout
        else "without checkpoints a restart repeats everything since the last one, and transactional sinks commit nothing",
        figures={"failed": len(failed), "checkpoint": last.number},
    )


def _not_acknowledged(job: JobFigures, checkpoint: CheckpointFigures) -> str:
    """Return the subtasks that a checkpoint waited for. Those of one slot share a thread: a function that blocks holds up all of them."""
    missing = [
        (vertex, sum(vertex.task(n) not in checkpoint.subtasks for n in range(vertex.parallelism)))
        for vertex in job.vertices
    ]
    named = [f"'{vertex.name}' ({n} of {vertex.parallelism})" for vertex, n in missing if n]
    return f"; not acknowledged by {', '.join(named)}" if named else ""


@dataclass(frozen=True, slots=True)
class _Part:
    """The slowest subtask of a checkpoint, and its longest phase."""

    vertex: str
    subtask: int
    millis: float
    phase: str
    phase_millis: float
    figures: SubtaskCheckpointFigures


def slow_checkpoints(job: JobFigures) -> Iterator[Finding]:
    """Report a slow last checkpoint, with its slowest subtask and phase. In epoch mode its duration is that of the epoch."""
    if not job.completed or not job.pipelined:
        return
    last = job.completed[-1]
    if last.duration_ms < _SLOW_MS:
        return
    of_interval = last.duration_ms / job.interval_ms if job.interval_ms else 0.0
    of_timeout = last.duration_ms / job.timeout_ms if job.timeout_ms else 0.0
    if of_interval < _SLOW_OF_INTERVAL and of_timeout < _SLOW_OF_TIMEOUT:
        return
    slowest = _slowest(last)
    yield Finding(
        "slow-checkpoints",
        Severity.WARNING,
        f"checkpoints take {duration(last.duration_ms)}" + _of_what(job, of_interval, of_timeout),
        _where(job, last, slowest),
        _hint(job, slowest),
        None if slowest is None else slowest.vertex,
        None if slowest is None else slowest.subtask,
        figures={"checkpoint": last.number, "duration_ms": last.duration_ms}
        | ({} if slowest is None else {"phase": slowest.phase, "phase_ms": slowest.phase_millis}),
    )


def _of_what(job: JobFigures, of_interval: float, of_timeout: float) -> str:
    if of_timeout >= _SLOW_OF_TIMEOUT and job.timeout_ms:
        return f", {percent(of_timeout)} of the timeout"
    assert job.interval_ms is not None
    return f", {percent(of_interval)} of the interval of {duration(job.interval_ms)}"


_PHASES: Final[dict[str, Callable[[SubtaskCheckpointFigures], float]]] = {
    "start delay": lambda each: each.start_delay_ms,
    "alignment": lambda each: each.alignment_ms,
    "sync": lambda each: each.sync_ms,
    "async": lambda each: each.async_ms,
}
_MEANINGS: Final = {
    "start delay": "until the first barrier arrived (start delay)",
    "alignment": "from the first barrier to the last (barrier alignment)",
    "sync": "in the synchronous phase, while it processed nothing",
    "async": "in the asynchronous phase, writing to storage",
}
_HINTS: Final = {
    "start delay": "barriers queue behind records: fix the bottleneck, or use unaligned checkpoints "
    "(execution.checkpointing.unaligned.enabled)",
    "alignment": "one of its inputs is slower than the others: fix the bottleneck or the skew upstream, or use unaligned checkpoints "
    "(execution.checkpointing.unaligned.enabled)",
    "sync": "the hashmap backend pickles changed state in the synchronous phase; with rocksdb it does not depend on the state size "
    "(state.backend.type)",
    "async": "storage is slow, or the checkpoint is large: reduce the state, use state TTL, or rocksdb, which uploads only new "
    "files",
}


def _hint(job: JobFigures, slowest: _Part | None) -> str:
    if slowest is None:
        return "its subtasks reported no statistics"
    if job.unaligned and slowest.phase in {"start delay", "alignment"}:
        return "checkpoints are unaligned already: a call of your code takes long, or a slot is saturated; see its flame graph"
    return _HINTS[slowest.phase]


def _slowest(checkpoint: CheckpointFigures) -> _Part | None:
    found = max(checkpoint.subtasks.items(), key=lambda each: each[1].duration_ms, default=None)
    if found is None:
        return None
    task, figures = found
    millis = {phase: float(read(figures)) for phase, read in _PHASES.items()}
    phase = max(millis, key=millis.__getitem__)
    return _Part(task.vertex, task.subtask, figures.duration_ms, phase, millis[phase], figures)


def _where(job: JobFigures, checkpoint: CheckpointFigures, slowest: _Part | None) -> str:
    if slowest is None:
        return f"checkpoint {checkpoint.number}"
    label = job.vertex(slowest.vertex).label if _known(job, slowest.vertex) else slowest.vertex
    text = (
        f"subtask {slowest.subtask} of '{label}' was the slowest; it spent {duration(slowest.phase_millis)} "
        f"{_MEANINGS[slowest.phase]}"
    )
    written = slowest.figures.written
    if slowest.phase == "async" and slowest.phase_millis > 0 and written:
        text += f", {size(written)} at {size(written / slowest.phase_millis * 1000)} per second"
    sizes = [each.size for each in checkpoint.subtasks.values()]
    average = sum(sizes) / len(sizes)
    if average and slowest.figures.size > _UNEVEN * average:
        text += f"; it has {percent(slowest.figures.size / sum(sizes))} of all state"
    return text


def _known(job: JobFigures, vertex: str) -> bool:
    return any(each.id == vertex for each in job.vertices)


def large_checkpoints(job: JobFigures) -> Iterator[Finding]:
    """Report large checkpoints, with the vertex that writes most."""
    if not job.completed:
        return
    last = job.completed[-1]
    if last.written < _LARGE:
        return
    share = last.written / max(last.size, 1)
    by_vertex = dict.fromkeys(last.sizes, 0)
    for task, figures in last.subtasks.items():
        by_vertex[task.vertex] = by_vertex.get(task.vertex, 0) + figures.written
    worst = max(by_vertex, key=by_vertex.__getitem__, default=None)
    text = f"it wrote {percent(min(share, 1.0))} of the state of {size(last.size)}"
    if worst is not None and _known(job, worst):
        part = by_vertex[worst] / max(sum(by_vertex.values()), 1)
        text += f"; {percent(part)} of that came from '{job.vertex(worst).label}'"
    whole = share >= _WHOLE and job.state_backend == "hashmap"
    yield Finding(
        "large-checkpoints",
        Severity.INFO,
        f"the last checkpoint wrote {size(last.written)}",
        text,
        "nearly all state is written each time: rocksdb checkpoints are incremental (state.backend.type)"
        if whole
        else "use a longer interval, so that repeated changes are written once, or state TTL, which keeps state small",
        worst,
        figures={"written": last.written, "state": last.size, "checkpoint": last.number},
    )


def no_checkpoints(job: JobFigures) -> Iterator[Finding]:
    """Report a long-running job without checkpoints."""
    hour = 3_600_000
    if job.status != "RUNNING" or job.interval_ms is not None or job.running_ms < hour // 6:
        return
    yield Finding(
        "no-checkpoints",
        Severity.WARNING,
        "the job takes no checkpoints",
        f"it has run for {duration(job.running_ms)}: after a failure it starts from scratch, and transactional sinks commit only at "
        "its end",
        "set execution.checkpointing.interval and execution.checkpointing.dir",
    )

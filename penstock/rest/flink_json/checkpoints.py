"""Flink's JSON of the checkpoints of a job: counts, distributions, history, and each checkpoint by vertex and subtask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, field

from penstock.jobmanager.checkpointing.checkpoint_statistics import (
    CheckpointRecord,
    CheckpointSnapshot,
    CheckpointStatus,
    CheckpointTotals,
    RestoredCheckpoint,
    SubtaskRecord,
    VertexCheckpoint,
)
from penstock.jobmanager.job_view import CheckpointingView, JobView

_FOREVER_MS: Final = 2**63 - 1  # Flink's value for no interval


class Percentiles(Struct, frozen=True, kw_only=True):
    """The smallest, largest and average value, and percentiles."""

    min: int
    max: int
    avg: int
    p50: int
    p90: int
    p95: int
    p99: int
    p999: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Return the distribution of values; zeros if there is none."""
        ordered = sorted(values)
        last = len(ordered) - 1
        if last < 0:
            return cls(min=0, max=0, avg=0, p50=0, p90=0, p95=0, p99=0, p999=0)

        def at(share: float) -> int:
            return round(ordered[round(share * last)])

        average = round(sum(ordered) / len(ordered))
        return cls(
            min=round(ordered[0]), max=round(ordered[-1]), avg=average,
            p50=at(0.5), p90=at(0.9), p95=at(0.95), p99=at(0.99), p999=at(0.999),
        )  # fmt: skip


class CheckpointCounts(Struct, frozen=True):
    """The numbers of checkpoints of a job, and of its restores."""

    restored: int
    completed: int
    failed: int
    total: int
    in_progress: int


class CheckpointSummary(Struct, frozen=True, kw_only=True):
    """The distributions over the last completed checkpoints."""

    checkpointed_size: Percentiles
    state_size: Percentiles
    end_to_end_duration: Percentiles
    alignment_buffered: Percentiles
    processed_data: Percentiles
    persisted_data: Percentiles

    @classmethod
    def of(cls, totals: Sequence[CheckpointTotals]) -> CheckpointSummary:
        """Return the distributions over checkpoints."""
        return cls(
            checkpointed_size=Percentiles.of([each.written for each in totals]),
            state_size=Percentiles.of([each.size for each in totals]),
            end_to_end_duration=Percentiles.of([each.duration_ms for each in totals]),
            alignment_buffered=Percentiles.of([0 for _ in totals]),
            processed_data=Percentiles.of([each.processed_in_flight for each in totals]),
            persisted_data=Percentiles.of([each.persisted_in_flight for each in totals]),
        )


class PhaseDurations(Struct, frozen=True):
    """How long the phases of a checkpoint took in a subtask."""

    sync: int
    asynchronous: int = field(name="async")


class Alignment(Struct, frozen=True):
    """Barrier alignment in a subtask, and the records in flight of an unaligned checkpoint. Nothing is ever buffered."""

    buffered: int
    processed: int
    persisted: int
    duration: int


class SubtaskCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint in one subtask; only the first three fields until it has acknowledged."""

    #: `completed` or `pending`; then the fields from `ack_timestamp` on are unset.
    class_name: str = field(name="className")
    index: int
    status: str
    ack_timestamp: int | UnsetType = UNSET
    #: From the trigger to the acknowledgement.
    end_to_end_duration: int | UnsetType = UNSET
    #: New bytes; at most `state_size`.
    checkpointed_size: int | UnsetType = UNSET
    state_size: int | UnsetType = UNSET
    checkpoint: PhaseDurations | UnsetType = UNSET
    alignment: Alignment | UnsetType = UNSET
    #: From the trigger to the first barrier.
    start_delay: int | UnsetType = UNSET
    unaligned_checkpoint: bool | UnsetType = UNSET
    aborted: bool | UnsetType = UNSET

    @classmethod
    def of(cls, triggered_ms: int, index: int, subtask: SubtaskRecord | None) -> SubtaskCheckpoint:
        """Return a checkpoint in one subtask."""
        if subtask is None:
            return cls(class_name="pending", index=index, status="pending_or_failed")
        figures = subtask.figures
        return cls(
            class_name="completed",
            index=index,
            status="completed",
            ack_timestamp=subtask.acknowledged_ms,
            end_to_end_duration=subtask.acknowledged_ms - triggered_ms,
            checkpointed_size=subtask.written,
            state_size=subtask.size,
            checkpoint=PhaseDurations(round(figures.sync_ms), round(figures.async_ms)),
            alignment=Alignment(
                0,
                figures.processed_in_flight,
                figures.persisted_in_flight,
                round(figures.alignment_ms),
            ),
            start_delay=round(figures.start_delay_ms),
            unaligned_checkpoint=figures.unaligned,
            aborted=False,
        )


class PhaseDistributions(Struct, frozen=True):
    """How long the phases of a checkpoint took, over subtasks."""

    sync: Percentiles
    asynchronous: Percentiles = field(name="async")


class AlignmentDistributions(Struct, frozen=True):
    """Barrier alignment and the records in flight, over subtasks."""

    buffered: Percentiles
    processed: Percentiles
    persisted: Percentiles
    duration: Percentiles


class VertexCheckpointSummary(Struct, frozen=True, kw_only=True):
    """The distributions of a checkpoint over the subtasks of a vertex."""

    checkpointed_size: Percentiles
    state_size: Percentiles
    end_to_end_duration: Percentiles
    checkpoint_duration: PhaseDistributions
    alignment: AlignmentDistributions
    start_delay: Percentiles

    @classmethod
    def of(cls, triggered_ms: int, subtasks: Sequence[SubtaskRecord]) -> VertexCheckpointSummary:
        """Return the distributions over subtasks."""
        figures = [each.figures for each in subtasks]
        return cls(
            checkpointed_size=Percentiles.of([each.written for each in subtasks]),
            state_size=Percentiles.of([each.size for each in subtasks]),
            end_to_end_duration=Percentiles.of(
                [each.acknowledged_ms - triggered_ms for each in subtasks]
            ),
            checkpoint_duration=PhaseDistributions(
                Percentiles.of([each.sync_ms for each in figures]),
                Percentiles.of([each.async_ms for each in figures]),
            ),
            alignment=AlignmentDistributions(
                Percentiles.of([0 for _ in figures]),
                Percentiles.of([each.processed_in_flight for each in figures]),
                Percentiles.of([each.persisted_in_flight for each in figures]),
                Percentiles.of([each.alignment_ms for each in figures]),
            ),
            start_delay=Percentiles.of([each.start_delay_ms for each in figures]),
        )


class VertexCheckpointDetails(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/checkpoints/details/<id>/subtasks/<id>`; in the details of a checkpoint without the last two fields."""

    #: The id of the checkpoint.
    id: int
    #: COMPLETED as soon as all subtasks of the vertex have acknowledged.
    status: str
    #: -1 before the first acknowledgement.
    latest_ack_timestamp: int
    end_to_end_duration: int
    state_size: int
    checkpointed_size: int
    #: Flink still has the field; nothing is buffered for barrier alignment.
    alignment_buffered: int = 0
    processed_data: int
    persisted_data: int
    num_subtasks: int
    #: At most `num_subtasks`.
    num_acknowledged_subtasks: int
    summary: VertexCheckpointSummary | UnsetType = UNSET
    subtasks: list[SubtaskCheckpoint] | UnsetType = UNSET

    @classmethod
    def of(cls, part: VertexCheckpoint, *, with_subtasks: bool) -> VertexCheckpointDetails:
        """Return a checkpoint in one vertex."""
        triggered_ms, subtasks, totals = part.checkpoint.triggered_ms, part.subtasks, part.totals()
        details: dict[str, Any] = {}
        if with_subtasks:
            details = {
                "summary": VertexCheckpointSummary.of(triggered_ms, list(subtasks.values())),
                "subtasks": [
                    SubtaskCheckpoint.of(triggered_ms, index, subtasks.get(index))
                    for index in range(part.parallelism)
                ],
            }
        return cls(
            id=part.checkpoint.number,
            status=part.status.value,
            latest_ack_timestamp=totals.latest_ack_ms,
            end_to_end_duration=totals.duration_ms,
            state_size=totals.size,
            checkpointed_size=totals.written,
            processed_data=totals.processed_in_flight,
            persisted_data=totals.persisted_in_flight,
            num_subtasks=part.parallelism,
            num_acknowledged_subtasks=len(subtasks),
            **details,
        )


class CheckpointDetails(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/checkpoints/details/<id>`; in lists without its vertices."""

    #: `status` in lower case.
    class_name: str = field(name="className")
    #: Unique among the checkpoints of an attempt of the job; a restored job may use it again.
    id: int
    #: IN_PROGRESS, COMPLETED or FAILED.
    status: str
    is_savepoint: bool = False
    savepoint_format: None = field(name="savepointFormat", default=None)
    checkpoint_type: str
    trigger_timestamp: int
    #: The trigger time before the first acknowledgement.
    latest_ack_timestamp: int
    end_to_end_duration: int
    state_size: int
    checkpointed_size: int
    alignment_buffered: int = 0
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    #: By vertex; empty in lists.
    tasks: dict[str, VertexCheckpointDetails]
    #: Set if it is completed and not temporary, as is `discarded`.
    external_path: str | UnsetType = UNSET
    discarded: bool | UnsetType = UNSET
    #: Set if it failed, as is the message.
    failure_timestamp: int | UnsetType | None = UNSET
    failure_message: str | UnsetType | None = UNSET

    @classmethod
    def of(cls, record: CheckpointRecord, *, with_vertices: bool) -> CheckpointDetails:
        """Return a checkpoint."""
        failed, totals = record.status is CheckpointStatus.FAILED, record.totals()
        vertices = record.vertices() if with_vertices else []
        return cls(
            class_name=record.status.value.lower(),
            id=record.number,
            status=record.status.value,
            checkpoint_type="UNALIGNED_CHECKPOINT" if record.unaligned else "CHECKPOINT",
            trigger_timestamp=record.triggered_ms,
            latest_ack_timestamp=totals.latest_ack_ms,
            end_to_end_duration=totals.duration_ms,
            state_size=totals.size,
            checkpointed_size=totals.written,
            processed_data=totals.processed_in_flight,
            persisted_data=totals.persisted_in_flight,
            num_subtasks=sum(record.parallelism.values()),
            num_acknowledged_subtasks=len(record.subtasks),
            tasks={
                each.vertex: VertexCheckpointDetails.of(each, with_subtasks=False)
                for each in vertices
            },
            external_path=UNSET if record.path is None else record.path,
            discarded=UNSET if record.path is None else False,
            failure_timestamp=record.ended_ms if failed else UNSET,
            failure_message=record.reason if failed else UNSET,
        )


class Restored(Struct, frozen=True, kw_only=True):
    """The checkpoint that the job was last restored from."""

    id: int
    restore_timestamp: int
    is_savepoint: bool = False
    external_path: str | None

    @classmethod
    def of(cls, restored: RestoredCheckpoint) -> Restored:
        """Return a checkpoint that a job was restored from."""
        return cls(
            id=restored.number,
            restore_timestamp=restored.restored_ms,
            external_path=restored.path,
        )


class LastSavepoint(Struct, frozen=True, kw_only=True):
    """The last savepoint of a job."""

    class_name: str = field(name="className", default="completed")
    status: str = "COMPLETED"
    is_savepoint: bool = True
    checkpoint_type: str = "SAVEPOINT"
    external_path: str


class LatestCheckpoints(Struct, frozen=True):
    """The last checkpoint of each kind."""

    completed: CheckpointDetails | None
    failed: CheckpointDetails | None
    restored: Restored | None
    savepoint: LastSavepoint | None


class CheckpointOverview(Struct, frozen=True):
    """`/jobs/<id>/checkpoints`."""

    counts: CheckpointCounts
    summary: CheckpointSummary
    latest: LatestCheckpoints
    history: list[CheckpointDetails]

    @classmethod
    def of(cls, job: JobView) -> CheckpointOverview:
        """Return the checkpoint statistics of a job."""
        found = job.checkpoints()
        return cls(
            CheckpointCounts(
                found.restored_count,
                found.completed_count,
                found.failed_count,
                found.count,
                found.in_progress_count,
            ),
            CheckpointSummary.of(found.totals),
            LatestCheckpoints(
                _brief(found.completed),
                _brief(found.failed),
                None if found.restored is None else Restored.of(found.restored),
                None if job.savepoint is None else LastSavepoint(external_path=job.savepoint),
            ),
            [CheckpointDetails.of(record, with_vertices=False) for record in found.history],
        )


def _brief(record: CheckpointRecord | None) -> CheckpointDetails | None:
    return None if record is None else CheckpointDetails.of(record, with_vertices=False)


def known_checkpoints(found: CheckpointSnapshot) -> list[CheckpointRecord]:
    """Return the checkpoints that can be looked at: those of the history, and the last of each kind."""
    latest = [record for record in (found.completed, found.failed) if record is not None]
    return [*found.history, *latest]


class Externalization(Struct, frozen=True):
    """Whether checkpoints are kept for a restart by hand."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/checkpoints/config`. Times are in milliseconds; 2^63 - 1 is never."""

    #: exactly_once or at_least_once.
    mode: str
    interval: int
    timeout: int
    min_pause: int
    #: At least 1.
    max_concurrent: int
    tolerable_failed_checkpoints: int
    unaligned_checkpoints: bool
    #: Only with unaligned checkpoints: how long barrier alignment may take first.
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool = True
    externalization: Externalization
    state_changelog_enabled: bool = False
    changelog_periodic_materialization_interval: int = _FOREVER_MS
    changelog_storage: str = "none"
    state_backend: str
    #: A directory, or `temporary`.
    checkpoint_storage: str

    @classmethod
    def of(cls, view: CheckpointingView) -> CheckpointConfigInfo:
        """Return the settings of checkpointing."""
        checkpoints, barriers = view.checkpoints, view.barriers
        return cls(
            mode="exactly_once" if barriers.exactly_once else "at_least_once",
            interval=_millis(checkpoints.interval_ms),
            timeout=_millis(checkpoints.timeout_ms),
            min_pause=checkpoints.min_pause_ms,
            max_concurrent=checkpoints.max_concurrent,
            tolerable_failed_checkpoints=checkpoints.tolerable_failures,
            unaligned_checkpoints=barriers.unaligned,
            aligned_checkpoint_timeout=barriers.aligned_timeout_ms,
            externalization=Externalization(
                not checkpoints.temporary,
                checkpoints.temporary or not checkpoints.retain_on_cancel,
            ),
            state_backend=view.state_backend,
            checkpoint_storage="temporary" if checkpoints.temporary else checkpoints.directory,
        )


def _millis(value: int | None) -> int:
    return _FOREVER_MS if value is None else value

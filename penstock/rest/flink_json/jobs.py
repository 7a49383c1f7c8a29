"""Flink's JSON of jobs: lists, details, plan, settings, failures, accumulators, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, field

from penstock.common.job_status import JobStatus
from penstock.jobmanager.execution.failure_history import FailureEntry
from penstock.jobmanager.job_view import (
    AccumulatorView,
    EdgeView,
    JobView,
    OperatorView,
    Value,
    VertexView,
)
from penstock.jobmanager.metrics.dropped_record_counts import DroppedRecords
from penstock.records.dropped_records import REASONS
from penstock.rest.flink_json.parts import NOWHERE, Empty, Id, Span, count_states
from penstock.rest.flink_json.vertices import IoMetrics

_JOB_STATES: Final = ("INITIALIZING", *(status.name for status in JobStatus))


class JobIdAndStatus(Struct, frozen=True):
    """A job as `/jobs` lists it."""

    id: Id
    status: str


class JobIds(Struct, frozen=True):
    """`/jobs`."""

    jobs: list[JobIdAndStatus]


class JobOverview(Struct, frozen=True, kw_only=True):
    """A job as `/jobs/overview` lists it."""

    jid: Id
    name: str
    job_type: str = field(name="jobType")
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    last_modification: int = field(name="last-modification")
    state: str
    scheduler_type: str = field(name="schedulerType", default="Default")
    pending_operators: int = field(name="pending-operators", default=0)
    #: Subtasks: `total`, and by state in lower case.
    tasks: dict[str, int]

    @classmethod
    def of(cls, job: JobView, now: int) -> JobOverview:
        """Return the overview of a job."""
        tasks = [each for vertex in job.vertices() for each in vertex.subtasks]
        counts = count_states(task.current.state.name for task in tasks)
        span = Span.of(job.start_ms, job.end_ms, now)
        return cls(
            jid=job.id,
            name=job.name,
            job_type=job.settings().type,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            last_modification=now if job.end_ms is None else job.end_ms,
            state=job.status.name,
            tasks={
                "total": len(tasks),
                **{state.lower(): count for state, count in counts.items()},
            },
        )


class JobOverviews(Struct, frozen=True):
    """`/jobs/overview`."""

    jobs: list[JobOverview]


class JobState(Struct, frozen=True):
    """`/jobs/<id>/status`."""

    status: str


class PlanInput(Struct, frozen=True):
    """An input of a vertex in the plan."""

    num: int
    id: str
    ship_strategy: str
    exchange: str = "pipelined_bounded"


class PlanNode(Struct, frozen=True, kw_only=True):
    """A vertex in the plan."""

    id: str
    parallelism: int
    operator: str = ""
    operator_strategy: str = ""
    description: str
    optimizer_properties: Empty = Empty()
    #: Unset in the plan of a program whose job does not run, for vertices without inputs.
    inputs: list[PlanInput] | UnsetType = UNSET

    @classmethod
    def of(cls, vertex: VertexView, inputs: Sequence[EdgeView]) -> PlanNode:
        """Return the node of a vertex."""
        return cls(
            id=vertex.id,
            parallelism=vertex.parallelism,
            description=_chain(vertex),
            inputs=[
                PlanInput(number, edge.source, edge.strategy) for number, edge in enumerate(inputs)
            ],
        )


def _chain(vertex: VertexView) -> str:
    """Return the operators of a chain, with the line breaks of Flink's web page."""
    first, *others = [operator.name for operator in vertex.operators] or [vertex.name]
    return f"{first}<br/>" + "".join(f"+- {name}<br/>" for name in others)


class Plan(Struct, frozen=True):
    """The plan of a job."""

    jid: Id
    name: str
    type: str
    nodes: list[PlanNode]

    @classmethod
    def of(cls, job: JobView) -> Plan:
        """Return the plan of a job."""
        edges = job.edges()
        nodes = [
            PlanNode.of(vertex, [edge for edge in edges if edge.target == vertex.id])
            for vertex in job.vertices()
        ]
        return cls(job.id, job.name, job.settings().type, nodes)


class JobPlan(Struct, frozen=True):
    """`/jobs/<id>/plan`."""

    plan: Plan


class VertexOverview(Struct, frozen=True, kw_only=True):
    """A vertex in the details of its job."""

    #: The operator id of the head of its chain.
    id: str
    name: str
    slot_sharing_group: str = field(name="slotSharingGroupId")
    #: At least `parallelism`.
    max_parallelism: int = field(name="maxParallelism")
    parallelism: int
    #: Aggregated over its subtasks.
    status: str
    #: -1 before the first subtask was deployed.
    start_time: int = field(name="start-time")
    end_time: int = field(name="end-time")
    duration: int
    #: Subtasks by state, with all of Flink's states.
    tasks: dict[str, int]
    metrics: IoMetrics
    #: The chain, its head first.
    operators: tuple[OperatorView, ...]

    @classmethod
    def of(cls, vertex: VertexView, now: int) -> VertexOverview:
        """Return a vertex."""
        span = Span.of(vertex.start_ms, vertex.end_ms, now)
        return cls(
            id=vertex.id,
            name=vertex.name,
            slot_sharing_group=vertex.slot_sharing_group,
            max_parallelism=vertex.max_parallelism,
            parallelism=vertex.parallelism,
            status=vertex.state.name,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            tasks=count_states(each.current.state.name for each in vertex.subtasks),
            metrics=IoMetrics.of(vertex.all_reports()),
            operators=vertex.operators,
        )


class DroppedRecordsOfOperator(Struct, frozen=True):
    """The records that an operator has dropped for one reason."""

    vertex: str
    operator: str
    name: str
    metric: str
    dropped: int
    records: int
    watermark: int | None
    lateness_ms: int | None
    unit: str
    reason: str

    @classmethod
    def of(cls, found: DroppedRecords) -> DroppedRecordsOfOperator:
        """Return dropped records, with the reason."""
        return cls(**asdict(found), reason=REASONS[found.metric])


class JobExtensions(Struct, frozen=True, kw_only=True):
    """The field `penstock` in the details of a job."""

    #: The last completed one; 0 before the first.
    checkpoint_id: int
    restarts: int
    #: The directory of its checkpoints.
    checkpoints: str | None
    savepoint: str | None
    failure: str | None
    latency: dict[str, float] | UnsetType = UNSET
    dropped: list[DroppedRecordsOfOperator]

    @classmethod
    def of(cls, job: JobView) -> JobExtensions:
        """Return what Flink does not have."""
        latency = job.latency()
        return cls(
            checkpoint_id=job.checkpoint_id,
            restarts=job.restarts,
            checkpoints=job.checkpoint_directory,
            savepoint=job.savepoint,
            failure=job.failure,
            latency=dict(latency) if latency else UNSET,
            dropped=[DroppedRecordsOfOperator.of(each) for each in job.dropped()],
        )


class JobDetails(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>`; extensions are in the field `penstock`."""

    jid: Id
    name: str
    #: A program is one job, so it has the job's id.
    application_id: Id = field(name="application-id")
    #: Until the job has ended.
    is_stoppable: bool = field(name="isStoppable")
    state: str
    job_type: str = field(name="job-type")
    scheduler_type: str = field(name="schedulerType", default="Default")
    pending_operators: int = field(name="pending-operators", default=0)
    start_time: int = field(name="start-time")
    #: -1 until the job has ended.
    end_time: int = field(name="end-time")
    duration: int
    #: The largest of its vertices; -1 without vertices.
    max_parallelism: int = field(name="maxParallelism")
    now: int
    #: When the job entered each state; 0 for states that it was not in.
    timestamps: dict[str, int]
    vertices: list[VertexOverview]
    #: Vertices by state.
    status_counts: dict[str, int] = field(name="status-counts")
    plan: Plan
    penstock: JobExtensions

    @classmethod
    def of(cls, job: JobView, now: int) -> JobDetails:
        """Return the details of a job."""
        vertices, times = job.vertices(), job.status_times
        span = Span.of(job.start_ms, job.end_ms, now)
        return cls(
            jid=job.id,
            name=job.name,
            application_id=job.id,
            is_stoppable=not job.ended,
            state=job.status.name,
            job_type=job.settings().type,
            start_time=span.start,
            end_time=span.end,
            duration=span.duration,
            max_parallelism=max((vertex.max_parallelism for vertex in vertices), default=-1),
            now=now,
            timestamps={name: times.get(name, 0) for name in _JOB_STATES},
            vertices=[VertexOverview.of(vertex, now) for vertex in vertices],
            status_counts=count_states(vertex.state.name for vertex in vertices),
            plan=Plan.of(job),
            penstock=JobExtensions.of(job),
        )


class JobExecutionConfig(Struct, frozen=True, kw_only=True):
    """The settings of a job that Flink calls its execution config."""

    restart_strategy: str = field(name="restart-strategy")
    job_parallelism: int = field(name="job-parallelism")
    #: Chained operators pass records without copying them.
    object_reuse_mode: bool = field(name="object-reuse-mode", default=True)
    user_config: dict[str, str] = field(name="user-config")


class Mode(Struct, frozen=True):
    """The field `penstock` in the settings of a job."""

    mode: str


class JobConfig(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/config`."""

    jid: Id
    name: str
    execution_config: JobExecutionConfig = field(name="execution-config")
    penstock: Mode

    @classmethod
    def of(cls, job: JobView) -> JobConfig:
        """Return the settings of a job."""
        settings = job.settings()
        return cls(
            jid=job.id,
            name=job.name,
            execution_config=JobExecutionConfig(
                restart_strategy=settings.restart_strategy,
                job_parallelism=settings.parallelism,
                user_config=dict(settings.user_config),
            ),
            penstock=Mode(settings.mode),
        )


class SubtaskFailure(Struct, frozen=True, kw_only=True):
    """A failure of a subtask, in the form for old clients."""

    exception: str
    task: str
    location: str = NOWHERE
    timestamp: int
    task_manager_id: str = field(name="taskManagerId", default=NOWHERE)


class FailedSubtask(Struct, frozen=True):
    """The field `penstock` of a failure."""

    vertex: str | None
    subtask: int | None
    attempt: int | None
    #: The number of subtasks that were restarted; null: all.
    restarted: int | None


class ExceptionEntry(Struct, frozen=True, kw_only=True):
    """A failure of a job."""

    exception_name: str = field(name="exceptionName")
    stacktrace: str
    timestamp: int
    failure_labels: Empty = field(name="failureLabels", default=Empty())
    task_name: str | None = field(name="taskName")
    endpoint: str | None
    task_manager_id: str | None = field(name="taskManagerId")
    concurrent_exceptions: tuple[()] = field(name="concurrentExceptions", default=())
    penstock: FailedSubtask

    @classmethod
    def of(cls, entry: FailureEntry) -> ExceptionEntry:
        """Return a failure."""
        place = None if entry.task is None else NOWHERE
        return cls(
            exception_name=entry.name,
            stacktrace=entry.stacktrace,
            timestamp=entry.timestamp,
            task_name=entry.task,
            endpoint=place,
            task_manager_id=place,
            penstock=FailedSubtask(entry.vertex, entry.subtask, entry.attempt, entry.tasks),
        )


class ExceptionHistory(Struct, frozen=True):
    """The last failures of a job, the newest first."""

    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/exceptions`; only the history has everything, the other fields are for old clients."""

    root_exception: str | None = field(name="root-exception")
    timestamp: int | None
    all_exceptions: list[SubtaskFailure] = field(name="all-exceptions")
    truncated: bool
    exception_history: ExceptionHistory = field(name="exceptionHistory")

    @classmethod
    def of(cls, job: JobView, most: int) -> JobExceptions:
        """Return the last failures of a job, at most `most`."""
        history = job.failures
        entries = history.entries[::-1][:most]
        truncated = history.count > len(history.entries) or len(history.entries) > most
        root = entries[0] if entries else None
        return cls(
            root_exception=None if root is None else root.stacktrace,
            timestamp=None if root is None else root.timestamp,
            all_exceptions=[
                SubtaskFailure(exception=each.stacktrace, task=each.task, timestamp=each.timestamp)
                for each in entries
                if each.task is not None
            ],
            truncated=truncated,
            exception_history=ExceptionHistory(
                [ExceptionEntry.of(each) for each in entries], truncated
            ),
        )


class UserAccumulator(Struct, frozen=True):
    """An accumulator."""

    name: str
    type: str
    value: str

    @classmethod
    def of(cls, accumulator: AccumulatorView) -> UserAccumulator:
        """Return an accumulator, under the names of its operator and its own."""
        name = f"{accumulator.operator}.{accumulator.name}"
        return cls(name, accumulator.type, accumulator.value)


class JobAccumulators(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/accumulators`."""

    job_accumulators: tuple[()] = field(name="job-accumulators", default=())
    user_task_accumulators: list[UserAccumulator] = field(name="user-task-accumulators")
    serialized_user_task_accumulators: Empty = field(
        name="serialized-user-task-accumulators", default=Empty()
    )

    @classmethod
    def of(cls, job: JobView) -> JobAccumulators:
        """Return the accumulators of a job."""
        return cls(user_task_accumulators=[UserAccumulator.of(each) for each in job.accumulators()])


class ExecutionStatus(Struct, frozen=True):
    """Whether a job has ended: `IN_PROGRESS` or `COMPLETED`."""

    id: str


class FailureCause(Struct, frozen=True, kw_only=True):
    """Why a job failed."""

    class_name: str = field(name="class", default="penstock.errors.JobExecutionError")
    stack_trace: str = field(name="stack-trace")


class ExecutionOutcome(Struct, frozen=True, kw_only=True):
    """The result of a job that has ended."""

    id: Id
    application_status: str = field(name="application-status")
    net_runtime: int = field(name="net-runtime")
    accumulator_results: Empty = field(name="accumulator-results", default=Empty())
    failure_cause: FailureCause | UnsetType = field(name="failure-cause", default=UNSET)


class ExecutionResult(Struct, frozen=True, kw_only=True):
    """`/jobs/<id>/execution-result`."""

    status: ExecutionStatus
    result: ExecutionOutcome | UnsetType = field(name="job-execution-result", default=UNSET)

    @classmethod
    def of(cls, job: JobView) -> ExecutionResult:
        """Return the result of a job."""
        if job.end_ms is None:
            return cls(status=ExecutionStatus("IN_PROGRESS"))
        status = job.status.name
        failure = FailureCause(stack_trace=job.failure or "the job was cancelled")
        outcome = ExecutionOutcome(
            id=job.id,
            application_status="SUCCEEDED" if status == "FINISHED" else status,
            net_runtime=job.end_ms - job.start_ms,
            failure_cause=UNSET if status == "FINISHED" else failure,
        )
        return cls(status=ExecutionStatus("COMPLETED"), result=outcome)


class SubmittedJobResult(Struct, frozen=True, kw_only=True):
    """`/penstock/jobs/<id>/result`."""

    id: Id
    name: str
    status: str
    #: The lines that tell the progress of the job, from the wanted one on.
    lines: list[str]
    #: The number of the first of these lines; larger than the wanted one if older lines are not kept.
    first_line: int
    #: When the job was started; another one if another JobManager has resumed it and numbers lines from 0 again.
    start_ms: int
    runtime_ms: int | UnsetType = UNSET
    error: str | UnsetType | None = UNSET
    accumulators: dict[str, Value | bool | None] | UnsetType = UNSET

    @classmethod
    def of(cls, job: JobView, line: int, start_ms: int) -> SubmittedJobResult:
        """Return the state of a job, and its result when it has ended.

        `line` is the number of the first wanted line, of the run that started at `start_ms`; of another run, all lines are new.
        """
        progress = job.progress().since(line if start_ms == job.start_ms else 0)
        ended: dict[str, Any] = {}
        if job.end_ms is not None:
            ended = {
                "runtime_ms": job.end_ms - job.start_ms,
                "error": job.error(),
                "accumulators": dict(job.totals()),
            }
        return cls(
            id=job.id,
            name=job.name,
            status=job.status.name,
            lines=list(progress.lines),
            first_line=progress.first,
            start_ms=job.start_ms,
            **ended,
        )

"""Control messages between subtasks, and ACKs and failures to the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.graph.task_id import TaskId

DATA: Final = 0
WATERMARK: Final = 1
STATUS: Final = 2
BARRIER: Final = 3
ACK: Final = 4
FAILURE: Final = 5
END: Final = 6  # end of a channel: only barriers follow
LATENCY: Final = 7


@dataclass(frozen=True, slots=True)
class BarrierMessage:
    """A checkpoint barrier; `finished` says that the channel ends with it."""

    checkpoint: int
    attempt: str
    finished: bool
    # In pipelined mode:
    triggered_ms: int = field(default=0, repr=False)  # on the driver's wall clock
    aligned: bool = field(
        default=False, repr=False
    )  # it must stay aligned, whatever the job's settings are


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Sent with the records from a source subtask to the sinks, to measure the latency."""

    source: TaskId
    emitted_ms: float  # on the wall clock of the source's machine


@dataclass(frozen=True, slots=True)
class BarrierFigures:
    """Metrics of a barrier at a subtask, in milliseconds and bytes, defined as in Flink."""

    start_delay_ms: float = 0.0  # from the trigger to the first barrier
    alignment_ms: float = 0.0  # from the first barrier to the last
    sync_ms: float = 0.0
    async_ms: float = 0.0
    processed_in_flight: int = 0  # bytes, between the first barrier and the last
    persisted_in_flight: int = 0  # bytes
    unaligned: bool = False


@dataclass(frozen=True, slots=True)
class TaskAck:
    """A subtask's acknowledgement of a checkpoint: its whole part of the checkpoint."""

    task: TaskId
    #: A token that no other attempt of the subtask has.
    attempt: str
    #: By sender: the attempt that it has received data from.
    upstream: dict[TaskId, str]
    #: Operator id -> chain of state handles; unchanged operators are left out.
    keyed: dict[str, Any]
    #: The rest of the subtask's state, pickled.
    local: bytes
    #: Of sinks, by operator id.
    committables: dict[str, list[Any]] = field(default_factory=dict)
    #: Positions of all splits of the subtask; None if it has no source.
    progress: list[Any] | None = None
    #: The combined watermark of its input; of a source, the last one emitted.
    watermark: int = -(2**63)
    #: When the subtask has something to do without input, in epoch milliseconds; None: never.
    next_wakeup: int | None = None
    #: Whether the subtask will emit nothing more.
    finished: bool = False
    #: Operator id -> name -> value.
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Figures of an epoch (`runtime.task.shared.task_metrics`); empty in pipelined mode.
    report: dict[str, Any] = field(default_factory=dict)
    #: SlotTrace, in the last ACK of a slot, if the job keeps a journal.
    trace: Any = None
    # Committables of earlier checkpoints that this subtask does not know to be complete: by checkpoint, then by operator id.
    carried: dict[int, dict[str, list[Any]]] = field(default_factory=dict)
    # Of sinks that commit by event time: operator id -> watermark, and whether the input is idle.
    sink_times: dict[str, tuple[int, bool]] = field(default_factory=dict)
    #: How the barrier passed: alignment, bytes, seconds.
    figures: BarrierFigures = BarrierFigures()
    #: StateHandle of the in-flight records, if the checkpoint is unaligned.
    in_flight: Any = None


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A subtask failed in user code. `error` is the pickled exception, where it pickles."""

    task: TaskId | None  # None if it failed before any subtask existed
    message: str
    detail: str | None
    traceback: str
    error: bytes | None
    operator: str | None = None  # operator id, if known
    trace: Any = None  # SlotTrace up to the failure, if the job keeps a journal
    all_frames: str = ""  # the traceback including Penstock's own frames
    permanent: bool = False  # whether no restart can help


class TaskFailedError(PenstockError, RuntimeError):
    """User code or a record failed inside a task; the whole epoch is discarded."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message, detail=failure.detail)
        self.failure = failure

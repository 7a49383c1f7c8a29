"""A job as the JobMaster gets it: plans, settings, and the parts that run on the driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.checkpoint.signing import Signer
from penstock.connectors.base.source import Boundedness
from penstock.dependencies.python_dependencies import PythonDependencies
from penstock.graph.deployment import JobSettings, VertexDeployment
from penstock.graph.job_graph import JobGraph
from penstock.graph.settings import GraphSettings
from penstock.graph.stage import BarrierSettings, NetworkSettings
from penstock.graph.stage_plan import StagePlan
from penstock.graph.transformations import Transformation
from penstock.options.autoscaler_settings import AutoscalerSettings


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The checkpoint settings of a job.

    `interval_ms` is None if checkpointing is disabled: then checkpoints are only for recovery inside this process, and `directory` is
    temporary. `restore_path` is a savepoint or another job's checkpoint to start from; `claimed` ones are deleted once unneeded.
    `restart_changed_operators`: an operator whose state belongs to another query starts without it.
    """

    directory: str
    temporary: bool
    interval_ms: int | None = None
    #: Completed checkpoints that are kept, at least one
    retained: int = 1
    #: Checkpoints in the history of statistics
    history: int = 10
    #: Bytes up to which a state lies in the manifest instead of a file of its own
    inline_threshold: int = 20_480
    restore_path: str | None = None
    #: Whether a cancelled job keeps its checkpoints
    retain_on_cancel: bool = True
    claimed: bool = False
    #: Whether state of operators that the program does not have any more may be left out
    ignore_unclaimed_state: bool = False
    #: Whether an older checkpoint is restored if the last one cannot be read
    allow_fallback: bool = False
    restart_changed_operators: bool = False
    #: None: manifests and state are not signed
    signer: Signer | None = None
    #: For savepoints whose request names no directory
    savepoint_directory: str | None = None
    #: Between the end of a checkpoint and the trigger of the next one
    min_pause_ms: int = 0
    #: Pending checkpoints at a time, in pipelined mode
    max_concurrent: int = 1
    #: None: no timeout, because checkpointing is disabled
    timeout_ms: int | None = None
    #: Failed checkpoints in a row that the job survives
    tolerable_failures: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """The user's program, from which plans are compiled."""

    transformations: tuple[Transformation, ...]
    settings: GraphSettings


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a JobMaster needs to know."""

    job_id: str
    name: str
    #: What the plans are compiled from, and compiled again for another parallelism
    program: Program
    #: `plan`, `job_graph` and `deployments` are of the same program with the same parallelism
    plan: StagePlan
    job_graph: JobGraph
    #: One for each vertex of the plan, in its order
    deployments: tuple[VertexDeployment, ...]
    settings: JobSettings
    checkpoints: CheckpointSettings
    restart_strategy: Any  # one of penstock.common.restart_strategy
    #: The length of an epoch if checkpointing is disabled
    epoch_interval_ms: int = 1000
    spark_options: dict[str, str] = field(default_factory=dict)
    dependencies: PythonDependencies = field(default_factory=PythonDependencies)
    #: Of installed dependencies; None: the user's cache
    environments_directory: str | None = None
    autoscaler: AutoscalerSettings = field(default_factory=AutoscalerSettings)
    #: One of penstock.jobmanager.modes
    mode: str = "auto"
    #: What set `mode`, if it is not auto
    mode_origin: str = "set by penstock.execution.mode"
    network: NetworkSettings = field(default_factory=NetworkSettings)
    barriers: BarrierSettings = field(default_factory=BarrierSettings)
    #: The fencing token of the leader that runs it; None without high availability
    leader: int | None = None
    #: Slot request timeout; None: the default
    slot_timeout_s: float | None = None

    def sources(self) -> list[tuple[str, str, Any, int]]:
        """Return (vertex id, operator id, source, parallelism) of each source."""
        found = []
        for vertex in self.plan.vertices:
            head = vertex.operators[0]
            source = head.spec.reads_from
            if source is not None:
                found.append((vertex.id, head.operator_id, source, vertex.parallelism))
        return found

    def sinks(self) -> dict[str, Any]:
        """Return the sinks by operator id."""
        return {
            operator.operator_id: operator.spec.writes_to
            for vertex in self.plan.vertices
            for operator in vertex.operators
            if operator.spec.writes_to is not None
        }

    @property
    def interval_s(self) -> float:
        """The checkpoint interval. In epoch mode sources read for this long per epoch."""
        checkpoints = self.checkpoints
        if checkpoints.interval_ms is None:
            return self.epoch_interval_ms / 1000
        return max(checkpoints.interval_ms, checkpoints.min_pause_ms) / 1000

    @property
    def bounded(self) -> bool:
        """Whether all sources are bounded."""
        return all(
            source.get_boundedness() is Boundedness.BOUNDED for _, _, source, _ in self.sources()
        )

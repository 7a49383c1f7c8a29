"""Creates the contexts of the operators of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.deployment import VertexDeployment
from penstock.runtime.metrics import OperatorMetricGroup
from penstock.runtime.operators.base import (
    CheckpointInterval,
    KeyedContext,
    OperatorContext,
    Output,
    StreamOperator,
)
from penstock.runtime.operators.hooks import HandlesWakeups
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.operator_state import OperatorStateBackend, StateClasses
from penstock.runtime.task.shared.environment import PipelinedEnvironment, TaskEnvironment
from penstock.runtime.time.decisions import RuntimeDecisions
from penstock.runtime.time.timers import TimerManager


def create_context(
    task: TaskEnvironment,
    deployment: VertexDeployment,
    index: int,
    position: int,
    *,
    operator: StreamOperator,
    output: Output,
    keyed_state: KeyedStateBackend | None,
    state: dict[str, Any] | None,
    classes: StateClasses | None,
    timers_watermark: int,
    decisions: RuntimeDecisions,
    metrics: OperatorMetricGroup,
) -> OperatorContext:
    """Return the context of the operator at a position of a subtask's chain.

    `state` is its restored operator state, and `classes` are those of objects in it.
    """
    info, settings = deployment.operators[position], task.settings
    operator_state = OperatorStateBackend(state, operator=info.name, classes=classes)
    keyed = None
    if keyed_state is not None:
        timers = TimerManager(keyed_state)
        timers.watermark = operator_state.get("timer watermark", timers_watermark)
        keyed = KeyedContext(keyed_state, timers)
    runtime_context = StreamingRuntimeContext(
        task_name=info.name,
        subtask=index,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        attempt_number=task.attempt_number,
        keyed_state=keyed_state,
        operator_state=operator_state,
        job_parameters=settings.job_parameters,
        metrics=metrics,
    )
    slot = None
    if task.pipelined is not None:
        slot = OperatorSlotServices(task.pipelined, operator, info.operator_id)
    return OperatorContext(
        operator_id=info.operator_id,
        operator_name=info.name,
        subtask=index,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        job_id=settings.job_id,
        interval=interval_of(task),
        checkpointed=settings.checkpointed,
        output=output,
        runtime_context=runtime_context,
        operator_state=operator_state,
        keyed=keyed,
        clock=decisions.clock,
        decisions=decisions,
        auto_watermark_interval=settings.auto_watermark_interval,
        batch_mode=settings.batch_mode,
        untimed_inputs=info.untimed_inputs,
        slot=slot,
    )


def interval_of(task: TaskEnvironment) -> CheckpointInterval:
    """Return the interval that a subtask has this environment for."""
    return CheckpointInterval(task.checkpoint_id, task.attempt, task.staging)


@dataclass(frozen=True, slots=True)
class OperatorSlotServices:
    """The services of a slot for one operator of a subtask."""

    services: PipelinedEnvironment
    operator: StreamOperator
    operator_id: str

    def wake(self) -> None:
        """Call `on_wakeup` of the operator soon. Thread-safe."""
        assert isinstance(self.operator, HandlesWakeups)
        self.services.wake(self.operator)

    def watch(self, file: int | None) -> bool:
        """Call `on_wakeup` whenever this file is readable; None stops it."""
        assert isinstance(self.operator, HandlesWakeups)
        self.services.watch(self.operator, file)
        return True

    def tell(self, data: bytes) -> None:
        """Send the output of a sink to the driver."""
        self.services.tell(self.operator_id, data)

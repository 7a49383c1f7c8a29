"""Creates the contexts of the operators of a chain."""

from __future__ import annotations

import functools
from typing import Any

from penstock.graph.deployment import VertexDeployment
from penstock.runtime.metrics import OperatorMetricGroup
from penstock.runtime.operators.base import OperatorContext, Output, StreamOperator
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from penstock.runtime.state.operator_state import OperatorStateBackend, StateClasses
from penstock.runtime.task.shared.environment import TaskEnvironment
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
    keyed_state: Any,
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
    timers = None
    if keyed_state is not None:
        timers = TimerManager(keyed_state)
        timers.watermark = operator_state.get("timer watermark", timers_watermark)
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
    context = OperatorContext(
        job_name=settings.job_name,
        operator_id=info.operator_id,
        operator_name=info.name,
        task_name=deployment.name,
        subtask=index,
        parallelism=deployment.parallelism,
        max_parallelism=deployment.max_parallelism,
        attempt_number=task.attempt_number,
        checkpoint_id=task.checkpoint_id,
        output=output,
        runtime_context=runtime_context,
        keyed_state=keyed_state,
        operator_state=operator_state,
        timers=timers,
        clock=decisions.clock,
        decisions=decisions,
        auto_watermark_interval=settings.auto_watermark_interval,
        batch_mode=settings.batch_mode,
        job_parameters=settings.job_parameters,
        extras=job_extras(task),
        untimed_inputs=info.untimed_inputs,
    )
    if task.pipelined is not None:
        context.pipelined = True
        context.wake = functools.partial(task.pipelined.wake, operator)
        context.watch = functools.partial(task.pipelined.watch, operator)
        context.tell = functools.partial(task.pipelined.tell, info.operator_id)
    return context


def job_extras(task: TaskEnvironment) -> dict[str, Any]:
    """Return information about the job and its attempt for some operators."""
    return {
        "job_id": task.settings.job_id,
        "attempt": task.attempt,
        "staging": task.staging,
        "checkpointed": task.settings.checkpointed,
    }

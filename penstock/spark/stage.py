"""Stages of pipelined mode: each is a barrier stage of Spark, one task per slot, with a thread that waits for its end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.graph.stage import StageDeployment
from penstock.spark.dependencies import WorkerEnvironment
from penstock.spark.stage_body import RunSlot, barrier_body

if TYPE_CHECKING:
    from pyspark import SparkContext

OnEnd = Callable[[BaseException | None], None]


class SparkStage:
    """A stage that was started.

    `on_end` is called once, by the stage's own thread, with what it failed with, if it did.
    """

    def __init__(
        self, name: str, run: Callable[[], None], end: Callable[[], None], on_end: OnEnd
    ) -> None:
        self._run_stage = run
        self._end = end
        self._on_end = on_end
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def cancel(self) -> None:
        """End it, whatever it does. Returns at once: `join` waits for its end."""
        self._end()

    def join(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._run_stage()
        except BaseException as error:  # noqa: BLE001 - passed to `on_end`
            failure = error
        self._on_end(failure)


def run_barrier_stage(
    context: SparkContext,
    deployment: StageDeployment,
    run: RunSlot | None = None,
    environment: WorkerEnvironment | None = None,
) -> None:
    """Run a stage until its slots have ended; raises Spark's error if one fails. `run` is for tests: see `barrier_body`."""
    with contextlib.nullcontext() if environment is None else environment.applied(context):
        slots = context.parallelize(range(deployment.slots), deployment.slots)
        stage = slots.barrier().mapPartitions(barrier_body(deployment, run))
        stage._jrdd  # noqa: B018, SLF001 - else PySpark makes it when it is collected
    stage.collect()

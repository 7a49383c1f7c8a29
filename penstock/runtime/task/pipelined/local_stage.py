"""Runs pipelined stages without Spark: slots are threads of this process, with the network of a cluster."""

from __future__ import annotations

import pickle
import threading

from penstock.graph.stage import StageDeployment
from penstock.runtime.task.pipelined.pipelined_slot import StopSignal, run_stage_slot

_HOST = "127.0.0.1"


def run_stage_locally(deployment: StageDeployment, stop: StopSignal | None = None) -> None:
    """Run a stage until all its slots have ended; raises the error of a slot that could not report it to the driver.

    Once `stop` is set, all slots end as soon as user code returns. The deployment is pickled for each slot, as in Spark, so
    that they share nothing by accident.
    """
    stop = stop or StopSignal()
    shipped = pickle.dumps(deployment, 5)
    errors: list[BaseException] = []

    def run(slot: int) -> None:
        try:
            run_stage_slot(pickle.loads(shipped), slot, _HOST, stop)
        except BaseException as error:  # noqa: BLE001 - reported to the waiting thread
            errors.append(error)

    threads = [
        threading.Thread(
            target=run, args=(slot,), name=f"stage {deployment.stage}, slot {slot}", daemon=True
        )
        for slot in range(deployment.slots)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

"""Stages that stay, without Spark: their slots are threads of this process, with the network that they have on a cluster."""

from __future__ import annotations

import pickle
import threading

from penstock.graph.stage import StageDeployment
from penstock.runtime.task.slot_loop import StopSignal, run_stage_slot

_HOST = "127.0.0.1"


def run_stage_locally(deployment: StageDeployment, stop: StopSignal | None = None) -> None:
    """Run a stage until all its slots have ended; raises what a slot raised that could not tell the driver.

    Once `stop` is set, all slots leave as soon as user code returns. What the slots are told is pickled for each, as Spark does it, so
    that they share nothing by accident.
    """
    stop = stop or StopSignal()
    shipped = pickle.dumps(deployment, 5)
    errors: list[BaseException] = []

    def run(slot: int) -> None:
        try:
            run_stage_slot(pickle.loads(shipped), slot, _HOST, stop)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
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

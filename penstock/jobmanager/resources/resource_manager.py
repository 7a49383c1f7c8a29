"""The ResourceManager: allocates slots of the cluster to jobs, queues requests, and rejects those that cannot be fulfilled."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from penstock.errors import JobCancelledError
from penstock.graph.stage import SlotDemand
from penstock.jobmanager.modes import InsufficientSlotsError
from penstock.jobmanager.resources.slot_pool import SlotPool, SlotRequest, SlotUse

_POLL_S = 0.1
_DEFAULT_TIMEOUT_S = 300.0  # the default of Flink's slot.request.timeout


class ResourceManager:
    """The slots of the cluster that this process uses. Methods may be called from any thread.

    The number of slots is read again while jobs wait, because executors come and go.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        changed: threading.Condition | None = None,
    ) -> None:
        self._clock = clock
        self._changed = changed or threading.Condition()
        self._pool = SlotPool()

    def acquire(
        self,
        demand: SlotDemand,
        capacity: Callable[[], int],
        interrupted: Callable[[], bool],
        *,
        arriving_s: float = 0.0,
    ) -> int:
        """Allocate slots to a job and return their number; 0 if it shares slots in epoch mode.

        A job that needs more slots than the cluster has is rejected once no more are expected (`arriving_s`), one that has to wait for
        other jobs after its timeout; `slot.request.timeout` applies to both if it is set. While a cluster has no executors at all, jobs
        wait in any case.
        """
        started = self._clock()
        total = capacity()
        request = SlotRequest(demand.job_id, demand.name, demand.slots, demand.preferred)
        with self._changed:
            self._pool.ask(request)
            try:
                while True:
                    self._pool.total = total
                    granted = self._pool.try_grant(demand.job_id)
                    if granted is not None:
                        return granted
                    if interrupted():
                        raise JobCancelledError(f"job '{demand.name}' was cancelled before it ran")
                    waited = self._clock() - started
                    if waited >= self._patience(demand, arriving_s):
                        raise self._refusal(demand, waited)
                    self._changed.wait(_POLL_S)
                    self._changed.release()
                    try:
                        total = capacity()  # may block, so it is called without the lock
                    finally:
                        self._changed.acquire()
            finally:
                self._pool.withdraw(demand.job_id)
                self._changed.notify_all()

    def share_at_once(self, demand: SlotDemand) -> bool:
        """Grant a job in epoch mode its share at once if no slots are allocated or requested; return whether it was granted."""
        with self._changed:
            use = self._pool.use()
            if demand.slots or use.held or use.waiting:
                return False
            self._pool.share(demand.job_id, demand.name)
            return True

    @property
    def in_use(self) -> bool:
        """Whether any job holds slots."""
        return bool(self.use().held)

    def release(self, job_id: str) -> None:
        """Release the slots of a job."""
        with self._changed:
            self._pool.release(job_id)
            self._changed.notify_all()

    def is_full(self, capacity: int) -> bool:
        """Whether all slots are allocated, so that nothing else could run."""
        held = sum(self.use().held.values())
        return held > 0 and held >= capacity

    def observe(self, total: int) -> None:
        """Record the current number of slots."""
        with self._changed:
            self._pool.total = total
            self._changed.notify_all()

    def use(self) -> SlotUse:
        """Return the slot use."""
        with self._changed:
            return self._pool.use()

    def _patience(self, demand: SlotDemand, arriving_s: float) -> float:
        """Return the timeout of a request; it is infinite while the cluster has no executors."""
        if arriving_s and not self._pool.total:
            return math.inf if demand.timeout_s is None else demand.timeout_s
        if not demand.waits:
            return 0.0 if self._pool.could_fit(demand.job_id) else arriving_s
        if self._pool.could_fit(demand.job_id):
            return _DEFAULT_TIMEOUT_S if demand.timeout_s is None else demand.timeout_s
        return max(arriving_s, demand.timeout_s or 0.0)

    def _refusal(self, demand: SlotDemand, waited_s: float) -> InsufficientSlotsError:
        use, needs = self._pool.use(), max(demand.slots, 1)
        waited = f" after {waited_s:.0f} s" if waited_s >= 1 else ""
        if not self._pool.could_fit(demand.job_id):
            return InsufficientSlotsError(
                f"the job needs {_count(needs)} to run{_how(demand)}, but Spark has {use.total}{waited}",
                detail="a slot is a core of Spark that one subtask of each operator occupies while the job runs; "
                "slot sharing groups add up, and streams that Spark reads, or sinks that run Spark jobs, need another one",
                hint=f"lower the parallelism, give Spark {needs} cores (spark.master, spark.cores.max), "
                "set penstock.execution.mode to epochs, or slot.request.timeout to wait for more",
            )
        return InsufficientSlotsError(
            f"the job needs {_count(needs)} to run{_how(demand)}, but only {use.free} of Spark's {use.total} are free{waited}",
            detail=f"slots are allocated to {self._pool.holders(demand.job_id)}",
            hint="cancel one of these jobs, give Spark more cores (spark.master, spark.cores.max), or set "
            "slot.request.timeout to wait for longer",
        )


def _how(demand: SlotDemand) -> str:
    return " in pipelined mode" if demand.slots else " in epoch mode"


def _count(slots: int) -> str:
    return f"{slots} slot" if slots == 1 else f"{slots} slots"


_of_this_process = ResourceManager()


def resource_manager() -> ResourceManager:
    """Return the ResourceManager of this process: its jobs share one Spark application."""
    return _of_this_process

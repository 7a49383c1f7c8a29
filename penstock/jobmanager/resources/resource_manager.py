"""The ResourceManager: gives jobs slots of the cluster, lets them wait for their turn, and refuses what cannot be."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from penstock.errors import JobCancelledError
from penstock.graph.stage import SlotDemand
from penstock.jobmanager.resources.slot_pool import SlotPool, SlotRequest, SlotUse
from penstock.jobmanager.running.modes import NoRoomError

_POLL_S = 0.1
_DEFAULT_TIMEOUT_S = 300.0  # as Flink's slot.request.timeout


class ResourceManager:
    """The slots of the cluster that this process uses. Methods may be called from any thread.

    How many slots there are is asked whenever somebody waits: executors come and go.
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
        """Give a job its slots and return how many it holds; 0 if it shares those of jobs in epochs.

        A job that needs more than there are in all is refused as soon as no more are on their way (`arriving_s`), one that others
        leave no room for when it has waited for so long as it may: `slot.request.timeout` is for both, where it is set. While a cluster has no
        executors at all, nothing could run in any way, and jobs wait.
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
                        total = capacity()  # it may take a while, in which others go on
                    finally:
                        self._changed.acquire()
            finally:
                self._pool.withdraw(demand.job_id)
                self._changed.notify_all()

    def share_at_once(self, demand: SlotDemand) -> bool:
        """Let a job share, if that is all that it wants and nobody holds slots or waits for them; return whether it was so."""
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
        """Take back the slots of a job."""
        with self._changed:
            self._pool.release(job_id)
            self._changed.notify_all()

    def is_full(self, capacity: int) -> bool:
        """Whether jobs hold all slots, so that nothing else would ever run."""
        held = sum(self.use().held.values())
        return held > 0 and held >= capacity

    def observe(self, total: int) -> None:
        """Take note of how many slots there are now."""
        with self._changed:
            self._pool.total = total
            self._changed.notify_all()

    def use(self) -> SlotUse:
        """Return how the slots are used."""
        with self._changed:
            return self._pool.use()

    def _patience(self, demand: SlotDemand, arriving_s: float) -> float:
        """Return how long a job waits from its request on: on a cluster that has no executors at all, until there are some."""
        if arriving_s and not self._pool.total:
            return math.inf if demand.timeout_s is None else demand.timeout_s
        if not demand.waits:
            return 0.0 if self._pool.could_fit(demand.job_id) else arriving_s
        if self._pool.could_fit(demand.job_id):
            return _DEFAULT_TIMEOUT_S if demand.timeout_s is None else demand.timeout_s
        return max(arriving_s, demand.timeout_s or 0.0)

    def _refusal(self, demand: SlotDemand, waited_s: float) -> NoRoomError:
        use, needs = self._pool.use(), max(demand.slots, 1)
        waited = f" after {waited_s:.0f} s" if waited_s >= 1 else ""
        if not self._pool.could_fit(demand.job_id):
            return NoRoomError(
                f"the job needs {_count(needs)} to run{_how(demand)}, and Spark has {use.total}{waited}",
                detail="a slot is a core of Spark that one subtask of each operator holds for as long as the job runs; "
                "slot sharing groups add up",
                hint=f"lower the parallelism, give Spark {needs} cores (spark.master, spark.cores.max), "
                "set penstock.execution.mode to epochs, or slot.request.timeout to wait for more",
            )
        return NoRoomError(
            f"the job needs {_count(needs)} to run{_how(demand)}, and of Spark's {use.total} others leave {use.free}{waited}",
            detail=f"they are held by {self._pool.holders(demand.job_id)}",
            hint="cancel one of them, give Spark more cores (spark.master, spark.cores.max), or set "
            "slot.request.timeout to wait for longer",
        )


def _how(demand: SlotDemand) -> str:
    return " pipelined" if demand.slots else " in epochs"


def _count(slots: int) -> str:
    return f"{slots} slot" if slots == 1 else f"{slots} slots"


_of_this_process = ResourceManager()


def resource_manager() -> ResourceManager:
    """Return the ResourceManager of this process: its jobs share one Spark application."""
    return _of_this_process

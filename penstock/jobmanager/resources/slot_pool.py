"""The allocation of a cluster's slots, and the queue of requests. A pure core.

A slot is a core of Spark. A job in pipelined mode holds its slots while it runs: each runs one subtask of every vertex of a slot
sharing group. Jobs in epoch mode share the remaining slots, at least one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """The slot request of a job: `slots`, up to `preferred` if they are free; or a share of the remaining slots (`slots` is 0)."""

    job_id: str
    name: str
    slots: int
    preferred: int = 0

    @property
    def shares(self) -> bool:
        """Whether the job shares the remaining slots (epoch mode)."""
        return self.slots == 0


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The slot use of a cluster: total, allocated slots by job id, jobs that share the rest, number of waiting jobs."""

    total: int
    held: Mapping[str, int] = field(default_factory=dict)
    sharing: frozenset[str] = frozenset()
    waiting: int = 0

    @property
    def free(self) -> int:
        """The number of free slots; the one reserved for jobs in epoch mode is not free."""
        return max(0, self.total - sum(self.held.values()) - (1 if self.sharing else 0))


class SlotPool:
    """The slots of one cluster.

    Requests are granted in a fair order: jobs without slots before jobs that want more, then first come, first served. A small job does
    not overtake the first request that can be granted at all, which could starve otherwise. A job that requests its current slots
    again, for a restart, does not wait.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[str, int] = {}
        self._sharing: set[str] = set()
        self._waiting: dict[str, SlotRequest] = {}  # one per job, in order of arrival
        self._names: dict[str, str] = {}

    def ask(self, request: SlotRequest) -> None:
        """Queue a request, replacing an earlier one of the job. The job keeps its slots until the request is granted."""
        self._names[request.job_id] = request.name
        if request.job_id in self._waiting:
            self._waiting[request.job_id] = request  # it keeps its position
        else:
            self._waiting |= {request.job_id: request}

    def try_grant(self, job_id: str) -> int | None:
        """Grant the request of a job if it is next; return its number of slots, or None if it has to wait."""
        request = self._waiting[job_id]
        wants_more = request.slots > self._held.get(job_id, 0) or (
            request.shares and job_id not in self._sharing and job_id not in self._held
        )
        if (wants_more and self._next() != job_id) or not self._fits(request):
            return None
        del self._waiting[job_id]
        if request.shares:
            self._held.pop(job_id, None)
            self.share(job_id, request.name)
            return 0
        spare = self._left(request) if not self._waiting else request.slots
        granted = max(request.slots, min(request.preferred, spare))
        self._sharing.discard(job_id)
        self._held[job_id] = granted
        return granted

    def share(self, job_id: str, name: str) -> None:
        """Grant a job a share of the remaining slots."""
        self._names[job_id] = name
        self._sharing.add(job_id)

    def withdraw(self, job_id: str) -> None:
        """Withdraw the request of a job; it keeps its slots."""
        self._waiting.pop(job_id, None)

    def release(self, job_id: str) -> None:
        """Release all slots of a job."""
        self.withdraw(job_id)
        self._held.pop(job_id, None)
        self._sharing.discard(job_id)
        self._names.pop(job_id, None)

    def could_fit(self, job_id: str) -> bool:
        """Whether the request of a job could be granted if there were no other jobs."""
        return self.total >= max(self._waiting[job_id].slots, 1)

    def use(self) -> SlotUse:
        """Return the slot use."""
        return SlotUse(self.total, dict(self._held), frozenset(self._sharing), len(self._waiting))

    def holders(self, besides: str) -> str:
        """Return the names of the jobs with slots and their numbers, as text."""
        held = [
            f"'{self._names[job_id]}' {slots}"
            for job_id, slots in self._held.items()
            if job_id != besides
        ]
        sharing = sorted(self._names[job_id] for job_id in self._sharing if job_id != besides)
        if sharing:
            names = ", ".join(f"'{name}'" for name in sharing)
            held.append(f"{names} in epoch mode 1")
        return ", ".join(held)

    def _next(self) -> str | None:
        """Return the job that is next; requests that cannot be granted at all are skipped."""
        possible = [job_id for job_id in self._waiting if self.could_fit(job_id)]
        return min(possible, key=lambda job_id: self._held.get(job_id, 0) > 0, default=None)

    def _fits(self, request: SlotRequest) -> bool:
        return self._left(request) >= max(request.slots, 1)

    def _left(self, request: SlotRequest) -> int:
        """Return the number of slots available for a request: one is reserved for jobs in epoch mode."""
        held = sum(slots for job_id, slots in self._held.items() if job_id != request.job_id)
        others_share = bool(self._sharing - {request.job_id})
        return self.total - held - (1 if others_share and not request.shares else 0)

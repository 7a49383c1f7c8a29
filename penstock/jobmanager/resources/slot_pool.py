"""Who holds which part of a cluster's slots, and who is next. A pure core.

A slot is a core of Spark. A job that runs as stages holds its slots for as long as it runs: one subtask of every vertex of a slot
sharing group lives in each. Jobs that run in epochs share what is left, of which there must be one slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """What a job wants: so many slots to hold, up to `preferred` if nobody else wants them; or none, but to share (`slots` is 0)."""

    job_id: str
    name: str
    slots: int
    preferred: int = 0

    @property
    def shares(self) -> bool:
        """Whether the job runs in what others do not hold."""
        return self.slots == 0


@dataclass(frozen=True, slots=True)
class SlotUse:
    """How the slots of a cluster are used: how many there are, what jobs hold by id, which share the rest, how many wait."""

    total: int
    held: Mapping[str, int] = field(default_factory=dict)
    sharing: frozenset[str] = frozenset()
    waiting: int = 0

    @property
    def free(self) -> int:
        """How many slots nobody holds; the one that jobs in epochs have for all of them is not free."""
        return max(0, self.total - sum(self.held.values()) - (1 if self.sharing else 0))


class SlotPool:
    """The slots of one cluster.

    Requests are granted in a fair order: jobs that hold nothing go before jobs that want more, and then who came first. The first
    that can be granted at all is waited for: a small job does not overtake a large one, which would wait for ever otherwise. A job
    that asks again for what it has, to start again after a failure, does not wait.
    """

    def __init__(self) -> None:
        self.total = 0
        self._held: dict[str, int] = {}
        self._sharing: set[str] = set()
        self._waiting: dict[
            str, SlotRequest
        ] = {}  # one for each job, in the order in which they came
        self._names: dict[str, str] = {}

    def ask(self, request: SlotRequest) -> None:
        """Queue a request, in place of an earlier one of the job. What it holds it keeps until that is granted."""
        self._names[request.job_id] = request.name
        if request.job_id in self._waiting:
            self._waiting[request.job_id] = request  # it keeps its place
        else:
            self._waiting |= {request.job_id: request}

    def try_grant(self, job_id: str) -> int | None:
        """Grant the request of a job if it is its turn; return how many slots it holds then. None: it goes on waiting."""
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
        """Let a job share what nobody holds."""
        self._names[job_id] = name
        self._sharing.add(job_id)

    def withdraw(self, job_id: str) -> None:
        """Wait no more for what a job asked for; what it holds it keeps."""
        self._waiting.pop(job_id, None)

    def release(self, job_id: str) -> None:
        """Take back all of a job."""
        self.withdraw(job_id)
        self._held.pop(job_id, None)
        self._sharing.discard(job_id)
        self._names.pop(job_id, None)

    def could_fit(self, job_id: str) -> bool:
        """Whether the request of a job could be granted if no other job was there."""
        return self.total >= max(self._waiting[job_id].slots, 1)

    def use(self) -> SlotUse:
        """Return how the slots are used."""
        return SlotUse(self.total, dict(self._held), frozenset(self._sharing), len(self._waiting))

    def holders(self, besides: str) -> str:
        """Return who holds slots, as text: the names of the jobs with their numbers."""
        held = [
            f"'{self._names[job_id]}' {slots}"
            for job_id, slots in self._held.items()
            if job_id != besides
        ]
        sharing = sorted(self._names[job_id] for job_id in self._sharing if job_id != besides)
        if sharing:
            names = ", ".join(f"'{name}'" for name in sharing)
            held.append(f"{names} in epochs 1")
        return ", ".join(held)

    def _next(self) -> str | None:
        """Return the job whose turn it is: what can never be granted, as things are, is in nobody's way."""
        possible = [job_id for job_id in self._waiting if self.could_fit(job_id)]
        return min(possible, key=lambda job_id: self._held.get(job_id, 0) > 0, default=None)

    def _fits(self, request: SlotRequest) -> bool:
        return self._left(request) >= max(request.slots, 1)

    def _left(self, request: SlotRequest) -> int:
        """Return how many slots there are for a request: jobs in epochs need one, which they share."""
        held = sum(slots for job_id, slots in self._held.items() if job_id != request.job_id)
        others_share = bool(self._sharing - {request.job_id})
        return self.total - held - (1 if others_share and not request.shares else 0)

"""What people ask of a running job: savepoints and another parallelism. Served between two checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.errors import ArgumentError


@dataclass(frozen=True, slots=True, eq=False)
class SavepointRequest:
    """A savepoint to be taken; `stops` says that the job ends with it, `drains` that time goes to its end before."""

    target: str
    stops: bool = False
    drains: bool = False
    result: Future[str] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, eq=False)
class RescaleRequest:
    """Another parallelism, in steps that are all taken or none: for all operators that set none, or for some by name.

    `former` is the parallelism that the request was made for; once the job has another one, the request is out of date.
    Gives the parallelism by vertex name.
    """

    steps: tuple[int | Mapping[str, int], ...]
    reason: str = "asked for"
    former: int | None = None
    result: Future[dict[str, int]] = field(default_factory=Future)

    def check(self, parallelism: int) -> None:
        """Refuse a request that is out of date, given the parallelism that the job has now."""
        if self.former is not None and self.former != parallelism:
            raise ArgumentError(f"the job has been rescaled from {self.former} to {parallelism}")


Request: TypeAlias = SavepointRequest | RescaleRequest

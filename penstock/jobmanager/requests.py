"""Requests to a running job: savepoints and rescaling. They are served between two checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.errors import ArgumentError


@dataclass(frozen=True, slots=True, eq=False)
class SavepointRequest:
    """A request for a savepoint; with `stops` the job ends with it, with `drains` the final watermark is sent before."""

    target: str
    stops: bool = False
    drains: bool = False
    result: Future[str] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, eq=False)
class RescaleRequest:
    """A request for another parallelism, applied as a whole or not at all: for all operators that set none, or for some by name.

    `former` is the parallelism at the time of the request; if the job has another one by now, the request is outdated. The result is
    the parallelism by vertex name.
    """

    steps: tuple[int | Mapping[str, int], ...]
    reason: str = "requested"
    former: int | None = None
    result: Future[dict[str, int]] = field(default_factory=Future)

    def check(self, parallelism: int) -> None:
        """Reject an outdated request, given the current parallelism of the job."""
        if self.former is not None and self.former != parallelism:
            raise ArgumentError(
                f"outdated request: the job was already rescaled from {self.former} to {parallelism}"
            )


Request: TypeAlias = SavepointRequest | RescaleRequest

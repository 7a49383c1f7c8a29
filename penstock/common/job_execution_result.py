"""JobExecutionResult: what is left of a job that ran to its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.common.job_id import JobID


class JobExecutionResult:
    """What is left of a job that ran to its end: identity, run time, accumulators."""

    def __init__(
        self, job_id: JobID, net_runtime: int = 0, accumulators: Mapping[str, Any] | None = None
    ) -> None:
        self._job_id = job_id
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Return the job's identity."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long the job ran, in milliseconds."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the value of one accumulator, or None."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the values of all accumulators."""
        return dict(self._accumulators)

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime} ms",
        ]
        if self._accumulators:
            lines.append("Accumulator Results:")
            lines += [f"- {name}: {value}" for name, value in sorted(self._accumulators.items())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id!r}, net_runtime={self._net_runtime})"


__all__ = ["JobExecutionResult"]

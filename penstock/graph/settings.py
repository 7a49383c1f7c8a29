"""What the environment says about a whole program when its plans are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import ArgumentError, ArgumentTypeError

MIN_DEFAULT_MAX_PARALLELISM = 128
MAX_PARALLELISM_LIMIT = 32768
RUNTIME_MODES = ("STREAMING", "BATCH", "AUTOMATIC")


def default_max_parallelism(parallelism: int) -> int:
    """Return the number of key groups of an operator that has none configured.

    One and a half times the parallelism, rounded up to a power of two, at least 128 and at most 32768.

    >>> [default_max_parallelism(parallelism) for parallelism in (1, 85, 86, 100_000)]
    [128, 128, 256, 32768]
    """
    wanted = parallelism + parallelism // 2
    power = 1 << max(wanted - 1, 0).bit_length()
    return min(max(power, MIN_DEFAULT_MAX_PARALLELISM), MAX_PARALLELISM_LIMIT)


def check_parallelism(value: object, what: str) -> None:
    """Refuse a parallelism that is not a whole number between 1 and 32768."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be a whole number, not {type(value).__name__}")
    if not 1 <= value <= MAX_PARALLELISM_LIMIT:
        raise ArgumentError(f"{what} must be between 1 and {MAX_PARALLELISM_LIMIT}, not {value}")


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The settings that apply to every operator which has none of its own.

    `max_parallelism` None takes `default_max_parallelism` of each operator's parallelism. `runtime_mode` AUTOMATIC turns
    into BATCH if all sources are bounded, else into STREAMING.

    Two mappings by operator id say what is known of a job that runs already: `rescaled` has the parallelism of operators
    that were rescaled by name, and wins over the program; `key_groups` has the max parallelism that state was written
    with, for operators whose program sets none.
    """

    job_name: str = "Flink Streaming Job"
    parallelism: int = 1
    max_parallelism: int | None = None
    chaining_enabled: bool = True
    runtime_mode: str = "STREAMING"
    rescaled: Mapping[str, int] = field(default_factory=dict)
    key_groups: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_parallelism(self.parallelism, "the default parallelism")
        if self.max_parallelism is not None:
            check_parallelism(self.max_parallelism, "the default max parallelism")
        if self.runtime_mode not in RUNTIME_MODES:
            raise ArgumentError(
                f"unknown runtime mode {self.runtime_mode!r}",
                hint="use one of " + ", ".join(RUNTIME_MODES),
            )

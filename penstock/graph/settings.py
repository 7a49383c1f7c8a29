"""Settings of the environment for a whole program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.pickling.program_classes import PickledClasses

MIN_DEFAULT_MAX_PARALLELISM = 128
MAX_PARALLELISM_LIMIT = 32768
RUNTIME_MODES = ("STREAMING", "BATCH", "AUTOMATIC")


def default_max_parallelism(parallelism: int) -> int:
    """Return the default number of key groups (max parallelism) of an operator.

    One and a half times the parallelism, rounded up to a power of two, at least 128 and at most 32768.

    >>> [default_max_parallelism(parallelism) for parallelism in (1, 85, 86, 100_000)]
    [128, 128, 256, 32768]
    """
    wanted = parallelism + parallelism // 2
    power = 1 << max(wanted - 1, 0).bit_length()
    return min(max(power, MIN_DEFAULT_MAX_PARALLELISM), MAX_PARALLELISM_LIMIT)


def check_parallelism(value: object, what: str) -> None:
    """Reject a parallelism that is not an integer between 1 and 32768."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be an integer, not {type(value).__name__}")
    if not 1 <= value <= MAX_PARALLELISM_LIMIT:
        raise ArgumentError(f"{what} must be between 1 and {MAX_PARALLELISM_LIMIT}, not {value}")


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The defaults for operators without settings of their own.

    `max_parallelism` None means `default_max_parallelism` of each operator's parallelism. `runtime_mode` AUTOMATIC
    becomes BATCH if all
    sources are bounded, else STREAMING.

    Two mappings by operator id describe a job that is already running: `rescaled` has the parallelism of operators that were
    rescaled by name, and overrides the program; `key_groups` has the max parallelism of existing state, for operators without
    an explicit one. `classes` are those of the program that tasks cannot import.
    """

    job_name: str = "Flink Streaming Job"
    parallelism: int = 1
    max_parallelism: int | None = None
    chaining_enabled: bool = True
    runtime_mode: str = "STREAMING"
    rescaled: Mapping[str, int] = field(default_factory=dict)
    key_groups: Mapping[str, int] = field(default_factory=dict)
    classes: PickledClasses = ()

    def __post_init__(self) -> None:
        check_parallelism(self.parallelism, "the default parallelism")
        if self.max_parallelism is not None:
            check_parallelism(self.max_parallelism, "the default max parallelism")
        if self.runtime_mode not in RUNTIME_MODES:
            raise ArgumentError(
                f"unknown runtime mode {self.runtime_mode!r}",
                hint="use one of " + ", ".join(RUNTIME_MODES),
            )

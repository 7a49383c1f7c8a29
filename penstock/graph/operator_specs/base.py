"""Base classes of operator specs."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

if TYPE_CHECKING:
    from penstock.connectors.base.sink import Sink
    from penstock.connectors.base.source import Source

SHOWN_IF_SET: Final = {"shown": "if set"}  # plans omit such a field while it has its default

# A class or function that creates the operator of a spec, or its address: "package.module:name".
Implementation = str | Callable[[Any], Any]


class OutputTimestamps(enum.Enum):
    """The timestamps of the records that an operator emits."""

    OF_INPUT = enum.auto()  # those of its input records, if they have any
    OWN = enum.auto()  # always its own, such as the end of a window
    SOME = enum.auto()  # its own, those of the input or none, depending on the function or source
    NONE = enum.auto()  # never any


@dataclass(frozen=True, slots=True)
class StateTableDescription:
    """A table of keyed state that an operator owns, for readers of snapshots.

    `kind` is the form of its values (value, list, map, reducing, contents), `text` describes them. `scope` is the
    namespace of entries
    besides the key, such as `window`. `internal` tables are implementation details: their form may change with any release.
    """

    name: str
    kind: str = "value"
    text: str = "objects of the operator"
    scope: str | None = None
    internal: bool = False


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """Base class of all operator specs: declares the properties of an operator, with common defaults.

    A spec is data: the user's arguments, in fields. Properties of all operators of a kind are class attributes, so that plans,
    tasks and tools need no list of kinds.
    """

    # The implementation. As an address it is loaded where it runs, so a program that only makes plans stays small.
    operator: ClassVar[Implementation] = ""
    # Whether the processes that tasks are forked from preload it.
    preloaded: ClassVar[bool] = False
    # Whether it has keyed state and timers even if no input is keyed.
    keyed_without_keys: ClassVar[bool] = False
    # Whether its output is checked against the declared type. Not needed if it emits its input.
    checks_output: ClassVar[bool] = True
    # Whether its output depends on when external calls complete, so that it may differ in a replay.
    waits_for_others: ClassVar[bool] = False
    # The tables of keyed state that it owns, besides those that users declare.
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = ()
    # The names of operator list states that it owns, besides those that users declare.
    operator_states: ClassVar[tuple[str, ...]] = ()

    @property
    def merges_partials(self) -> bool:
        """Whether it is the second stage of a two-phase aggregation: its input are partial aggregates of several records each."""
        return False

    @property
    def implementation(self) -> Implementation:
        """The implementation, where that depends on the fields; otherwise the same for all of a kind."""
        return type(self).operator

    @property
    def reads_from(self) -> Source | None:
        """The source that it reads, if it is a source operator."""
        return None

    @property
    def writes_to(self) -> Sink | None:
        """The sink that it writes to, if it is a sink operator."""
        return None

    @property
    def needs_timestamps(self) -> bool:
        """Whether it uses the timestamps of its input records, and may fail if one has none."""
        return False

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """The timestamps of the records that it emits."""
        return OutputTimestamps.OF_INPUT

    def in_batch_mode(self) -> Self:
        """Return the spec for BATCH mode."""
        return self

    def with_error_tag(self, tag: str) -> OperatorSpec | None:
        """Return the spec that sends failing records to a side output; None if not supported."""
        return None


def timestamps_of(function: object) -> OutputTimestamps:
    """Return the timestamps of a process function's output: event-time timers have their own.

    `on_timer` of the base classes has an attribute `is_default`.
    """
    on_timer = getattr(function, "on_timer", None)
    if on_timer is None or getattr(on_timer, "is_default", False):
        return OutputTimestamps.OF_INPUT
    return OutputTimestamps.SOME


def spec_kinds() -> Iterator[type[OperatorSpec]]:
    """Iterate over all spec classes known to this process, including those of other packages."""
    waiting = [OperatorSpec]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting.extend(kind.__subclasses__())


@dataclass(frozen=True, slots=True)
class TolerantSpec(OperatorSpec):
    """An operator around one user function that can send failing records to a side output, as DeadLetters."""

    function: Any
    error_tag: str | None = field(default=None, metadata=SHOWN_IF_SET)

    # The implementation with an `error_tag`.
    tolerant_operator: ClassVar[Implementation] = ""

    def with_error_tag(self, tag: str) -> OperatorSpec:
        """Return the spec with this tag."""
        return dataclasses.replace(self, error_tag=tag)

    @property
    def implementation(self) -> Implementation:
        """The implementation: one that fails, or one that continues."""
        kind = type(self)
        return kind.operator if self.error_tag is None else kind.tolerant_operator

"""What every operator of a plan says about itself."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

if TYPE_CHECKING:
    from penstock.connectors.sink import Sink
    from penstock.connectors.source import Source

SHOWN_IF_SET: Final = {"shown": "if set"}  # plans leave such a field out while it has its default

# A class or function that makes the operator of a spec, or where it is found: "package.module:name".
Implementation = str | Callable[[Any], Any]


class OutputTimestamps(enum.Enum):
    """Which timestamps the records have that an operator emits."""

    OF_INPUT = enum.auto()  # those of the records that it gets, or none if those have none
    OWN = enum.auto()  # always its own, such as the end of a window
    SOME = (
        enum.auto()
    )  # its own, those of the input or none: it depends on the function, or on the source
    NONE = enum.auto()  # never any


@dataclass(frozen=True, slots=True)
class StateTable:
    """A table of keyed state that an operator owns, for those who read snapshots.

    `kind` is how its values look (value, list, map, reducing, contents), `text` what they are. `scope` names what entries
    belong to besides the key, such as `window`. `internal` tables are the operator's own affair: their form may change
    with any release.
    """

    name: str
    kind: str = "value"
    text: str = "objects of the operator"
    scope: str | None = None
    internal: bool = False


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """Base of all operator descriptions: what others must know about an operator, with defaults that suit most.

    A spec is data: what the user gave, in fields. What is the same for all operators of a kind is said by class
    attributes, so that neither plans nor tasks nor tools need a list of kinds.
    """

    # What runs it. As an address it is loaded where it runs, so a program that only makes plans stays small.
    operator: ClassVar[Implementation] = ""
    # Whether the processes that tasks are forked from load it beforehand.
    preloaded: ClassVar[bool] = False
    # Whether it has keyed state and timers even if no input has keys.
    keyed_without_keys: ClassVar[bool] = False
    # Whether what it emits is checked by the declared type. Not needed if it emits what it got.
    checks_output: ClassVar[bool] = True
    # Whether what it emits depends on when others answer, so that it may differ when it is run again.
    waits_for_others: ClassVar[bool] = False
    # The tables of keyed state that it owns, besides those that users declare.
    state_tables: ClassVar[tuple[StateTable, ...]] = ()
    # The names of list states of subtasks that it owns, besides those that users declare.
    operator_states: ClassVar[tuple[str, ...]] = ()

    @property
    def merges_partials(self) -> bool:
        """Whether it is the second of two stages: what it gets, and counts, are partial aggregates of several records each."""
        return False

    @property
    def implementation(self) -> Implementation:
        """What runs it, where that depends on the fields; the same for all of a kind otherwise."""
        return type(self).operator

    @property
    def reads_from(self) -> Source | None:
        """The source that it reads, if it begins a stream."""
        return None

    @property
    def writes_to(self) -> Sink | None:
        """The sink that it writes to, if it ends a stream."""
        return None

    @property
    def needs_timestamps(self) -> bool:
        """Whether it goes by the timestamps of the records that it gets, and may fail if one has none."""
        return False

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Which timestamps the records have that it emits."""
        return OutputTimestamps.OF_INPUT

    def in_batch_mode(self) -> Self:
        """Return the spec as it is in BATCH mode."""
        return self

    def with_error_tag(self, tag: str) -> OperatorSpec | None:
        """Return the spec that sends records its function raises on to a side output; None: it cannot."""
        return None


def timestamps_of(function: Any) -> OutputTimestamps:
    """Return the timestamps of what a process function emits: event-time timers bring their own.

    `on_timer` of the base classes has an attribute `is_default`.
    """
    on_timer = getattr(function, "on_timer", None)
    if on_timer is None or getattr(on_timer, "is_default", False):
        return OutputTimestamps.OF_INPUT
    return OutputTimestamps.SOME


def spec_kinds() -> Iterator[type[OperatorSpec]]:
    """Go through all kinds of specs that this process knows, those of other packages too."""
    waiting = [OperatorSpec]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting.extend(kind.__subclasses__())


@dataclass(frozen=True, slots=True)
class TolerantSpec(OperatorSpec):
    """An operator around one user function that can send records it raises on to a side output, as DeadLetters."""

    function: Any
    error_tag: str | None = field(default=None, metadata=SHOWN_IF_SET)

    # What runs it with an `error_tag`.
    tolerant_operator: ClassVar[Implementation] = ""

    def with_error_tag(self, tag: str) -> OperatorSpec:
        """Return the spec with this tag."""
        return dataclasses.replace(self, error_tag=tag)

    @property
    def implementation(self) -> Implementation:
        """What runs it: one that fails, or one that goes on."""
        kind = type(self)
        return kind.operator if self.error_tag is None else kind.tolerant_operator

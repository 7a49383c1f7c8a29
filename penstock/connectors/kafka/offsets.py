"""Starting and stopping offsets of a Kafka source."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.connectors.kafka.errors import KafkaRefusedError
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError


@dataclass(frozen=True, slots=True, order=True)
class KafkaTopicPartition:
    """A partition of a topic.

    >>> KafkaTopicPartition("orders", 3)
    KafkaTopicPartition(topic='orders', partition=3)
    """

    topic: str
    partition: int

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not self.topic:
            raise ArgumentTypeError(f"the topic of a partition must be a str, not {self.topic!r}")
        if isinstance(self.partition, bool) or not isinstance(self.partition, int):
            raise ArgumentTypeError(
                f"the number of a partition must be an int, not {self.partition!r}"
            )
        if self.partition < 0:
            raise ArgumentError(
                f"the number of a partition must be at least 0, not {self.partition}"
            )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class KafkaOffsetResetStrategy(enum.Enum):
    """How a partition without a valid offset is handled: it is read from one end, or it is an error."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetLookup(Protocol):
    """Offset lookups from the brokers, and from the consumer group."""

    @property
    def group_id(self) -> str | None:
        """The consumer group, if there is one."""

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Return the first offset of each partition."""

    def latest(self, partitions: Iterable[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Return the offset after the last record of each partition that can be read."""

    def at(
        self, partitions: Iterable[KafkaTopicPartition], timestamp: int
    ) -> dict[KafkaTopicPartition, int]:
        """Return the first offset whose timestamp is not before this one, for partitions that have one."""

    def committed(
        self, partitions: Iterable[KafkaTopicPartition]
    ) -> dict[KafkaTopicPartition, int]:
        """Return the committed offsets of the group, for partitions that have one."""


Offsets = dict[KafkaTopicPartition, int]


class KafkaOffsetsInitializer:
    """The starting or stopping offsets of partitions. Created by its static methods."""

    #: How to set the strategy, for error messages; a table names its options here
    reset_hint = "pass a KafkaOffsetResetStrategy, EARLIEST or LATEST, to committed_offsets or offsets, or start elsewhere"

    def __init__(self, j_initializer: Any) -> None:
        if not isinstance(j_initializer, _Rule):
            raise ArgumentTypeError(
                "a KafkaOffsetsInitializer is created by one of its static methods",
                hint="use KafkaOffsetsInitializer.earliest(), latest(), committed_offsets(), timestamp(...) or offsets(...)",
            )
        self._rule = j_initializer

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Start with the first record that the broker still has."""
        return KafkaOffsetsInitializer(_Rule("earliest"))

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Start, or stop, after the last record at this time."""
        return KafkaOffsetsInitializer(_Rule("latest"))

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start at the group offsets; the strategy is for partitions without one."""
        _check_strategy(offset_reset_strategy)
        return KafkaOffsetsInitializer(_Rule("committed", strategy=offset_reset_strategy))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Start with the first record whose timestamp is not before this one, in epoch milliseconds."""
        if isinstance(timestamp, bool) or not isinstance(timestamp, int):
            raise ArgumentTypeError(f"timestamp must be an int of milliseconds, not {timestamp!r}")
        if timestamp < 0:
            raise ArgumentError(f"timestamp must be at least 0, not {timestamp}")
        return KafkaOffsetsInitializer(_Rule("timestamp", timestamp=timestamp))

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Start at these offsets; the strategy is for partitions without one, neither given nor committed by the group."""
        _check_strategy(offset_reset_strategy)
        if not isinstance(offsets, Mapping):
            raise ArgumentTypeError(
                f"offsets must be a dict of KafkaTopicPartition to int, not {offsets!r}"
            )
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise ArgumentTypeError(
                    f"keys of offsets must be KafkaTopicPartitions, not {partition!r}"
                )
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise ArgumentTypeError(f"the offset of {partition} must be an int, not {offset!r}")
            if offset < 0:
                raise ArgumentError(f"the offset of {partition} must be at least 0, not {offset}")
        return KafkaOffsetsInitializer(
            _Rule("offsets", strategy=offset_reset_strategy, given=dict(offsets))
        )

    @property
    def needs_group(self) -> bool:
        """Whether it needs offsets of a consumer group."""
        return self._rule.kind == "committed"

    @property
    def is_earliest(self) -> bool:
        """Whether partitions start with their first record."""
        return self._rule.kind == "earliest"

    @property
    def reset_strategy(self) -> KafkaOffsetResetStrategy:
        """The strategy for group offsets that the broker no longer has."""
        return (
            self._rule.strategy
            if self._rule.kind == "committed"
            else (KafkaOffsetResetStrategy.NONE)
        )

    def resolve(
        self,
        partitions: Iterable[KafkaTopicPartition],
        lookup: OffsetLookup,
        *,
        stops: bool = False,
    ) -> Offsets:
        """Return an offset for each partition; `stops` may be beyond the last record."""
        wanted = sorted(partitions)
        if not wanted:
            return {}
        kind = self._rule.kind
        if kind == "earliest":
            return lookup.earliest(wanted)
        if kind == "latest":
            return lookup.latest(wanted)
        if kind == "timestamp":
            found = lookup.at(wanted, self._rule.timestamp)
            return {**lookup.latest([each for each in wanted if each not in found]), **found}
        return self._known_or_reset(wanted, lookup, stops=stops)

    def _known_or_reset(
        self, wanted: list[KafkaTopicPartition], lookup: OffsetLookup, *, stops: bool
    ) -> Offsets:
        found = {each: offset for each, offset in self._rule.given.items() if each in wanted}
        missing = [each for each in wanted if each not in found]
        if missing and lookup.group_id is not None:
            found |= lookup.committed(missing)
        first, end = lookup.earliest(wanted), lookup.latest(wanted)
        bad = [
            each
            for each in wanted
            if not (stops and each in found) and not first[each] <= found.get(each, -1) <= end[each]
        ]
        if bad and self._rule.strategy is KafkaOffsetResetStrategy.NONE:
            raise self._no_offset(bad[0], found.get(bad[0]), first[bad[0]], end[bad[0]], lookup)
        ends = end if self._rule.strategy is KafkaOffsetResetStrategy.LATEST else first
        return {each: ends[each] if each in bad else found[each] for each in wanted}

    def _no_offset(
        self,
        partition: KafkaTopicPartition,
        offset: int | None,
        first: int,
        end: int,
        lookup: OffsetLookup,
    ) -> PenstockError:
        if offset is None:
            what = f"the group '{lookup.group_id}' has no offset for {partition}"
        else:
            what = f"the offset {offset} of {partition} is out of range"
        return KafkaRefusedError(
            what,
            detail=f"the broker has offsets {first} to {end} of this partition",
            hint=self.reset_hint,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaOffsetsInitializer) and other._rule == self._rule

    def __hash__(self) -> int:
        return hash(self._rule.kind)

    def __repr__(self) -> str:
        return f"KafkaOffsetsInitializer({self._rule.kind})"


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: str
    timestamp: int = 0
    strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    given: Offsets = field(default_factory=dict)


def _check_strategy(strategy: object) -> None:
    if not isinstance(strategy, KafkaOffsetResetStrategy):
        raise ArgumentTypeError(
            f"offset_reset_strategy must be a KafkaOffsetResetStrategy, not {strategy!r}"
        )

"""StateTtlConfig: the time-to-live (TTL) of state. `penstock.runtime.state.ttl` implements it, and names all modules of TTL."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.time.durations import Duration, Time, to_millis


class CleanupMoment(enum.Enum):
    """When expired state that is not read is removed."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


@dataclass(frozen=True, slots=True)
class CleanupStrategy:
    """Base of all cleanup strategies."""


@dataclass(frozen=True, slots=True)
class EmptyCleanupStrategy(CleanupStrategy):
    """A cleanup strategy without settings."""


@dataclass(frozen=True, slots=True)
class IncrementalCleanupStrategy(CleanupStrategy):
    """Checks some entries at every state access."""

    cleanup_size: int = 5
    every_record: bool = False

    def get_cleanup_size(self) -> int:
        """Return the number of entries that are checked."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether entries are also checked for every record."""
        return self.every_record


@dataclass(frozen=True, slots=True)
class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
    """Drops expired entries when RocksDB compacts its files."""

    query_time_after_num_entries: int = 1000
    periodic_compaction_time: Duration = field(default_factory=lambda: Duration.of_days(30))

    def get_query_time_after_num_entries(self) -> int:
        """Return after how many entries the clock is read again."""
        return self.query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """Return the age at which a file is compacted in any case."""
        return self.periodic_compaction_time


@dataclass(frozen=True, slots=True)
class TtlCleanupStrategies:
    """When expired state that is not read is removed."""

    strategies: dict[CleanupMoment, CleanupStrategy] = field(default_factory=dict)
    in_background: bool = True

    def is_cleanup_in_background(self) -> bool:
        """Whether the default background cleanup is on."""
        return self.in_background

    def in_full_snapshot(self) -> bool:
        """Whether full snapshots omit expired entries."""
        return CleanupMoment.FULL_STATE_SCAN_SNAPSHOT in self.strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """Return the settings of the incremental cleanup; None if it is off."""
        default = IncrementalCleanupStrategy() if self.in_background else None
        found = self.strategies.get(CleanupMoment.INCREMENTAL_CLEANUP, default)
        return found if isinstance(found, IncrementalCleanupStrategy) else None

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> RocksdbCompactFilterCleanupStrategy | None:
        """Return the settings of the RocksDB compaction filter; None if it is off."""
        default = RocksdbCompactFilterCleanupStrategy() if self.in_background else None
        found = self.strategies.get(CleanupMoment.ROCKSDB_COMPACTION_FILTER, default)
        return found if isinstance(found, RocksdbCompactFilterCleanupStrategy) else None


def _member(value: object, kind: type[enum.Enum], what: str) -> Any:
    if not isinstance(value, kind):
        raise ArgumentTypeError(
            f"{what} must be a StateTtlConfig.{kind.__name__}, got {value!r}",
            hint=f"use one of {', '.join(kind.__members__)}",
        )
    return value


class StateTtlConfigBuilder:
    """Collects the settings of a StateTtlConfig."""

    def __init__(self, ttl: Any) -> None:
        self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
        self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
        self._characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
        self._strategies: dict[CleanupMoment, CleanupStrategy] = {}
        self._in_background = True
        self.set_ttl(ttl)

    def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfigBuilder:
        """Set which accesses refresh the TTL."""
        self._update_type = _member(update_type, StateTtlConfig.UpdateType, "update_type")
        return self

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Refresh the TTL on creation and write. The default."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Refresh the TTL on reads as well."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

    def set_state_visibility(
        self, state_visibility: StateTtlConfig.StateVisibility
    ) -> StateTtlConfigBuilder:
        """Set whether expired state may be read."""
        self._visibility = _member(
            state_visibility, StateTtlConfig.StateVisibility, "state_visibility"
        )
        return self

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """Return expired state while it has not been cleaned up."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """Hide expired state. The default."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(
        self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
    ) -> StateTtlConfigBuilder:
        """Set the clock that the TTL is measured by."""
        self._characteristic = _member(
            ttl_time_characteristic, StateTtlConfig.TtlTimeCharacteristic, "ttl_time_characteristic"
        )
        return self

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Measure the TTL in processing time. The default."""
        return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> StateTtlConfigBuilder:
        """Omit expired entries from full snapshots."""
        self._strategies[CleanupMoment.FULL_STATE_SCAN_SNAPSHOT] = EmptyCleanupStrategy()
        return self

    def cleanup_incrementally(
        self, cleanup_size: int, run_cleanup_for_every_record: bool
    ) -> StateTtlConfigBuilder:
        """Check some entries at every state access, and remove those that have expired."""
        if isinstance(cleanup_size, bool) or not isinstance(cleanup_size, int) or cleanup_size < 1:
            raise ArgumentError(f"cleanup_size must be a number above 0, not {cleanup_size!r}")
        self._strategies[CleanupMoment.INCREMENTAL_CLEANUP] = IncrementalCleanupStrategy(
            cleanup_size, run_cleanup_for_every_record
        )
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> StateTtlConfigBuilder:
        """Drop expired entries when RocksDB compacts its files."""
        self._strategies[CleanupMoment.ROCKSDB_COMPACTION_FILTER] = (
            RocksdbCompactFilterCleanupStrategy(
                query_time_after_num_entries,
                Duration.of_days(30)
                if periodic_compaction_time is None
                else periodic_compaction_time,
            )
        )
        return self

    def disable_cleanup_in_background(self) -> StateTtlConfigBuilder:
        """Turn off the default cleanup; explicitly enabled cleanups stay on."""
        self._in_background = False
        return self

    def set_ttl(self, ttl: Duration | Time) -> StateTtlConfigBuilder:
        """Set the TTL."""
        to_millis(ttl, "ttl", minimum=1)
        self._ttl = ttl
        return self

    def build(self) -> StateTtlConfig:
        """Create the configuration."""
        return StateTtlConfig(
            self._update_type,
            self._visibility,
            self._characteristic,
            self._ttl,
            TtlCleanupStrategies(dict(self._strategies), self._in_background),
        )


class StateTtlConfig:
    """The TTL of state, which accesses refresh it, and whether expired state may be read.

    >>> config = StateTtlConfig.new_builder(Duration.of_hours(1)).update_ttl_on_read_and_write().build()
    >>> config.ttl_ms
    3600000
    """

    Builder: TypeAlias = StateTtlConfigBuilder
    CleanupStrategies: TypeAlias = TtlCleanupStrategies

    class UpdateType(enum.Enum):
        """Which accesses refresh the TTL."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(enum.Enum):
        """Whether expired state that is not cleaned up yet may be read."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(enum.Enum):
        """The clock that the TTL is measured by."""

        ProcessingTime = 0

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Any,
        cleanup_strategies: TtlCleanupStrategies | None = None,
    ) -> None:
        config = StateTtlConfig
        self._update_type: StateTtlConfig.UpdateType = _member(
            update_type, config.UpdateType, "update_type"
        )
        self._visibility: StateTtlConfig.StateVisibility = _member(
            state_visibility, config.StateVisibility, "state_visibility"
        )
        self._characteristic: StateTtlConfig.TtlTimeCharacteristic = _member(
            ttl_time_characteristic, config.TtlTimeCharacteristic, "ttl_time_characteristic"
        )
        self.ttl_ms = to_millis(ttl, "ttl", minimum=1)
        self._ttl = ttl
        self._cleanup = TtlCleanupStrategies() if cleanup_strategies is None else cleanup_strategies

    @staticmethod
    def new_builder(ttl: object) -> StateTtlConfigBuilder:
        """Start a configuration with the TTL: a Duration or a Time."""
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> UpdateType:
        """Return which accesses refresh the TTL."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Return whether expired state may be read."""
        return self._visibility

    def get_ttl(self) -> object:
        """Return the TTL as it was given."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """Return the clock that the TTL is measured by."""
        return self._characteristic

    def is_enabled(self) -> bool:
        """Whether state expires."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> TtlCleanupStrategies:
        """Return when expired state that is not read is removed."""
        return self._cleanup

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type.name}, "
            f"state_visibility={self._visibility.name}, ttl={self.ttl_ms} ms>"
        )


__all__ = ["StateTtlConfig", "StateTtlConfigBuilder", "TtlCleanupStrategies"]

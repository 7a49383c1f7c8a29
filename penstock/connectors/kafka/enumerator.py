"""Finds the partitions of a Kafka source, on the driver."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.user_types import StateValue
from penstock.connectors.base.source import SourceSplit, SplitEnumerator, SplitProgress
from penstock.connectors.kafka.cluster import KafkaCluster, KafkaUnavailableError
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, Offsets
from penstock.connectors.kafka.source_options import SourceOptions
from penstock.connectors.kafka.subscription import Subscription, missing_topic

_log = logging.getLogger("penstock.connectors.kafka")

ENDS_PERIOD_S: Final = (
    0.2  # how often the brokers are asked for end offsets, while these are requested
)
_WANTED_S: Final = 5.0
_ENDS_S: Final = 2.0
# A missing topic counts as deleted if it was also missing in an earlier request, at least this long ago.
_GONE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class KafkaPartitionSplit:
    """The payload of a split: the partition, and its stopping offset."""

    partition: KafkaTopicPartition
    stop: int | None = None
    from_earliest: bool = False  # starts with the first available record, if nothing was read yet


@dataclass(frozen=True, slots=True)
class KafkaSourcePlan:
    """The subscription of a Kafka source, with starting and stopping offsets."""

    subscription: Subscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    bounded: bool
    options: SourceOptions


@dataclass(frozen=True, slots=True)
class AdoptedPartitions:
    """The known partitions of another job, adopted by a bounded source: others may have been created since."""

    known: tuple[KafkaTopicPartition, ...]

    def __iter__(self) -> Iterator[KafkaTopicPartition]:
        return iter(self.known)


def find_stops(plan: KafkaSourcePlan, partition: KafkaTopicPartition) -> Offsets:
    """Return the stopping offsets of a partition and of all other existing ones: they are requested together."""
    assert plan.stopping is not None
    cluster = KafkaCluster(plan.options)
    try:
        topics = cluster.topics(plan.options.start_timeout_s)
        there = plan.subscription.select(topics, plan.options.servers)
        return plan.stopping.resolve({*there, partition}, cluster, stops=True)
    finally:
        cluster.close()


class KafkaEnumerator(SplitEnumerator):
    """Finds partitions when the job starts, and new ones while it runs.

    Starting (and stopping) offsets are looked up once, and kept in the splits. The first lookup waits for the brokers; later ones
    are made by a thread, so that nothing blocks while brokers are down. Partitions that are found later are read from their first
    record.
    """

    def __init__(
        self,
        plan: KafkaSourcePlan,
        restored: StateValue = None,
        connect: Callable[[SourceOptions], KafkaCluster] = KafkaCluster,
    ) -> None:
        self._plan = plan
        self._connect = connect
        self._cluster: KafkaCluster | None = None
        self._begun = restored is not None
        self._adopted = plan.bounded and isinstance(restored, AdoptedPartitions)
        self._known: set[KafkaTopicPartition] = set(restored or ())
        self.starts: Offsets = {}  # of this run of the job
        self.stops: Offsets = {}
        self._open: list[KafkaTopicPartition] = []
        self._committed: Offsets = {}
        self._watch: _Watch | None = None

    def discover(self) -> Iterable[SourceSplit]:
        """Return splits of new partitions."""
        if not self._begun:
            found = self._first_look()
        elif self._adopted:
            wait_s = self._plan.options.start_timeout_s
            found = self.look_again(self._connected(), self._known, wait_s)
            self._adopted = False
        elif self._plan.bounded:
            return []
        else:
            found = self._watching().take(self._known)
        self._known.update(each.payload.partition for each in found)
        self._begun = True
        return found

    def _first_look(self) -> list[SourceSplit]:
        cluster, plan = self._connected(), self._plan
        wait_s = plan.options.start_timeout_s
        there = plan.subscription.select(cluster.topics(wait_s), plan.options.servers)
        if not there:
            _log.warning(
                "no partitions found yet for %s at %s", plan.subscription, plan.options.servers
            )
        new = there - set(self.starts)
        self.starts |= plan.starting.resolve(new, cluster)
        if plan.stopping is not None:
            self.stops |= plan.stopping.resolve(there - set(self.stops), cluster, stops=True)
        first = plan.starting.is_earliest
        return [self._split(each, from_earliest=first) for each in sorted(there)]

    def _split(self, partition: KafkaTopicPartition, *, from_earliest: bool) -> SourceSplit:
        stop = self.stops.get(partition)
        payload = KafkaPartitionSplit(partition, stop, from_earliest)
        return SourceSplit(
            str(partition), payload, start=self.starts[partition], bounded=stop is not None
        )

    def look_again(
        self, cluster: KafkaCluster, known: set[KafkaTopicPartition], wait_s: float = 1.0
    ) -> list[SourceSplit]:
        """Return splits of unknown partitions, with their first offsets."""
        plan = self._plan
        there = plan.subscription.select(cluster.topics(wait_s), plan.options.servers)
        gone = {each.topic for each in known} - {each.topic for each in there}
        if gone and plan.subscription.pattern is not None:
            raise missing_topic(min(gone), plan.options.servers)
        new = there - known
        if not new:
            return []
        starts = cluster.earliest(new - set(self.starts))
        stops: Offsets = {}
        if plan.stopping is not None:
            stops = plan.stopping.resolve(new, cluster, stops=True)
        self.starts = {**starts, **self.starts}
        self.stops = {**stops, **self.stops}
        _log.info("new partitions: %s", ", ".join(map(str, sorted(new))))
        return [self._split(each, from_earliest=True) for each in sorted(new)]

    def take_over(self, before: SplitEnumerator) -> None:
        """Keep the starting offsets of the previous attempt: it failed before its first checkpoint."""
        if isinstance(before, KafkaEnumerator):
            self.starts, self.stops = dict(before.starts), dict(before.stops)

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Record which splits are being read."""
        self._open = [split.payload.partition for split in unfinished]

    def no_more_splits(self) -> bool:
        """Whether all partitions were found: for a bounded source, those that existed at first."""
        return self._begun and self._plan.bounded and not self._adopted

    def snapshot(self) -> StateValue:
        """Return the partitions found so far."""
        if not self._begun:
            return None
        known = tuple(sorted(self._known))
        return AdoptedPartitions(known) if self._adopted else known

    def has_data(self, positions: Sequence[Any]) -> bool:
        """Whether the brokers have unread records, as far as known."""
        if not self._begun or self._plan.bounded or len(positions) != len(self._open):
            return bool(positions)
        ends = self._watching().ends(self._open)
        return any(
            ends.get(each, position + 1) > position
            for each, position in zip(self._open, positions, strict=True)
        )

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return the number of unread records, as far as known."""
        partitions = [each.split.payload.partition for each in splits]
        ends: Offsets = {}
        if not self._plan.bounded and self._begun:
            ends = self._watching().ends(partitions)
        total = 0
        for progress in splits:
            payload = progress.split.payload
            end = ends.get(payload.partition)
            if payload.stop is not None:
                end = payload.stop if end is None else min(end, payload.stop)
            if end is None:
                return None
            total += max(0, end - progress.position)
        return total

    def on_checkpoint(self, splits: Sequence[SplitProgress]) -> None:
        """Commit the offsets to the consumer group, for monitoring."""
        if not self._plan.options.commits or (self._cluster is None and self._watch is None):
            return
        reached = {each.split.payload.partition: each.position for each in splits}
        new = {
            partition: offset
            for partition, offset in reached.items()
            if self._committed.get(partition) != offset
        }
        if new:
            self._committed |= new
            if self._watch is not None:
                self._watch.commit(new)  # a concurrent call would wait for the thread's
            else:
                self._connected().commit(new)

    def _connected(self) -> KafkaCluster:
        if self._cluster is None:
            self._cluster = self._connect(self._plan.options)
        return self._cluster

    def _watching(self) -> _Watch:
        if self._watch is None:
            self._watch = _Watch(self, self._connected(), self._plan.options, set(self._known))
            self._watch.start()
        return self._watch

    def close(self) -> None:
        """Disconnect."""
        if self._watch is not None:
            self._watch.stop()
        elif self._cluster is not None:
            self._cluster.close()
        self._watch = self._cluster = None


class _Watch:
    """The thread that asks the brokers: for partitions at the discovery interval, for end offsets while these are requested."""

    def __init__(
        self,
        enumerator: KafkaEnumerator,
        cluster: KafkaCluster,
        options: SourceOptions,
        known: set[KafkaTopicPartition],
    ) -> None:
        self._enumerator = enumerator
        #: Used by the thread alone: the client's calls wait for each other.
        self._cluster = cluster
        self._options = options
        #: Partitions that were found; only the thread changes it.
        self._known = known
        #: Splits that `take` has not returned yet; guarded by the lock.
        self._found: list[SourceSplit] = []
        #: The last end offsets; replaced as a whole, never changed.
        self._ends: Offsets = {}
        #: Offsets to commit, the last of each partition; guarded by the lock.
        self._uncommitted: Offsets = {}
        #: Partitions whose end offsets were asked for last.
        self._wanted: tuple[KafkaTopicPartition, ...] = ()
        #: When that was. End offsets are looked up only shortly after.
        self._wanted_at = float("-inf")
        #: Raised by the next `take`. What may pass is tried again first.
        self._failure: Exception | None = None
        #: When looking for partitions began to fail; None if the last look succeeded.
        self._failing_since: float | None = None
        #: Whether a log line has said that the brokers do not answer; reset when they do.
        self._away = False
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="penstock-kafka", daemon=True)
        interval = options.discovery_ms
        # A restored job looks for new partitions at once.
        self._interval_s = None if interval is None else interval / 1000
        #: When to look for partitions again; infinite without a discovery interval.
        self._next_look = time.monotonic() if interval is not None else float("inf")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take(self, known: set[KafkaTopicPartition]) -> list[SourceSplit]:
        """Return new splits, or raise the thread's error."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            found, self._found = self._found, []
        return [split for split in found if split.payload.partition not in known]

    def ends(self, partitions: Sequence[KafkaTopicPartition]) -> Offsets:
        """Return the end offsets of known partitions, and keep updating them for a while."""
        self._wanted, self._wanted_at = tuple(partitions), time.monotonic()
        return self._ends

    def commit(self, offsets: Offsets) -> None:
        """Commit these offsets of the group, soon."""
        with self._lock:
            self._uncommitted |= offsets

    def _commit(self) -> None:
        with self._lock:
            offsets, self._uncommitted = self._uncommitted, {}
        self._cluster.commit(offsets)

    def _run(self) -> None:
        # Not `retry`: this repeats as long as the job runs, and a failure only delays what it looks for.
        while not self._stopped.wait(ENDS_PERIOD_S):
            try:
                self._look()
                self._away = False
            except KafkaUnavailableError as error:
                self._say_away(error)
            except Exception as error:  # noqa: BLE001 - raised in the next call
                self._take_failure(error)
        self._commit()
        self._cluster.close()

    def _look(self) -> None:
        self._commit()
        self._cluster.serve()
        now = time.monotonic()
        if now >= self._next_look:
            found = self._enumerator.look_again(self._cluster, self._known)
            with self._lock:
                self._found += found
            self._known.update(split.payload.partition for split in found)
            self._next_look = now + (self._interval_s or 0.0)
            self._failing_since = None
        if now - self._wanted_at < _WANTED_S:
            self._ends = self._cluster.latest(self._wanted, _ENDS_S)

    def _say_away(self, error: KafkaUnavailableError) -> None:
        if not self._away:
            self._away = True
            _log.warning("%s (%s); retrying", error.message, error.detail)

    def _take_failure(self, error: Exception) -> None:
        """Fail the job, unless the cause may be a broker that has just started and has incomplete metadata."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            self._next_look = now + _GONE_S
        elif now - self._failing_since >= _GONE_S:
            with self._lock:
                self._failure = error

    def stop(self) -> None:
        """Stop; the connection is closed when it is not in use any more."""
        self._stopped.set()
        self._thread.join(3.0)

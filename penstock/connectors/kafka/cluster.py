"""The driver's client of a Kafka cluster: topics, offsets, and commits of group offsets."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, Final

from penstock.connectors.base.retrying import Backoff, retry
from penstock.connectors.kafka.client_log import client_log
from penstock.connectors.kafka.offsets import KafkaTopicPartition, Offsets
from penstock.connectors.kafka.properties import confluent_kafka
from penstock.connectors.kafka.source_errors import error_of, fatal_error, is_kind
from penstock.connectors.kafka.source_options import SourceOptions
from penstock.dependencies.extras import optional_module
from penstock.errors import PenstockError

_log = logging.getLogger("penstock.connectors.kafka")
_ANSWER_S: Final = 10.0
_LAST_COMMIT_S: Final = 30.0  # as Kafka's own consumer waits when it is closed


class KafkaUnavailableError(PenstockError, ConnectionError):
    """The brokers are temporarily unavailable."""


class KafkaCluster:
    """A connection of the driver. Not thread-safe, except for `commit`."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._library = confluent_kafka("KafkaSource")
        self._admin_module = optional_module(
            "confluent_kafka.admin", extra="kafka", needed_by="KafkaSource"
        )
        self._failure: PenstockError | None = None
        self._admin_client: Any = None
        self._open_commits = 0
        self._commit_failed = False
        self._brokers_away = False
        self._consumer = self._library.Consumer(
            {
                **options.consumer,
                "client.id": f"{options.client_id}-enumerator",
                "error_cb": self._on_error,
                "on_commit": self._on_commit,
            },
            logger=client_log,
        )

    @property
    def group_id(self) -> str | None:
        """The consumer group, if there is one."""
        return self.options.group_id

    def topics(self, timeout: float) -> dict[str, int]:
        """Return the topics and their numbers of partitions, with retries up to the timeout."""
        since, exceptions = time.monotonic(), self._library.KafkaException

        def ask() -> Any:
            try:
                return self._consumer.list_topics(timeout=min(1.0, timeout)).topics
            except exceptions as error:
                self.serve()
                self._check(error_of(error), "asking for topics")
                raise

        backoff = Backoff(50, 50, within_ms=timeout * 1000, jitter=0)
        try:
            found = retry(
                ask, backoff.pauses(since), when=lambda error: isinstance(error, exceptions)
            )
        except exceptions as error:
            raise self._away(error_of(error), timeout) from None
        return {name: len(topic.partitions) for name, topic in found.items() if not topic.error}

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the first offset of each partition."""
        return self._list(partitions, lambda spec: spec.earliest())

    def latest(
        self, partitions: Iterable[KafkaTopicPartition], timeout: float = _ANSWER_S
    ) -> Offsets:
        """Return the offset after the last record of each partition that can be read."""
        return self._list(partitions, lambda spec: spec.latest(), timeout)

    def at(self, partitions: Iterable[KafkaTopicPartition], timestamp: int) -> Offsets:
        """Return the first offset whose timestamp is not before this one, for partitions that have one."""
        found = self._list(partitions, lambda spec: spec.for_timestamp(timestamp))
        return {each: offset for each, offset in found.items() if offset >= 0}

    def committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the committed offsets of the group, for partitions that have one."""
        wanted = [self._library.TopicPartition(each.topic, each.partition) for each in partitions]
        try:
            found = self._consumer.committed(wanted, timeout=_ANSWER_S)
        except self._library.KafkaException as error:
            raise self._failed(
                error, f"asking for offsets of the group '{self.group_id}'"
            ) from None
        for each in found:
            if each.error is not None:
                self._check(each.error, f"asking for offsets of the group '{self.group_id}'")
        return {
            KafkaTopicPartition(each.topic, each.partition): each.offset
            for each in found
            if each.offset >= 0
        }

    def _list(
        self, partitions: Iterable[KafkaTopicPartition], spec: Any, timeout: float = _ANSWER_S
    ) -> Offsets:
        wanted = list(partitions)
        if not wanted:
            return {}
        library = self._library
        level = (
            library.IsolationLevel.READ_COMMITTED
            if self.options.committed_only
            else library.IsolationLevel.READ_UNCOMMITTED
        )
        what = spec(self._admin_module.OffsetSpec)
        asked = {library.TopicPartition(each.topic, each.partition): what for each in wanted}
        try:
            return self._answers(asked, level, timeout)
        except (library.KafkaException, TimeoutError) as error:
            # A client caches topic metadata for minutes: a new one knows new partitions.
            self._admin_client = None
            if not (hasattr(error_of(error), "code") and is_kind(error_of(error), "_NOENT")):
                raise self._failed(error, "asking for offsets") from None
        try:
            return self._answers(asked, level, timeout)
        except (library.KafkaException, TimeoutError) as error:
            raise self._failed(error, "asking for offsets") from None

    def _answers(self, asked: dict[Any, Any], level: object, timeout: float) -> Offsets:
        answers = self._admin().list_offsets(asked, isolation_level=level, request_timeout=timeout)
        return {
            KafkaTopicPartition(each.topic, each.partition): answer.result(timeout + 5).offset
            for each, answer in answers.items()
        }

    def _admin(self) -> Any:
        if self._admin_client is None:
            configuration = {**self.options.admin(), "error_cb": self._on_error}
            self._admin_client = self._admin_module.AdminClient(configuration, logger=client_log)
        return self._admin_client

    # Offsets of the group

    def commit(self, offsets: Offsets) -> None:
        """Commit these offsets of the group, asynchronously."""
        if not offsets:
            return
        wanted = [
            self._library.TopicPartition(each.topic, each.partition, offset)
            for each, offset in offsets.items()
        ]
        self._open_commits += 1
        self._consumer.commit(offsets=wanted, asynchronous=True)

    def _on_commit(self, error: Any, partitions: Any) -> None:
        self._open_commits -= 1
        problem = error or next((each.error for each in partitions if each.error), None)
        if problem is None:
            self._commit_failed = self._brokers_away = False
        elif not self._commit_failed:
            self._commit_failed = True
            _log.warning(
                "could not commit offsets of the group '%s': %s. The job continues: its own offsets are in its checkpoints",
                self.group_id,
                problem,
            )

    def serve(self) -> None:
        """Run the client's callbacks; raise errors that are permanent."""
        self._consumer.poll(0)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Disconnect after the last commit; do not wait for it if no broker can be reached."""
        until = time.monotonic() + _LAST_COMMIT_S
        while self._open_commits > 0 and not self._brokers_away and time.monotonic() < until:
            self._consumer.poll(0.05)
        if self._open_commits > 0:
            _log.warning(
                "the last offsets of the group '%s' may not be committed: %s. Others see older offsets; the job is not affected",
                self.group_id,
                "no broker can be reached"
                if self._brokers_away
                else f"no answer within {_LAST_COMMIT_S:g} s",
            )
        self._consumer.close()

    # Errors

    def _on_error(self, error: object) -> None:
        if is_kind(error, "_ALL_BROKERS_DOWN"):
            self._brokers_away = True
        found = fatal_error(error, self.options.servers, "the Kafka source")
        if found is not None and self._failure is None:
            self._failure = found

    def _check(self, error: Any, what: str) -> None:
        found = fatal_error(error, self.options.servers, what) if hasattr(error, "code") else None
        if found is not None:
            raise found

    def _failed(self, error: Exception, what: str) -> PenstockError:
        problem = error_of(error)
        self._check(problem, what)
        if hasattr(problem, "code") and is_kind(problem, "UNKNOWN_TOPIC_OR_PART"):
            return PenstockError(
                "a partition does not exist",
                detail=f"{what} at {self.options.servers}: {problem}",
                hint="check whether the topic was deleted",
            )
        return KafkaUnavailableError(
            f"the brokers did not answer: {problem}", detail=f"{what} at {self.options.servers}"
        )

    def _away(self, error: Any, timeout: float) -> KafkaUnavailableError:
        return KafkaUnavailableError(
            f"no Kafka broker answers at {self.options.servers}",
            detail=f"waited for {timeout:g} s: {error.str()}",
            hint="check bootstrap.servers, and that the brokers are up and reachable from the driver; "
            "the property bootstrap.timeout.ms sets how long to wait",
        )

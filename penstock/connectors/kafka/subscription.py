"""The subscription of a Kafka source: topics by name or by pattern, or single partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription; one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: frozenset[KafkaTopicPartition] = frozenset()

    @property
    def named_topics(self) -> set[str]:
        """The topics that must exist."""
        return set(self.topics) | {each.topic for each in self.partitions}

    def select(self, cluster: Mapping[str, int], servers: str) -> set[KafkaTopicPartition]:
        """Return the partitions to read, of a cluster with these topics and their numbers of partitions.

        >>> sorted(map(str, Subscription(pattern="a.*").select({"ab": 2, "b": 1, "cab": 1}, "")))
        ['ab-0', 'ab-1']
        """
        missing = self.named_topics - set(cluster)
        if missing:
            raise missing_topic(min(missing), servers)
        if self.partitions:
            for each in sorted(self.partitions):
                if each.partition >= cluster[each.topic]:
                    raise PenstockError(
                        f"the topic '{each.topic}' has no partition {each.partition}",
                        detail=f"it has {cluster[each.topic]} partitions, at {servers}",
                        hint="check the partitions of the Kafka source",
                    )
            return set(self.partitions)
        if self.pattern is not None:
            # As in Java, a pattern matches the whole name, and internal topics are skipped.
            wanted = re.compile(self.pattern)
            topics = [name for name in cluster if wanted.fullmatch(name) and name[:2] != "__"]
        else:
            topics = list(self.topics)
        return {
            KafkaTopicPartition(topic, number)
            for topic in topics
            for number in range(cluster[topic])
        }

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics that match {self.pattern}"
        return ", ".join(self.topics or map(str, sorted(self.partitions)))


def missing_topic(topic: str, servers: str) -> PenstockError:
    """Create the error of a missing topic."""
    return PenstockError(
        f"the topic '{topic}' does not exist, or may not be described",
        detail=f"brokers: {servers}",
        hint="check its name and bootstrap.servers, create it, or grant DESCRIBE on it; a source never creates topics",
    )

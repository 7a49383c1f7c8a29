"""The enumerator of a Kafka source, over a cluster that is a dictionary."""

from __future__ import annotations

import pytest

from penstock.connectors.base.source import SplitProgress
from penstock.connectors.kafka.cluster import KafkaUnavailableError
from penstock.connectors.kafka.enumerator import (
    AdoptedPartitions,
    KafkaEnumerator,
    KafkaSourcePlan,
)
from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.source_options import source_options
from penstock.connectors.kafka.subscription import Subscription
from penstock.errors import PenstockError
from tests.builders.waiting import wait_until

LATEST, EARLIEST = KafkaOffsetsInitializer.latest(), KafkaOffsetsInitializer.earliest()


class Cluster:
    """Topics with the ends of their partitions; all begin at 10."""

    group_id = "g"

    def __init__(self, **topics):
        self.ends = topics
        self.away = False
        self.refusals = 0
        self.commits = []
        self.closed = 0

    def __call__(self, options):
        return self

    def topics(self, timeout):
        self._answer()
        return {topic: len(ends) for topic, ends in self.ends.items()}

    def earliest(self, partitions):
        self._answer()
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions, timeout=0.0):
        self._answer()
        return {each: self.ends[each.topic][each.partition] for each in partitions}

    def commit(self, offsets):
        if offsets:
            self.commits.append({str(each): offset for each, offset in offsets.items()})

    def serve(self):
        pass

    def close(self):
        self.closed += 1

    def _answer(self):
        if self.away:
            self.refusals += 1
            raise KafkaUnavailableError("no broker answers")


def enumerator(cluster, restored=None, start=EARLIEST, stop=None, **properties):
    settings = {
        "bootstrap.servers": "a:1",
        "group.id": "g",
        "partition.discovery.interval.ms": "1",
        **properties,
    }
    plan = KafkaSourcePlan(
        Subscription(topics=("a",)), start, stop, stop is not None, source_options(settings)
    )
    return KafkaEnumerator(plan, restored, cluster)


@pytest.fixture
def cluster():
    return Cluster(a=[20, 30])


def found(enumerator):
    return {split.split_id: (split.start, split.payload.stop) for split in enumerator.discover()}


def test_partitions_are_found_once_with_where_they_begin_and_end(cluster):
    bounded = enumerator(cluster, stop=LATEST)
    assert not bounded.no_more_splits()
    assert bounded.snapshot() is None
    assert found(bounded) == {"a-0": (10, 20), "a-1": (10, 30)}
    assert bounded.no_more_splits()
    assert found(bounded) == {}
    restored = enumerator(cluster, bounded.snapshot(), stop=LATEST)
    assert found(restored) == {}
    assert restored.no_more_splits()


def test_a_source_that_ends_looks_once_for_partitions_which_another_job_did_not_know(cluster):
    before = enumerator(cluster)
    found(before)
    cluster.ends["a"] = [25, 35, 40]
    adopted = AdoptedPartitions(before.snapshot())
    bounded = enumerator(cluster, adopted, start=LATEST, stop=LATEST)
    assert not bounded.no_more_splits()
    assert bounded.snapshot() == adopted  # a restart before the look takes it, too
    assert found(bounded) == {"a-2": (10, 40)}
    assert bounded.no_more_splits()
    cluster.ends["a"].append(50)
    assert found(bounded) == {}
    assert found(enumerator(cluster, bounded.snapshot(), stop=LATEST)) == {}
    before.close()


def test_partitions_that_come_later_begin_with_their_first_message(cluster):
    running = enumerator(cluster, start=LATEST)
    assert found(running) == {"a-0": (20, None), "a-1": (30, None)}
    cluster.ends["a"].append(40)
    assert wait_until(lambda: found(running)) == {"a-2": (10, None)}
    assert not running.no_more_splits()
    again = enumerator(cluster, running.snapshot(), start=LATEST)
    cluster.ends["a"].append(50)
    assert wait_until(lambda: found(again)) == {"a-3": (10, None)}
    running.close()
    again.close()
    wait_until(lambda: cluster.closed == 2)


def test_a_job_that_begins_again_begins_where_it_began(cluster):
    before = enumerator(cluster, start=LATEST)
    found(before)
    cluster.ends["a"] = [25, 35]
    again = enumerator(cluster, start=LATEST)
    again.take_over(before)
    assert found(again) == {"a-0": (20, None), "a-1": (30, None)}
    assert found(enumerator(cluster, start=LATEST)) == {"a-0": (25, None), "a-1": (35, None)}


def test_brokers_down_later_are_retried_but_a_deleted_topic_is_an_error(cluster):
    running = enumerator(cluster)
    found(running)
    cluster.away = True
    wait_until(lambda: found(running) == {} and cluster.refusals >= 2)
    assert found(running) == {}
    cluster.away = False
    del cluster.ends["a"]
    with pytest.raises(PenstockError, match="the topic 'a' does not exist"):
        wait_until(lambda: found(running))
    running.close()


def test_brokers_that_are_away_at_the_start_are_an_error(cluster):
    cluster.away = True
    with pytest.raises(KafkaUnavailableError):
        found(enumerator(cluster))


def test_backlog_is_the_distance_to_the_end_offsets(cluster):
    running = enumerator(cluster)
    splits = list(running.discover())
    running.observe(splits)
    waiting = [
        SplitProgress(split, position) for split, position in zip(splits, [15, 30], strict=True)
    ]
    wait_until(lambda: running.backlog(waiting) == 5)
    assert running.has_data([15, 30])
    assert not running.has_data([20, 30])
    running.close()
    bounded = enumerator(cluster, stop=LATEST)
    ends = [SplitProgress(split, 12) for split in bounded.discover()]
    assert bounded.backlog(ends) == 8 + 18


def test_only_new_offsets_are_committed_to_the_group(cluster):
    bounded = enumerator(cluster, stop=LATEST)
    splits = list(bounded.discover())
    for positions in ([12, 10], [12, 15], [12, 15]):
        bounded.on_checkpoint(
            [
                SplitProgress(split, position)
                for split, position in zip(splits, positions, strict=True)
            ]
        )
    assert cluster.commits == [{"a-0": 12, "a-1": 10}, {"a-1": 15}]
    silent = enumerator(cluster, stop=LATEST, **{"commit.offsets.on.checkpoint": "false"})
    silent.on_checkpoint([SplitProgress(split, 20) for split in silent.discover()])
    assert len(cluster.commits) == 2


def test_the_last_offsets_are_committed_before_a_running_one_ends(cluster):
    running = enumerator(cluster)
    splits = list(running.discover())
    found(running)
    running.on_checkpoint([SplitProgress(split, 19) for split in splits])
    running.close()
    assert cluster.commits == [{"a-0": 19, "a-1": 19}]


def test_a_bounded_job_that_begins_again_ends_where_it_would_have_ended(cluster):
    before = enumerator(cluster, stop=LATEST)
    found(before)
    cluster.ends["a"] = [25, 35]
    again = enumerator(cluster, stop=LATEST)
    again.take_over(before)
    assert found(again) == {"a-0": (10, 20), "a-1": (10, 30)}

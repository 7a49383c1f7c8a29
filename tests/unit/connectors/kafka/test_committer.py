"""The committer of a Kafka sink, over coordinators that are a dictionary: what is committed, aborted, fenced and left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.connectors.base.sink import CommitRequest, CommitterContext
from penstock.connectors.kafka import committer as committer_module
from penstock.connectors.kafka.committable import operator_prefix
from penstock.connectors.kafka.committer import KafkaCommitter
from penstock.connectors.kafka.errors import KafkaDataLossError
from penstock.connectors.kafka.transactions import FENCED_TIMEOUT_MS
from tests.unit.connectors.kafka.coordinators import (
    ABORTED,
    ABORTING,
    EMPTY,
    ONGOING,
    PREFIX,
    Coordinators,
)


@pytest.fixture
def coordinators() -> Coordinators:
    return Coordinators()


class Time:
    """The seconds of the committer, moved by hand; a pause moves them too."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(committer_module, "time", found)
    return found


def committer(coordinators, *, writers_rest=False, ignores_losses=False):
    made = KafkaCommitter(coordinators, "orders", 60_000, ignores_losses=ignores_losses)
    made.open(CommitterContext("job", "sink", 1000, writers_rest))
    return made


def request(checkpoint_id, *committables):
    return CommitRequest(checkpoint_id, list(committables))


def test_a_commit_ends_the_transactions_of_its_checkpoint_and_no_others(coordinators):
    wanted, later = coordinators.begin(0), coordinators.begin(1)
    committer(coordinators).commit(request(1, wanted))
    assert coordinators.committed == [wanted.transactional_id]
    assert coordinators.state(later) is ONGOING


def test_a_commit_that_is_repeated_commits_nothing_again(coordinators):
    wanted = coordinators.begin()
    for _ in range(2):
        committer(coordinators).commit(request(1, wanted))
    assert coordinators.committed == [wanted.transactional_id]


def test_a_repeated_commit_leaves_the_next_transaction_of_the_producer_open(coordinators):
    first = coordinators.begin()
    committer(coordinators).commit(request(1, first))
    second = coordinators.begin()  # under the same id, producer and epoch
    committer(coordinators).commit(request(1, first))
    assert coordinators.state(second) is ONGOING


def abort(coordinators, committable):
    """Abort a transaction as its timeout would."""
    name = committable.transactional_id
    found = coordinators.known[name]
    coordinators.known[name] = replace(found, state=ABORTED, producer_epoch=1)


def test_a_lost_transaction_is_an_error_after_the_others_were_committed(coordinators):
    lost, also_lost, kept = (coordinators.begin(subtask) for subtask in range(3))
    abort(coordinators, lost)
    abort(coordinators, also_lost)
    with pytest.raises(KafkaDataLossError, match="checkpoint 4") as caught:
        committer(coordinators).commit(request(4, lost, also_lost, kept))
    assert lost.transactional_id in caught.value.detail
    assert also_lost.transactional_id in caught.value.detail
    assert kept.transactional_id not in caught.value.detail
    assert coordinators.committed == [kept.transactional_id]


def test_a_lost_transaction_is_logged_when_losses_are_ignored(coordinators, caplog):
    lost = coordinators.begin()
    abort(coordinators, lost)
    committer(coordinators, ignores_losses=True).commit(request(4, lost))
    assert lost.transactional_id in caplog.text


def strays_after_commits(coordinators, seconds, commits, *, writers_rest=True, pause_s=60.0):
    """Commit some checkpoints, with a stray transaction beside them; return its state after each."""
    stray = coordinators.begin(subtask=3, number=9)
    made = committer(coordinators, writers_rest=writers_rest)
    states = []
    for checkpoint_id in range(1, commits + 1):
        seconds.now += pause_s
        made.commit(request(checkpoint_id, coordinators.begin(number=checkpoint_id)))
        states.append(coordinators.known[stray.transactional_id].state)
    return states


def test_strays_are_aborted_with_the_second_commit_not_with_the_first(coordinators, seconds):
    # The first one may be a commit of an earlier driver, which still has writers at work.
    assert strays_after_commits(coordinators, seconds, 2) == [ONGOING, EMPTY]


def test_strays_are_not_aborted_while_writers_are_at_work(coordinators, seconds):
    states = strays_after_commits(coordinators, seconds, 5, writers_rest=False)
    assert states == [ONGOING] * 5
    assert coordinators.lists == 0


def test_strays_are_looked_for_every_ten_seconds(coordinators, seconds):
    strays_after_commits(coordinators, seconds, 41, pause_s=1.0)
    assert coordinators.lists == 4  # after 10, 20, 30 and 40 seconds


def test_idle_producers_are_not_fenced_with_the_strays(coordinators, seconds):
    name = coordinators.idle(number=99)
    strays_after_commits(coordinators, seconds, 3)
    assert name not in coordinators.initialized


def test_a_commit_that_finds_strays_leaves_transactions_of_other_sinks_alone(coordinators, seconds):
    other = coordinators.begin(prefix=operator_prefix("orders", "job", "another sink"))
    assert strays_after_commits(coordinators, seconds, 2)[-1] is EMPTY
    assert coordinators.state(other) is ONGOING


def test_clean_up_aborts_transactions_of_no_checkpoint(coordinators):
    kept, stray = coordinators.begin(0), coordinators.begin(1)
    committer(coordinators).clean_up([request(1, kept)], "job")
    assert coordinators.state(kept) is ONGOING
    fenced = coordinators.known[stray.transactional_id]
    assert (fenced.state, fenced.producer_epoch) == (EMPTY, stray.producer_epoch + 1)
    assert fenced.timeout_ms == FENCED_TIMEOUT_MS


def test_clean_up_keeps_the_proof_of_a_loss(coordinators):
    lost = coordinators.begin()
    abort(coordinators, lost)
    made = committer(coordinators)
    made.clean_up([request(1, lost)], "job")
    with pytest.raises(KafkaDataLossError):
        made.commit(request(1, lost))


def test_clean_up_leaves_transactions_of_other_sinks_alone(coordinators):
    other = coordinators.begin(prefix=operator_prefix("orders", "job", "another sink"))
    committer(coordinators).clean_up([], "job")
    assert coordinators.state(other) is ONGOING


def test_clean_up_lets_the_brokers_check_the_timeout_once(coordinators):
    made = committer(coordinators)
    for _ in range(3):
        made.clean_up([], "job")
    assert coordinators.initialized == [f"{PREFIX}probe"]
    assert coordinators.known[f"{PREFIX}probe"].timeout_ms == 60_000


def test_ids_that_were_fenced_are_not_fenced_again(coordinators):
    stray = coordinators.begin()
    made = committer(coordinators)
    for _ in range(3):
        made.clean_up([], "job")
    assert coordinators.initialized.count(stray.transactional_id) == 1


def test_clean_up_waits_until_transactions_are_aborted(coordinators, seconds):
    stray = coordinators.begin()
    coordinators.looks_per_abort = 5
    committer(coordinators).clean_up([], "job")
    assert coordinators.state(stray) is ABORTED


def test_clean_up_does_not_wait_forever_for_an_abort(coordinators, seconds):
    stray = coordinators.begin()
    coordinators.looks_per_abort = 10**9
    committer(coordinators).clean_up([], "job")
    assert coordinators.state(stray) is ABORTING


def test_only_the_subtasks_that_failed_are_abandoned(coordinators):
    failed, healthy, similar = (coordinators.begin(subtask) for subtask in (1, 2, 11))
    committer(coordinators).abandon({1}, "job")
    assert coordinators.state(failed) is EMPTY
    assert coordinators.state(healthy) is coordinators.state(similar) is ONGOING


def test_a_closed_committer_disconnects(coordinators):
    committer(coordinators).close()
    assert coordinators.closed

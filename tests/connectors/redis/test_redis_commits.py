"""Commits of commands that are repeated, cut off, or refused."""

from __future__ import annotations

import pickle
import threading

import pytest

from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.connectors.base.staged_sinks import StagedOutput
from penstock.connectors.redis import committer as committers
from penstock.connectors.redis.committer import StagedCommands
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.redis import RedisSink
from penstock.errors import ConnectionFailedError, RecordError

INCREMENT = ("INCRBY", "n", 1)


def sink(url, **options):
    return RedisSink(
        url, lambda n: INCREMENT, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, **options
    )


def request(*commands, attempt="a", subtask=0, checkpoint_id=1):
    output = StagedOutput("job", checkpoint_id, subtask, pickle.dumps(list(commands)))
    return CommitRequest(checkpoint_id, [StagedCommands("op", attempt, output)])


def test_a_commit_that_comes_again_changes_nothing(url, client):
    for _ in range(3):
        sink(url).create_committer().commit(request(INCREMENT, INCREMENT))
    assert client.get("n") == "2"


def test_without_the_note_it_would_be_done_again(url, client):
    """The note is what makes the difference."""
    sink(url).create_committer().commit(request(INCREMENT))
    client.delete(*client.keys("penstock:commits:*"))
    sink(url).create_committer().commit(request(INCREMENT))
    assert client.get("n") == "2"


@pytest.mark.parametrize("other", [{"attempt": "b"}, {"subtask": 1}], ids=["attempt", "subtask"])
def test_another_attempt_or_subtask_is_another_commit(url, client, other):
    committer = sink(url).create_committer()
    committer.commit(request(INCREMENT))
    committer.commit(request(INCREMENT, **other))
    assert client.get("n") == "2"


def test_repeated_checkpoint_id_with_other_records_is_committed(url, client):
    """As after going back to an older savepoint of the job."""
    committer = sink(url).create_committer()
    committer.commit(request(INCREMENT, checkpoint_id=7, attempt="first-7"))
    committer.commit(request(("INCRBY", "n", 10), checkpoint_id=7, attempt="second-7"))
    assert client.get("n") == "11"


@pytest.mark.ci
def test_two_committers_at_once_do_it_once(url, client):
    threads = [
        threading.Thread(target=lambda: sink(url).create_committer().commit(request(INCREMENT)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("n") == "1"


@pytest.mark.ci
def test_a_commit_that_was_cut_off_between_two_chunks_is_done_to_its_end(url, client, monkeypatch):
    monkeypatch.setattr(committers, "_CHUNK", 10)
    whole = [("RPUSH", "all", n) for n in range(35)]
    committer = sink(url).create_committer()
    real, calls = committer._calls.call, []

    def cut_off(function):
        if len(calls) == 2:
            raise ConnectionFailedError("the power went out")
        calls.append(1)
        return real(function)

    monkeypatch.setattr(committer._calls, "call", cut_off)
    with pytest.raises(ConnectionFailedError):
        committer.commit(request(*whole))
    assert client.llen("all") == 20
    sink(url).create_committer().commit(request(*whole))
    assert client.lrange("all", 0, -1) == [str(n) for n in range(35)]


def test_rejected_commands_are_reported_again_and_others_run_once(url, client):
    client.set("text", "abc")
    commands = [INCREMENT, ("INCRBY", "text", 1), INCREMENT]
    for _ in range(2):
        with pytest.raises(RecordError, match="rejected a command") as caught:
            sink(url).create_committer().commit(request(*commands))
        assert "INCRBY text 1" in caught.value.detail
    assert client.get("n") == "2"
    found = []
    sink(url, on_rejected=found.append).create_committer().commit(request(*commands))
    assert [each.record for each in found] == [("INCRBY", "text", 1)]
    assert client.get("n") == "2"


def test_binary_keys_and_values_are_done_as_they_are(url, client):
    import redis

    blob = bytes(range(256))
    sink(url).create_committer().commit(request(("SET", b"\x00\xff", blob), ("SET", "é", 1.5)))
    with redis.Redis.from_url(url) as raw:
        assert raw.get(b"\x00\xff") == blob
        assert raw.get("é") == b"1.5"


def test_committed_commands_are_those_of_the_writer(url, client, tmp_path):
    target = RedisSink(
        url,
        lambda n: ("RPUSH", "all", n),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    )
    writer = target.create_writer(WriterContext("job", "op", 0, 1, str(tmp_path)))
    writer.begin(CheckpointContext(1, "one"))
    writer.write(list(range(50_000)), None, 0)
    committables = writer.prepare_commit()
    assert client.llen("all") == 0
    assert len(list(tmp_path.iterdir())) == 1
    target.create_committer().commit(CommitRequest(1, committables))
    target.create_committer().commit(CommitRequest(1, committables))
    assert client.llen("all") == 50_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("guarantee", "before", "after"),
    [(DeliveryGuarantee.AT_LEAST_ONCE, 1, 1), (DeliveryGuarantee.NONE, 0, 1)],
    ids=lambda each: getattr(each, "name", None),
)
def test_a_checkpoint_waits_for_all_commands_unless_nothing_is_guaranteed(
    url, client, guarantee, before, after
):
    target = RedisSink(url, lambda n: ("RPUSH", "all", n), delivery_guarantee=guarantee)
    writer = target.create_writer(WriterContext("job", "op", 0, 1, ""))
    writer.begin(CheckpointContext(1, "one"))
    writer.write([1], None, 0)
    assert client.llen("all") == 0
    writer.prepare_commit()
    assert client.llen("all") == before
    writer.close()
    assert client.llen("all") == after

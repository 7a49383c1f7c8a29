"""Writers and committer of a JDBC sink that writes exactly once, over a database that is a dictionary."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from penstock.common import Types
from penstock.connectors.base import retrying
from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.connectors.jdbc import committer as committer_module
from penstock.connectors.jdbc.committer import JdbcCommitter
from penstock.connectors.jdbc.failures import DatabaseError
from penstock.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from penstock.connectors.jdbc.parameters import Parameters
from penstock.connectors.jdbc.transactions import PreparedTransaction, StagedRows
from penstock.connectors.jdbc.writers import BatchWriter, TwoPhaseWriter
from penstock.errors import PenstockError
from tests.unit.connectors.jdbc.database import Database

UPSERT = "INSERT INTO t (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
OPTIONS = JdbcConnectionOptions("jdbc:postgresql://db/x")
PAIR = Types.ROW([Types.LONG(), Types.STRING()])
AWAY = psycopg.OperationalError("the server is away")


class Sink:
    """A sink, step by step: what tasks and the driver would do."""

    def __init__(self, directory, monkeypatch):
        self.database = Database()
        self.directory = directory
        self.pauses: list[float] = []
        clock = SimpleNamespace(monotonic=lambda: sum(self.pauses), sleep=self.pauses.append)
        monkeypatch.setattr(committer_module, "time", clock)
        monkeypatch.setattr(retrying, "time", clock)
        monkeypatch.setattr(committer_module, "open_session", self.database.session)

    def committer(self, **options):
        return JdbcCommitter(OPTIONS, UPSERT, JdbcExactlyOnceOptions(**options), "t")

    def writer(self, subtask=0, batch=3, job="job"):
        return TwoPhaseWriter(
            self.database.session(OPTIONS, UPSERT),
            Parameters(2, PAIR, None),
            JdbcExecutionOptions.builder().with_batch_size(batch).build(),
            JdbcExactlyOnceOptions(),
            WriterContext(job, "operator", subtask, 2, str(self.directory)),
            "t",
        )

    def batch_writer(self, batch):
        return BatchWriter(
            self.database.session(OPTIONS, UPSERT),
            Parameters(2, PAIR, None),
            JdbcExecutionOptions.builder().with_batch_size(batch).with_max_retries(3).build(),
            WriterContext("job", "operator", 0, 1, str(self.directory)),
        )

    @property
    def rows(self):
        return self.database.rows

    @property
    def in_doubt(self):
        return sorted(self.database.prepared)


@pytest.fixture
def sink(tmp_path, monkeypatch):
    return Sink(tmp_path, monkeypatch)


def checkpoint_id(writer, number, rows, attempt="a"):
    writer.begin(CheckpointContext(number, f"{attempt}{number}"))
    writer.write(rows, None, 0)
    return writer.prepare_commit()


def request(number, *committables):
    return CommitRequest(number, [each for part in committables for each in part])


def kinds(committables):
    return [type(each) for each in committables]


# One checkpoint


def test_rows_are_visible_after_the_commit_and_not_before(sink):
    prepared = checkpoint_id(sink.writer(), 1, [(1, "a"), (2, "b")])
    assert kinds(prepared) == [PreparedTransaction]
    assert sink.rows == {}
    sink.committer().commit(request(1, prepared))
    assert sink.rows == {1: "a", 2: "b"}
    assert sink.in_doubt == []


def test_a_commit_that_is_repeated_writes_nothing_again(sink):
    prepared = checkpoint_id(sink.writer(), 1, [(1, "a")])
    sink.committer().commit(request(1, prepared))
    sink.rows[1] = "changed since"
    sink.committer().commit(request(1, prepared))
    assert sink.rows == {1: "changed since"}


def test_missing_transaction_is_an_error(sink):
    (prepared,) = checkpoint_id(sink.writer(), 1, [(1, "a")])
    del sink.database.prepared[prepared.name]
    with pytest.raises(DatabaseError, match="no longer exists"):
        sink.committer().commit(request(1, [prepared]))


def test_missing_transaction_older_than_the_ledger_counts_as_committed(sink):
    (prepared,) = checkpoint_id(sink.writer(), 1, [(1, "a")])
    del sink.database.prepared[prepared.name]
    old = PreparedTransaction(prepared.name, prepared.prepared_ms - 31 * 24 * 3600 * 1000)
    sink.committer(ledger_retention_days=30).commit(request(1, [old]))


def test_two_attempts_at_an_epoch_are_two_transactions_and_one_is_committed(sink):
    checkpoint_id(sink.writer(), 1, [(1, "given up")], attempt="x")
    kept = checkpoint_id(sink.writer(), 1, [(1, "kept")], attempt="y") or []
    assert kinds(kept) == [StagedRows]  # the first attempt holds the row
    other = checkpoint_id(sink.writer(1), 1, [(2, "kept")])
    sink.committer().commit(request(1, kept, other))
    assert sink.rows == {1: "kept", 2: "kept"}
    assert sink.in_doubt == []


def test_attempts_without_shared_rows_have_different_names(sink):
    checkpoint_id(sink.writer(), 1, [(1, "given up")], attempt="x")
    kept = checkpoint_id(sink.writer(), 1, [(2, "kept")], attempt="y")
    sink.committer().commit(request(1, kept))
    assert sink.rows == {2: "kept"}
    assert sink.in_doubt == []


def test_commit_keeps_transactions_of_later_checkpoints(sink):
    writers = [sink.writer(subtask) for subtask in (0, 1)]
    one = checkpoint_id(writers[0], 1, [(1, "a")])
    two = checkpoint_id(writers[1], 2, [(2, "b")])
    sink.committer().commit(request(1, one))
    assert sink.in_doubt == [each.name for each in two]
    sink.committer().commit(request(2, two))
    assert sink.rows == {1: "a", 2: "b"}


# Several checkpoints under way


def test_rows_that_an_earlier_checkpoint_holds_are_written_after_it(sink):
    writer = sink.writer()
    one = checkpoint_id(writer, 1, [(1, "first")])
    two = checkpoint_id(writer, 2, [(1, "second")])
    assert [kinds(each) for each in (one, two)] == [[PreparedTransaction], [StagedRows]]
    sink.committer().commit(request(2, two, one))  # in whichever order
    assert sink.rows == {1: "second"}


def test_held_rows_are_written_once_though_the_commit_is_repeated(sink):
    writer = sink.writer()
    one = checkpoint_id(writer, 1, [(1, "first")])
    two = checkpoint_id(writer, 2, [(1, "second")])
    sink.committer().commit(request(2, one, two))
    sink.rows[1] = "changed since"
    sink.committer().commit(request(2, one, two))
    assert sink.rows == {1: "changed since"}


def test_a_later_checkpoint_does_not_overtake_rows_that_wait(sink):
    writer = sink.writer()
    one = checkpoint_id(writer, 1, [(1, "first")])
    two = checkpoint_id(writer, 2, [(1, "second"), (9, "second")])
    three = checkpoint_id(writer, 3, [(9, "third")])  # row 9 is not locked
    assert kinds(three) == [StagedRows]
    sink.committer().commit(request(3, one, two, three))
    assert sink.rows == {1: "second", 9: "third"}


def test_rows_of_one_epoch_do_not_overtake_those_before_them_that_are_held(sink):
    other, writer = sink.writer(1), sink.writer(0)
    other.begin(CheckpointContext(1, "a1"))
    other.write([(1, "other")] * 3, None, 0)  # a batch: the transaction is open
    writer.begin(CheckpointContext(1, "a1"))
    writer.write([(1, "first"), (2, "x"), (3, "x")], None, 0)  # meets row 1
    theirs = other.prepare_commit()
    sink.committer().commit(request(1, theirs))
    writer.write([(1, "last")] * 3, None, 0)  # row 1 is no longer locked
    ours = writer.prepare_commit()
    assert kinds(ours) == [StagedRows]
    sink.committer().commit(request(1, ours))
    assert sink.rows == {1: "last", 2: "x", 3: "x"}


def test_the_epoch_after_one_that_met_held_rows_is_a_transaction_again(sink):
    other, writer = sink.writer(1), sink.writer(0)
    theirs = checkpoint_id(other, 1, [(1, "other")])
    ours = checkpoint_id(writer, 1, [(1, "ours")])
    assert kinds(ours) == [StagedRows]
    sink.committer().commit(request(1, theirs, ours))
    writer.on_committed(1)
    assert kinds(checkpoint_id(writer, 2, [(1, "next")])) == [PreparedTransaction]


def test_records_wait_while_the_checkpoint_before_is_under_way(sink):
    writer = sink.writer(batch=1)
    one = checkpoint_id(writer, 1, [(1, "first")])
    writer.begin(CheckpointContext(2, "a2"))
    writer.write([(1, "second")], None, 0)
    writer.write([(2, "second")], None, 0)
    sink.committer().commit(request(1, one))
    writer.on_committed(1)
    two = writer.prepare_commit()
    assert kinds(two) == [PreparedTransaction]
    sink.committer().commit(request(2, two))
    assert sink.rows == {1: "second", 2: "second"}


def test_a_commit_of_one_checkpoint_leaves_the_next_one_under_way(sink):
    writer = sink.writer(batch=1)
    one = checkpoint_id(writer, 1, [(1, "first")])
    two = checkpoint_id(writer, 2, [(2, "second")])
    sink.committer().commit(request(1, one))
    writer.on_committed(1)
    writer.begin(CheckpointContext(3, "a3"))
    writer.write([(2, "third")], None, 0)  # waits: checkpoint 2 holds row 2
    sink.committer().commit(request(2, two))
    writer.on_committed(2)
    three = writer.prepare_commit()
    assert kinds(three) == [PreparedTransaction]
    sink.committer().commit(request(3, three))
    assert sink.rows == {1: "first", 2: "third"}


def test_rows_that_a_later_checkpoint_holds_are_given_back_and_the_job_repeats_it(sink):
    first, second = sink.writer(0), sink.writer(1)
    blocker = checkpoint_id(second, 1, [(1, "blocks")])
    held = checkpoint_id(first, 1, [(1, "held")])
    sink.committer().commit(request(1, blocker))
    second.on_committed(1)
    later = checkpoint_id(second, 2, [(1, "later")])
    kept = checkpoint_id(second, 1, [(7, "of this checkpoint")], attempt="other")
    with pytest.raises(DatabaseError, match="locked by other transactions"):
        sink.committer().commit(CommitRequest(1, [*held, *kept]))
    assert later[0].name not in sink.in_doubt
    sink.committer().commit(CommitRequest(1, [*held, *kept]))
    assert sink.rows == {1: "held", 7: "of this checkpoint"}


def test_rows_that_an_abandoned_attempt_holds_are_taken_from_it(sink):
    zombie, writer = sink.writer(0), sink.writer(0)
    zombie.begin(CheckpointContext(1, "x1"))
    zombie.write([(1, "zombie")] * 3, None, 0)
    held = checkpoint_id(writer, 1, [(1, "ours")])
    assert kinds(held) == [StagedRows]
    sink.committer().commit(request(1, held))
    assert sink.rows == {1: "ours"}


def test_many_held_rows_go_through_a_file_that_is_deleted_after_the_commit(sink):
    blocker = checkpoint_id(sink.writer(1), 1, [(1, "blocks")])
    held = checkpoint_id(sink.writer(0, batch=5000), 1, [(n, f"{n:0100}") for n in range(2000)])
    path = Path(held[0].output.path)
    assert path.exists()
    sink.database.failures = [AWAY]
    sink.committer().commit(request(1, blocker, held))
    assert len(sink.rows) == 2000
    assert not path.exists()


# After a failure


def test_clean_up_rolls_back_transactions_of_no_checkpoint(sink):
    kept = checkpoint_id(sink.writer(0), 1, [(1, "kept")])
    checkpoint_id(sink.writer(1), 2, [(2, "stray")])
    committer = sink.committer()
    committer.clean_up([request(1, kept)], "job")
    assert sink.in_doubt == [each.name for each in kept]
    committer.commit(request(1, kept))
    assert sink.rows == {1: "kept"}


def test_clean_up_leaves_transactions_of_other_jobs_alone(sink):
    other = checkpoint_id(sink.writer(job="other"), 1, [(1, "a")])
    sink.committer().clean_up([], "job")
    assert sink.in_doubt == [each.name for each in other]


def test_clean_up_cuts_off_attempts_that_live_on(sink):
    zombie = sink.writer()
    zombie.begin(CheckpointContext(1, "x1"))
    zombie.write([(1, "zombie")] * 3, None, 0)
    sink.committer().clean_up([], "job")
    with pytest.raises(PenstockError):
        zombie.prepare_commit()
    assert sink.in_doubt == []


def test_clean_up_forgets_old_commits_of_its_own_job_only(sink):
    for job in ("job", "other"):
        committer = sink.committer()
        committer.commit(request(1, checkpoint_id(sink.writer(job=job), 1, [(job, "a")])))
    sink.database.ledger = dict.fromkeys(sink.database.ledger, 31)
    sink.committer(ledger_retention_days=30).clean_up([], "job")
    assert [name.split(":")[1] for name in sink.database.ledger] == ["other"]


def test_only_the_subtasks_that_failed_are_abandoned(sink):
    writers = {subtask: sink.writer(subtask) for subtask in (1, 11)}
    prepared = {n: checkpoint_id(each, 1, [(n, "prepared")]) for n, each in writers.items()}
    for number, writer in writers.items():
        writer.on_committed(1)
        writer.begin(CheckpointContext(2, "a2"))
        writer.write([(number + 100, "open")] * 3, None, 0)
    sink.committer().abandon([1], "job")
    assert sink.in_doubt == [each.name for each in prepared[11]]
    with pytest.raises(PenstockError):
        writers[1].prepare_commit()
    sink.committer().commit(request(2, prepared[11], writers[11].prepare_commit()))
    assert sink.rows == {11: "prepared", 111: "open"}


def test_a_server_that_is_away_while_it_commits_is_waited_for(sink):
    prepared = checkpoint_id(sink.writer(), 1, [(1, "a")])
    sink.database.failures = [AWAY] * 3
    sink.committer().commit(request(1, prepared))
    assert sink.rows == {1: "a"}
    assert len(sink.pauses) == 3


def test_a_server_that_stays_away_is_an_error(sink):
    prepared = checkpoint_id(sink.writer(), 1, [(1, "a")])
    sink.database.failures = [AWAY] * 10_000
    with pytest.raises(DatabaseError):
        sink.committer().commit(request(1, prepared))
    assert sink.in_doubt == [each.name for each in prepared]


def test_transaction_broken_after_its_first_batch_is_not_resumed(sink):
    writer = sink.writer(batch=2)
    writer.begin(CheckpointContext(1, "a1"))
    writer.write([(1, "a"), (2, "a")], None, 0)
    sink.database.failures = [AWAY]
    with pytest.raises(PenstockError):
        writer.write([(3, "a"), (4, "a")], None, 0)
    assert sink.in_doubt == []


def test_transaction_broken_between_two_batches_of_a_write_is_not_resumed(sink):
    writer = sink.writer(batch=2)
    writer.begin(CheckpointContext(1, "a1"))
    sink.database.failures = [None, AWAY]
    with pytest.raises(PenstockError):
        writer.write([(number, "a") for number in range(4)], None, 0)
    assert sink.in_doubt == []


def test_a_first_batch_that_broke_is_sent_again(sink):
    writer = sink.writer(batch=2)
    sink.database.failures = [AWAY]
    prepared = checkpoint_id(writer, 1, [(1, "a"), (2, "a")])
    sink.committer().commit(request(1, prepared))
    assert sink.rows == {1: "a", 2: "a"}


# At least once


def test_batches_are_sent_when_they_are_full_and_the_rest_at_the_barrier(sink):
    writer = sink.batch_writer(2)
    sent = []
    writer._session.write = lambda rows: sent.append(list(rows))
    writer.write([(n, "a") for n in range(5)], None, 0)
    assert [len(each) for each in sent] == [2, 2]
    assert writer.prepare_commit() == []
    assert [key for each in sent for key, _ in each] == list(range(5))
    assert writer.prepare_commit() == []
    assert len(sent) == 3


def test_a_batch_that_broke_is_sent_again(sink):
    writer = sink.batch_writer(2)
    sink.database.failures = [AWAY, AWAY]
    writer.write([(1, "a"), (2, "a")], None, 0)
    assert sink.rows == {1: "a", 2: "a"}

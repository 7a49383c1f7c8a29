"""Writers of sinks in whole jobs: opened once, closed in every case, each record committed once."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.scripted import NONE, Script

EPOCHS = 6
BATCHES = [
    [[100 * split + 10 * checkpoint_id + n for n in range(3)] for checkpoint_id in range(EPOCHS)]
    for split in range(2)
]
BATCHES[1][2] = []  # an epoch in which one subtask has no record
VALUES = sorted(value for split in BATCHES for batch in split for value in batch)


class Server:
    """A database with prepared transactions. It is pickled by name, so all writers reach this one."""

    def __init__(self):
        self.calls = []  # of all connections: (connection, method)
        self.prepared = {}
        self.committed = {}
        self.restored = []
        self.fail = None  # the method that raises once, at this call

    def __reduce__(self):
        return "SERVER"

    def called(self, connection, method):
        self.calls.append((connection, method))
        if self.fail is not None and self.fail[0] == method:
            if self.fail[1] == 0:
                self.fail = None
                raise ConnectionError(f"{method} was refused")
            self.fail = (method, self.fail[1] - 1)

    def of(self, connection):
        return [method for number, method in self.calls if number == connection]


SERVER = Server()


class Connection(SinkWriter):
    def __init__(self, context, restored):
        self.number = sum(method == "open" for _, method in SERVER.calls)
        SERVER.called(self.number, "open")
        SERVER.restored.append(restored)
        self.subtask, self.epochs = context.subtask, restored or 0

    def begin(self, checkpoint):
        self.name, self.rows = f"{self.subtask}-{checkpoint.attempt}", []
        SERVER.called(self.number, "begin")

    def write(self, values, timestamps, watermark):
        SERVER.called(self.number, "write")
        self.rows += values

    def prepare_commit(self):
        SERVER.called(self.number, "prepare_commit")
        assert self.name not in SERVER.prepared, "a name was used twice"
        SERVER.prepared[self.name] = self.rows
        self.epochs += 1
        return [self.name]

    def snapshot(self):
        SERVER.called(self.number, "snapshot")
        return self.epochs

    def close(self):
        SERVER.called(self.number, "close")


class Transactions(Committer):
    def commit(self, request):
        for name in request.committables:
            SERVER.committed[name] = SERVER.prepared[name]


class Database(Sink):
    def create_writer(self, context, restored=None):
        return Connection(context, restored)

    def create_committer(self):
        return Transactions()


@pytest.fixture(autouse=True)
def server():
    SERVER.__init__()


def chained(stream):
    return stream


def behind_an_exchange(stream):
    return stream.key_by(lambda value: value % 7).map(lambda value: value)


def run(tmp_path, shape):
    options = {
        "execution.checkpointing.interval": "15 ms",
        "execution.checkpointing.dir": str(tmp_path),
        **restarts(3),
    }
    env = configured(options, 2)
    shape(env.from_source(Script(*BATCHES), NONE, "in")).sink_to(Database())
    with MiniCluster():
        env.execute("database")


SHAPES = pytest.mark.parametrize("shape", [chained, behind_an_exchange])


@SHAPES
def test_a_writer_is_opened_once_over_all_epochs_and_closed_at_the_end(tmp_path, shape):
    run(tmp_path, shape)
    counts = Counter(method for _, method in SERVER.calls)
    assert counts["open"] == counts["close"] == 2
    assert counts["begin"] == counts["prepare_commit"] == counts["snapshot"] >= 2 * EPOCHS - 1
    for connection in range(2):
        calls = SERVER.of(connection)
        assert calls[0] == "open"
        assert calls[-1] == "close"
        assert calls[1:3] == ["begin", "write"]
    assert sorted(value for rows in SERVER.committed.values() for value in rows) == VALUES


@SHAPES
@pytest.mark.parametrize("call", [0, 1, 5])
@pytest.mark.parametrize("method", ["open", "begin", "write", "prepare_commit", "snapshot"])
def test_a_writer_that_failed_is_closed_and_never_used_again(tmp_path, shape, method, call):
    SERVER.fail = (method, min(call, 1) if method == "open" else call)
    run(tmp_path, shape)
    assert SERVER.fail is None
    opened = sum(made == "open" for _, made in SERVER.calls)
    assert opened in (3, 4)  # those of the attempt that failed, and two
    for connection in range(opened):
        calls = SERVER.of(connection)
        assert calls == ["open"] or (calls.count("close") == 1 and calls[-1] == "close")
    assert sorted(value for rows in SERVER.committed.values() for value in rows) == VALUES


def test_an_error_of_close_does_not_fail_the_attempt_after_it(tmp_path):
    SERVER.fail = ("write", 3)
    close, raised = Connection.close, []

    def failing(self):
        close(self)
        if not raised:
            raised.append(self)
            raise OSError("already gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "close", failing)
        run(tmp_path, chained)
    assert raised
    assert sorted(value for rows in SERVER.committed.values() for value in rows) == VALUES


def test_a_writer_after_a_failure_gets_the_state_of_the_last_completed_checkpoint(tmp_path):
    SERVER.fail = ("write", 7)  # in the fifth epoch; the second subtask had no record in the third
    run(tmp_path, chained)
    assert SERVER.restored == [None, None, 4, 3]

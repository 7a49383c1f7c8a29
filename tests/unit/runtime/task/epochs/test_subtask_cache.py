"""The cache of live subtasks: used only if it is exactly the wanted snapshot."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from penstock.runtime.task.epochs import subtask_cache


def deployed(vertex=0, code=b"", parallelism=1):
    return SimpleNamespace(vertex=vertex, code=code, operators=(), parallelism=parallelism)


class Connection:
    def __init__(self, fails=False):
        self.fails = fails
        self.closed = 0

    def close(self):
        self.closed += 1
        if self.fails:
            raise RuntimeError("close failed")


class FakeSubtask:
    def __init__(
        self, vertex=0, index=0, finished=False, fails=False, kept=None, code=b"", parallelism=1
    ):
        self.deployment = deployed(vertex, code, parallelism)
        self.kept = {} if kept is None else {1: kept}
        self.index = index
        self.finished = finished
        self.fails = fails
        self.closed = 0

    def close(self):
        self.closed += 1
        if self.fails:
            raise RuntimeError("close failed")

    def retire(self):
        with contextlib.suppress(RuntimeError):
            self.close()
        return self.kept


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch):
    monkeypatch.setattr(subtask_cache, "_entries", {})
    monkeypatch.setattr(subtask_cache, "_parts", {})


def test_a_subtask_is_handed_out_once_for_its_own_snapshot():
    subtask = FakeSubtask()
    subtask_cache.put("job", subtask, 5, "attempt-5")
    assert subtask_cache.take("job", 0, 0, "attempt-5") is subtask
    assert subtask_cache.take("job", 0, 0, "attempt-5") is None
    assert subtask.closed == 0


@pytest.mark.parametrize("snapshot", ["attempt-4", None], ids=["another", "a fresh start"])
def test_any_other_snapshot_drops_and_closes_it(snapshot):
    subtask = FakeSubtask()
    subtask_cache.put("job", subtask, 5, "attempt-5")
    assert subtask_cache.take("job", 0, 0, snapshot) is None
    assert subtask.closed == 1
    assert subtask_cache.take("job", 0, 0, "attempt-5") is None


def test_jobs_vertices_and_subtasks_are_kept_apart():
    subtasks = {
        (job, vertex, index): FakeSubtask(vertex, index)
        for job in ("j1", "j2")
        for vertex in (0, 1)
        for index in (0, 1)
    }
    for (job, _, _), subtask in subtasks.items():
        subtask_cache.put(job, subtask, 1, "a")
    for (job, vertex, index), subtask in subtasks.items():
        assert subtask_cache.take(job, vertex, index, "a") is subtask


def test_a_finished_subtask_is_closed_instead_of_kept():
    subtask = FakeSubtask(finished=True)
    subtask_cache.put("job", subtask, 5, "a")
    assert subtask.closed == 1
    assert subtask_cache.take("job", 0, 0, "a") is None


def test_older_epochs_of_the_job_are_forgotten():
    old, last = FakeSubtask(0), FakeSubtask(1)
    subtask_cache.put("job", old, 3, "a")
    subtask_cache.put("job", last, 4, "b")
    subtask_cache.forget_older("job", 5)
    assert (old.closed, last.closed) == (1, 0)
    assert subtask_cache.take("job", 1, 0, "b") is last


def test_other_jobs_are_forgotten_when_they_were_not_seen_for_a_minute(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(subtask_cache.time, "monotonic", lambda: now[0])
    other = FakeSubtask()
    subtask_cache.put("other", other, 1, "a")
    now[0] += 59
    subtask_cache.forget_older("job", 5)
    assert other.closed == 0
    now[0] += 2
    subtask_cache.forget_older("job", 5)
    assert other.closed == 1


def test_a_close_that_fails_does_not_fail_the_next_attempt():
    failing = FakeSubtask(fails=True)
    subtask_cache.put("job", failing, 5, "a")
    assert subtask_cache.take("job", 0, 0, "b") is None
    subtask_cache.put("job", failing, 1, "a")
    subtask_cache.forget_older("job", 5)
    assert failing.closed == 2


# What stale subtasks leave


def test_resources_of_a_stale_subtask_are_handed_over_once():
    connection = Connection()
    subtask_cache.put("job", FakeSubtask(kept=connection), 5, "a")
    assert subtask_cache.take_parts("job", deployed(), 0, 0) == {}  # it is not stale yet
    subtask_cache.forget_older("job", 7)
    assert subtask_cache.take_parts("job", deployed(), 1, 0) == {}
    assert subtask_cache.take_parts("job", deployed(), 0, 0) == {1: connection}
    assert subtask_cache.take_parts("job", deployed(), 0, 0) == {}
    assert connection.closed == 0


@pytest.mark.parametrize(
    ("deployment", "attempt"),
    [
        pytest.param(deployed(code=b"other"), 0, id="other code"),
        pytest.param(deployed(parallelism=2), 0, id="another parallelism"),
        pytest.param(deployed(), 1, id="another attempt at the job"),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_unusable_resources_are_closed(deployment, attempt, fails):
    connection = Connection(fails)
    subtask_cache.put("job", FakeSubtask(kept=connection), 5, "a")
    assert subtask_cache.take("job", 0, 0, "b") is None
    assert subtask_cache.take_parts("job", deployment, 0, attempt) == {}
    assert connection.closed == 1


def test_kept_resources_are_closed_after_some_epochs_without_the_slot():
    connection = Connection()
    subtask_cache.put("job", FakeSubtask(kept=connection), 5, "a")
    subtask_cache.forget_older("job", 11)
    assert connection.closed == 0
    subtask_cache.forget_older("job", 12)
    assert connection.closed == 1


def test_kept_resources_are_closed_when_a_subtask_of_the_job_finishes():
    connection, others = Connection(), Connection()
    for job, each in (("job", connection), ("other", others)):
        subtask_cache.put(job, FakeSubtask(kept=each), 5, "a")
        subtask_cache.take(job, 0, 0, "b")
    subtask_cache.put("job", FakeSubtask(vertex=1, finished=True), 6, "c")
    assert (connection.closed, others.closed) == (1, 0)

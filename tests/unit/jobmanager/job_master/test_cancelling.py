"""Cancelling what runs on Spark, at any moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.errors import JobCancelledError
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.spark import pipe as pipes
from penstock.spark.pipe import SparkPipe


class Spark:
    """Stands for Spark: calls a function when it is asked for its context, or for a job."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cancelled: list[str] = []
        self.groups: dict[str, str] = {}  # of what runs, by description
        self.on_start: Callable[[], Any] = lambda: None
        self.on_epoch: Callable[[], Any] = lambda: None
        monkeypatch.setattr(pipes, "get_context", self._start)
        monkeypatch.setattr(pipes, "in_job_group", self._group)
        monkeypatch.setattr(pipes, "cancel_jobs", self.cancelled.append)
        monkeypatch.setattr(pipes, "run_pipe", lambda *_: self.on_epoch())

    def _start(self, _: Any) -> Spark:
        self.on_start()
        return self

    def _group(self, _: Any, group: str, description: str, _pool: str) -> Any:
        self.groups[description] = group
        return nullcontext()

    # What `map` needs of a context

    pythonExec = "python"  # noqa: N815 - Spark's name
    _jrdd = None

    def parallelize(self, items: list[Any], _: int) -> Spark:
        return self

    def map(self, function: Callable[[Any], Any]) -> Spark:
        function(None)
        return self

    def collect(self) -> list[Any]:
        return []


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    return Spark(monkeypatch)


def test_a_job_that_is_cancelled_while_spark_starts_runs_nothing(spark: Spark) -> None:
    pipe = SparkPipe({}, ResourceManager())
    spark.on_start = lambda: pipe.cancel("job")
    spark.on_epoch = lambda: pytest.fail("the epoch ran")
    with pytest.raises(JobCancelledError):
        pipe.run("job", "counts", [], print)


def test_what_a_cancelled_job_was_about_to_run_comes_too_late(spark: Spark) -> None:
    pipe = SparkPipe({}, ResourceManager())
    ran: list[str] = []
    pipe.cancel("job", epoch_only=True)
    spark.on_epoch = lambda: ran.append("its next epoch")
    pipe.run("job", "counts", [], print)
    pipe.cancel("job")
    with pytest.raises(JobCancelledError):
        pipe.run("job", "counts", [], print)
    pipe.map("job", "cleaning up", lambda _: ran.append("what is left to do"), [1])
    assert ran == ["its next epoch", "what is left to do"]


def test_what_runs_is_cancelled_and_what_ended_or_is_of_another_job_is_not(spark: Spark) -> None:
    pipe = SparkPipe({}, ResourceManager())
    spark.on_epoch = lambda: pipe.cancel("other")
    pipe.run("job", "first", [], print)
    spark.on_epoch = lambda: pipe.cancel("job")
    pipe.run("job", "second", [], print)
    pipe.cancel("job")
    assert spark.cancelled == [spark.groups["second"]]


@pytest.mark.parametrize(
    ("epoch_only", "cancelled"),
    [(True, {"epoch"}), (False, {"epoch", "savepoint"})],
)
def test_an_epoch_whose_time_is_over_takes_no_savepoint_with_it(
    spark: Spark, epoch_only: bool, cancelled: set[str]
) -> None:
    pipe = SparkPipe({}, ResourceManager())
    spark.on_epoch = lambda: pipe.cancel("job", epoch_only=epoch_only)
    pipe.map("job", "savepoint", lambda _: pipe.run("job", "epoch", [], print), [1])
    assert set(spark.cancelled) == {spark.groups[name] for name in cancelled}


def test_an_epoch_lets_a_stage_of_another_job_start_first(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage needs all of its slots at one moment, which tasks of epochs would take first."""
    run = pipes._Run.new("flowing", slots=2)
    active, ran = iter([0, 1, 2]), []
    monkeypatch.setattr(pipes, "count_active", lambda *_: next(active))
    monkeypatch.setattr(pipes, "_runs", [run])
    spark.on_epoch = lambda: ran.append(list(active))

    SparkPipe({}, ResourceManager()).run("job", "counts", [], print)

    assert ran == [[]]
    assert run.starting == 0


def test_a_stage_that_does_not_start_keeps_epochs_back_only_once(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pipes._Run.new("flowing", slots=2)
    looks, ran = [], []
    monkeypatch.setattr(pipes, "count_active", lambda *_: looks.append(0) or 0)
    monkeypatch.setattr(pipes, "_runs", [run])
    monkeypatch.setattr(pipes, "_LET_START_S", 0.1)
    spark.on_epoch = lambda: ran.append(len(looks))
    pipe = SparkPipe({}, ResourceManager())

    pipe.run("job", "counts", [], print)
    pipe.run("job", "counts", [], print)

    assert ran[0] == ran[1] >= 1

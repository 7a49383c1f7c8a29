"""Cancelling what runs on Spark, at any moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.errors import JobCancelledError
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
        monkeypatch.setattr(pipes, "add_python_files", lambda *_: None)
        monkeypatch.setattr(pipes, "in_job_group", self._group)
        monkeypatch.setattr(pipes, "cancel_jobs", self.cancelled.append)
        monkeypatch.setattr(pipes, "run_pipe", lambda *_: self.on_epoch())

    def _start(self, _: Any) -> Spark:
        self.on_start()
        return self

    def _group(self, _: Any, group: str, description: str) -> Any:
        self.groups[description] = group
        return nullcontext()

    # What `map` needs of a context

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
    pipe = SparkPipe({})
    spark.on_start = lambda: pipe.cancel("job")
    spark.on_epoch = lambda: pytest.fail("the epoch ran")
    with pytest.raises(JobCancelledError):
        pipe.run("job", "counts", [], print)
    ran: list[str] = []
    spark.on_start, spark.on_epoch = lambda: None, lambda: ran.append("the next one")
    pipe.run("job", "counts", [], print)
    assert ran == ["the next one"]


def test_what_runs_is_cancelled_and_what_ended_or_is_of_another_job_is_not(spark: Spark) -> None:
    pipe = SparkPipe({})
    spark.on_epoch = lambda: pipe.cancel("other")
    pipe.run("job", "first", [], print)
    spark.on_epoch = lambda: pipe.cancel("job")
    pipe.run("job", "second", [], print)
    pipe.cancel("job")
    assert spark.cancelled == [spark.groups["second"]]


@pytest.mark.parametrize(
    ("epoch_only", "cancelled"), [(True, {"epoch"}), (False, {"epoch", "savepoint"})]
)
def test_an_epoch_whose_time_is_over_takes_no_savepoint_with_it(
    spark: Spark, epoch_only: bool, cancelled: set[str]
) -> None:
    pipe = SparkPipe({})
    spark.on_epoch = lambda: pipe.cancel("job", epoch_only=epoch_only)
    pipe.map("job", "savepoint", lambda _: pipe.run("job", "epoch", [], print), [1])
    assert set(spark.cancelled) == {spark.groups[name] for name in cancelled}

"""A failure that a restart cannot fix it ends the job at once, whatever its restart strategy."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.kafka.errors import KafkaDataLossError, KafkaSinkError
from penstock.errors import ConfigurationError, JobExecutionError, SuppressRestartsError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import MODES, runs_in

ATTEMPTS: list[str] = []


class NotPicklableError(SuppressRestartsError):
    """Cannot be carried over to the driver."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("no")


def _raise_permanent(value: int) -> int:
    ATTEMPTS.append("task")
    raise SuppressRestartsError("it is over")


def _raise_not_picklable(value: int) -> int:
    ATTEMPTS.append("task")
    raise NotPicklableError("it is over")


def _raise_passing(value: int) -> int:
    ATTEMPTS.append("task")
    raise ValueError(value)


def _raise_wrapped(value: int) -> int:
    ATTEMPTS.append("task")
    try:
        raise ConfigurationError("unknown option")
    except ConfigurationError as error:
        raise RuntimeError("opening failed") from error


def _panic(value: int) -> int:
    ATTEMPTS.append("task")
    return len(pl.Series([value * Decimal("NaN")]))


class Failing(Sink):
    """Its committer fails with an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def create_writer(self, context: Any, restored: Any = None) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        return _Committer(self.error)


class _Writer(SinkWriter):
    def write(self, values: Any, timestamps: Any, watermark: Any) -> None:
        pass

    def prepare_commit(self) -> list[Any]:
        return ["something"]


class _Committer(Committer):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def commit(self, request: Any) -> Any:
        ATTEMPTS.append("commit")
        raise self._error


def run(mode: str, function: Any = None, sink: Sink | None = None) -> str:
    """Run a job that may be restarted twice until it fails; return what its error says."""
    ATTEMPTS.clear()
    env = configured({**runs_in(mode), **restarts(2), "execution.checkpointing.interval": "1 s"}, 1)
    stream = env.from_collection([1])
    if function is not None:
        stream = stream.map(function)
    if sink is None:
        stream.print()
    else:
        stream.sink_to(sink)
    with MiniCluster(), pytest.raises(JobExecutionError) as failed:
        env.execute("fails")
    return str(failed.value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(_raise_permanent, id="of the user"),
        pytest.param(_raise_not_picklable, id="not picklable"),
        pytest.param(_raise_wrapped, id="behind another error"),
    ],
)
def test_what_a_function_raises_as_permanent_is_tried_once(mode: str, function: Any) -> None:
    assert "a restart cannot fix it" in run(mode, function)
    assert ATTEMPTS == ["task"]


@pytest.mark.parametrize("mode", MODES)
def test_lost_records_of_a_transaction_are_reported_once(mode: str) -> None:
    lost = KafkaDataLossError("a transaction of checkpoint 1 was aborted")
    assert "a restart cannot fix it" in run(mode, sink=Failing(lost))
    assert ATTEMPTS == ["commit"]


@pytest.mark.parametrize("mode", MODES)
def test_a_failure_that_may_pass_follows_the_restart_strategy(mode: str) -> None:
    assert "a restart cannot fix it" not in run(mode, _raise_passing)
    assert ATTEMPTS == ["task"] * 3
    assert "a restart cannot fix it" not in run(mode, sink=Failing(KafkaSinkError("busy")))
    assert ATTEMPTS == ["commit"] * 3


@pytest.mark.parametrize("mode", MODES)
def test_a_panic_of_a_library_fails_the_job_and_not_its_process(mode: str) -> None:
    said = run(mode, _panic)
    assert "a library failed unexpectedly: " in said
    assert "in operator 'Map" in said
    assert ATTEMPTS == ["task"] * 3

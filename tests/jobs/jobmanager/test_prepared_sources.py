"""Sources that need the cluster before their job does: they are prepared before tasks are deployed."""

from __future__ import annotations

import threading

import pytest

from penstock.common import JobStatus, WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.connectors.base.static_splits import StaticSplitEnumerator
from penstock.errors import JobCancelledError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import MODES, runs_in

TIMEOUT_S = 60
# Slots are threads: what happened is noted in this process.
events: list[str] = []
waits = threading.Event()


@pytest.fixture(autouse=True)
def _nothing_happened():
    events.clear()
    waits.clear()


class Prepared(Source):
    """One record, once its enumerator is prepared; `how` it is, says its name."""

    def __init__(self, how="at once"):
        self.how = how

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return Preparing(self.how, restored)

    def create_reader(self):
        return Reading(self.how)


class Preparing(StaticSplitEnumerator):
    def __init__(self, how, restored):
        super().__init__([SourceSplit("only", None, 0, bounded=True)], restored)
        self.how = how
        self.ready = restored is not None

    def take_over(self, before):
        self.ready = before.ready
        events.append(f"taken over {'ready' if self.ready else 'empty'}")

    def prepare(self, interrupted):
        if self.how == "fails":
            raise OSError("the cluster is not there")
        if self.how == "waits":
            waits.set()
            while not interrupted():
                threading.Event().wait(0.005)
            raise JobCancelledError("preparing was cancelled")
        if not self.ready:
            events.append("prepared")
            self.ready = True

    def discover(self):
        assert self.ready
        return super().discover()


class Reading(SourceReader):
    def __init__(self, how):
        self.how = how

    def open(self, context):
        events.append("opened")

    def read(self, split, position, limits):
        if self.how == "reader fails once" and events.count("opened") == 1:
            raise ValueError("cannot read")
        if position == 0:
            yield SourceBatch(["record"], 1)


@pytest.fixture(params=MODES)
def env(request):
    return configured({**runs_in(request.param), **restarts(1)}, parallelism=1)


def stream(env, how):
    return env.from_source(Prepared(how), WatermarkStrategy.no_watermarks(), "prepared")


def test_a_source_is_prepared_before_its_tasks_start(env):
    with MiniCluster(), stream(env, "at once").execute_and_collect() as found:
        assert list(found) == ["record"]
    assert events[:2] == ["prepared", "opened"]
    assert events.count("prepared") == 1


def test_what_was_prepared_before_the_first_checkpoint_is_handed_on(env):
    with MiniCluster(), stream(env, "reader fails once").execute_and_collect() as found:
        assert list(found) == ["record"]
    assert events[:3] == ["prepared", "opened", "taken over ready"]
    assert events.count("prepared") == 1


def test_a_job_that_cannot_be_prepared_fails_with_the_reason(env):
    stream(env, "fails").print()
    with MiniCluster(), pytest.raises(OSError, match="the cluster is not there"):
        env.execute("unprepared")
    assert events == []


def test_a_job_that_is_being_prepared_can_be_cancelled(env):
    with MiniCluster():
        stream(env, "waits").print()
        client = env.execute_async("waiting")
        assert waits.wait(TIMEOUT_S)
        client.cancel().result(TIMEOUT_S)
        with pytest.raises(JobCancelledError):
            client.get_job_execution_result().result(TIMEOUT_S)
        assert client.get_job_status().result(TIMEOUT_S) is JobStatus.CANCELED
    assert events == []

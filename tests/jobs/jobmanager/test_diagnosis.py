"""Jobs with something wrong, run for real, and what the doctor says about them."""

from __future__ import annotations

import os
import time

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.connectors.base.source import SourceBatch, SourceReader, SourceSplit
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.jobmanager.diagnosis import diagnosable_job
from penstock.jobmanager.diagnosis.diagnosable_job import examine
from penstock.jobmanager.diagnosis.diagnose import diagnose
from penstock.testing import MiniCluster
from tests.builders.endless import EndlessSource, SplitsOnce
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

TIMEOUT_S = 60
HOUR_MS = 3_600_000


class Unlucky(EndlessSource):
    """One of its splits has no records; three of four others' have one key; and far more waits than anybody reads."""

    def splits(self):
        return [SourceSplit(name, start=0) for name in ("empty", "full", "other")]

    def create_enumerator(self, parallelism, restored=None):
        return _Behind(self.splits(), restored)

    def create_reader(self, context=None):
        return _Reader()


class SteppedTime:
    """The clock of an examination: it advances only while the examination sleeps."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


EXAMINED = SteppedTime()
GROWTH = 1_000_000  # in a second of that time


class _Behind(SplitsOnce):
    def backlog(self, splits):
        from tests.jobs.jobmanager import test_diagnosis as shared

        return int(shared.EXAMINED.now * GROWTH)


class _Reader(SourceReader):
    def read(self, split, position, limits):
        while True:
            if split.split_id == "empty":
                yield SourceBatch([], position)
                continue
            numbers = range(position, position + 100)
            position += 100
            users = ["heavy" if n % 4 else f"user {n}" for n in numbers]
            yield SourceBatch(
                [(user, HOUR_MS + n) for user, n in zip(users, numbers, strict=True)], position
            )


class Slow(MapFunction):
    """Takes its time for every record."""

    def map(self, value):
        until = time.perf_counter() + 0.00002
        while time.perf_counter() < until:
            pass
        return value


class Remember(KeyedProcessFunction):
    """Keeps something for ever."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, ctx):
        self.last.update(value)
        yield value


@pytest.fixture
def controller():
    """A job that has been running for a moment."""
    with MiniCluster("pipelined"):
        env = configured({"execution.checkpointing.interval": "1 h"}, 2)
        times = WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(0)
        ).with_timestamp_assigner(lambda value, _: value[1])
        clicks = env.from_source(Unlucky(), times, "clicks").uid("clicks")
        seen = clicks.key_by(lambda value: value[0]).process(Remember()).uid("remember")
        seen.map(Slow()).filter(lambda _: False).print()
        client = env.execute_async("unlucky")
    controller = client._controller
    wait_until(lambda: sum(_records_in(controller)) >= 40_000)
    yield controller
    client.cancel().result(TIMEOUT_S)


def _records_in(controller):
    vertices = controller.view().vertices()
    return [report.number("numRecordsIn") for report in vertices[1].reports]


def test_all_faults_of_a_job_are_reported(controller, monkeypatch):
    monkeypatch.setattr(diagnosable_job, "time", EXAMINED)
    remember = controller.master.job.plan.vertices[1]
    diagnoses = []

    def all_is_found():
        """What subtasks did with their time is that of some moments, in which others may have had the processors."""
        diagnoses.append(examine(controller, int(time.time() * 1000)))
        findings = diagnoses[-1].findings
        # Keys are those of some moments, too.
        skewed = {
            each.vertex for each in findings if each.rule == "skew" and "keys" in each.figures
        }
        return (
            {"watermark", "backlog", "bottleneck"} <= {each.rule for each in findings}
            and remember.id in skewed
            and not diagnoses[-1].unknown
        )

    wait_until(all_is_found, seconds=120)
    findings = diagnoses[-1].findings
    found = {each.rule: each for each in findings}
    # Sources may be uneven too: one has the split that is empty.
    (skew,) = (each for each in findings if (each.rule, each.vertex) == ("skew", remember.id))
    assert "key 'heavy' has " in skew.title
    assert 0.5 < skew.figures["keys"]["'heavy'"] < 0.9
    assert skew.severity.name == "WARNING"

    watermark = found["watermark"]
    assert "split 'empty'" in watermark.title
    assert "with_idleness" in watermark.hint

    backlog = found["backlog"]
    assert backlog.title == "source 'Source: clicks' falls behind"
    assert backlog.figures["growth_per_second"] == GROWTH

    bottleneck = found["bottleneck"]
    assert bottleneck.vertex == remember.id


def test_keys_are_not_watched_where_there_is_not_skew():
    with MiniCluster("pipelined"):
        env = configured({}, 1)
        env.from_source(Unlucky(), WatermarkStrategy.no_watermarks(), "clicks").print()
        client = env.execute_async("simple")
    controller = client._controller
    wait_until(lambda: controller.slots())
    asked = []
    inspect = controller.inspect
    controller.inspect = lambda target, request: (asked.append(request), inspect(target, request))[
        1
    ]
    examine(controller, int(time.time() * 1000))
    assert {type(each).__name__ for each in asked} == {"ProcessDetails", "TaskDetails"}
    client.cancel().result(TIMEOUT_S)


def _splits_that_have_spoken(controller):
    times = [each for splits in controller.split_times().values() for each in splits]
    return [each for each in times if each.watermark > 0]


def test_in_epochs_states_and_memory_are_those_of_the_last_reports(monkeypatch):
    with MiniCluster("epochs"):
        env = configured({"execution.checkpointing.interval": "10 ms"}, 1)
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
            lambda value, _: value[1]
        )
        clicks = env.from_source(Unlucky(), times, "clicks")
        remember = clicks.key_by(lambda value: value[0]).process(Remember()).uid("remember")
        remember.filter(lambda _: False).print()
        client = env.execute_async("epochs")
        controller = client._controller
        # In epochs each waits for its turn.
        wait_until(lambda: len(_splits_that_have_spoken(controller)) == 2)
        wait_until(lambda: sum(_records_in(controller)) > 0)
        figures = []
        monkeypatch.setattr(
            diagnosable_job,
            "diagnose",
            lambda job, unknown: (figures.append(job), diagnose(job, unknown))[1],
        )
        diagnosis = examine(controller, int(time.time() * 1000))
        client.cancel().result(TIMEOUT_S)
    (held_back,) = [each for each in diagnosis.findings if each.rule == "watermark"]
    assert "split 'empty'" in held_back.title
    (job,) = figures
    states = {state.name: state.expires for each in job.details.values() for state in each.states}
    assert states == {"last": False}
    (process,) = job.processes.values()
    assert process.process == os.getpid()
    assert process.peak_memory >= process.memory > 0


def test_the_report_on_a_skewed_job_in_epochs_says_that_keys_are_not_known():
    with MiniCluster("epochs"):
        env = configured({"execution.checkpointing.interval": "10 ms"}, 2)
        clicks = env.from_source(Unlucky(), WatermarkStrategy.no_watermarks(), "clicks")
        remember = clicks.key_by(lambda value: value[0]).process(Remember())
        remember.filter(lambda _: False).print()
        client = env.execute_async("skewed")
        controller = client._controller
        diagnoses = []

        def keyed_vertex_is_skewed():
            diagnoses.append(examine(controller, int(time.time() * 1000)))
            keyed = controller.view().vertices()[1].id
            findings = diagnoses[-1].findings
            return any((each.rule, each.vertex) == ("skew", keyed) for each in findings)

        wait_until(keyed_vertex_is_skewed)
        client.cancel().result(TIMEOUT_S)
    (unknown,) = diagnoses[-1].unknown
    assert unknown.startswith("frequent keys of 'KEYED PROCESS")
    assert "runs in epoch mode" in unknown

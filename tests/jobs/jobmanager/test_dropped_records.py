"""A job that drops records says so: in its log, in its description, in its diagnosis, in the REST API."""

from __future__ import annotations

import logging

import pytest

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.diagnosis.figures import read_figures
from penstock.jobmanager.diagnosis.rules.late import late_records
from penstock.rest import shapes
from penstock.rest.resources.job_graph import job_graph
from penstock.testing.mini_cluster import MiniCluster
from penstock.windowing import TumblingEventTimeWindows

NOW = 1_700_000_000_000
# With a watermark after each of them, one second behind: 3 and 1 are late for windows of two seconds.
SECONDS = [1, 2, 9, 3, 8, 10, 1, 30]


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class EachRecord(WatermarkGenerator):
    """A watermark after each record, one second behind."""

    def on_event(self, event, timestamp, output):
        output.emit_watermark(timestamp - 1000)

    def on_periodic_emit(self, output):
        pass


def _windows():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_generator(EachRecord)
    (
        env.from_collection(SECONDS, type_info=Types.INT())
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Seconds()))
        .key_by(lambda value: 0)
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .reduce(lambda one, other: one + other)
        .name("sums")
        .print()
    )
    client = env.execute_async("windows")
    client.get_job_execution_result().result(60)
    return client._controller.describe()


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_late_records_are_mentioned_with_their_number_and_lateness(mode, caplog):
    caplog.set_level(logging.WARNING)
    with MiniCluster(mode=mode):
        job = _windows()
    said = [line for line in caplog.messages if "dropped" in line]
    assert len(said) == 1
    assert "operator 'sums' dropped 2 of 8 records: they are late (up to 8.0 s behind" in said[0]
    (found,) = job["dropped"]
    known = {name: found[name] for name in ("name", "metric", "reason", "dropped", "records")}
    assert known == {
        "name": "sums",
        "metric": "numLateRecordsDropped",
        "reason": "they are late",
        "dropped": 2,
        "records": 8,
    }
    assert found["lateness_ms"] == 8000
    assert shapes.details(job, NOW)["penstock"]["dropped"] == [found]
    assert job_graph(job, NOW)["dropped"] == [found]
    (finding,) = late_records(read_figures(job, NOW))
    assert finding.title == "'sums' dropped 25 % of its records: they are late"

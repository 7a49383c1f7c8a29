"""What reports say of a job that ran."""

from __future__ import annotations

from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.metrics.metric_totals import MetricTotals
from penstock.jobmanager.metrics.progress import CheckpointReport
from penstock.testing import MiniCluster


def test_a_report_counts_what_came_in_and_what_each_sink_wrote() -> None:
    with MiniCluster() as cluster:
        env = StreamExecutionEnvironment.get_execution_environment()
        numbers = env.from_collection([1, 2, 3, 4])
        numbers.filter(lambda n: n > 3).print().name("large")
        numbers.print().name("all")
        env.execute("a job")
    master = cluster.masters[0]
    found = CheckpointReport.of(
        master.job, master.manifest, MetricTotals().take(master._driver.acks), 1.0
    )
    assert found.records_in == 4
    assert found.sinks == {"large": 1, "all": 4}
    assert 0 <= found.checkpoint_s <= 1.0

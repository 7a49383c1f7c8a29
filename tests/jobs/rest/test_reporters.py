"""A running job's metrics reach Prometheus, at the REST server and at a port of its own, and a receiver of OTLP."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors import DataGeneratorSource
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.rest import processes, publish
from penstock.session.job_manager import JobManager, SessionCluster
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.waiting import wait_until


class Counting(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        self.seen.inc()
        return value


def run_published(publisher, options):
    """Start a job that goes on, and publish it; return its client."""
    env = configured(options, 1)
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i % 5), WatermarkStrategy.no_watermarks(), "numbers"
    )
    numbers.map(Counting()).name("counting").filter(lambda _: False).print()
    job = env.execute_async("reported")
    publish.publish(job._controller, env.get_configuration())
    publisher.settle()
    return job


@pytest.fixture
def cluster():
    with MiniCluster("pipelined") as cluster:
        yield cluster


def scraped(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    return {
        sample.name: sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("operator_name", "counting") == "counting"
    }


SEEN = "flink_taskmanager_job_task_operator_seen"


def test_prometheus_finds_what_user_functions_count_while_the_job_runs(cluster, publisher):
    options = {"metrics.reporters": "prom", "metrics.reporter.prom.port": "0"}
    job = run_published(publisher, options)
    try:
        reporter = publisher.endpoint.reporters._running["prom"]
        (record,) = processes.read_all()
        address = record.address.removeprefix("http://")
        for place in (f"http://{address}/metrics", f"http://127.0.0.1:{reporter.port}/metrics"):
            wait_until(lambda place=place: SEEN in scraped(place))
            before = scraped(place)
            wait_until(
                lambda place=place, before=before: scraped(place)[SEEN].value > before[SEEN].value
            )
            assert before["flink_jobmanager_numRunningJobs"].value == 1
            assert before[SEEN].labels["job_id"] == str(job.get_job_id())
            assert "flink_taskmanager_Status_JVM_Memory_Heap_Used" in before
    finally:
        job.cancel().exception(60)


@pytest.fixture
def receiver(tmp_path):
    """A process that takes OTLP, and what it has taken."""
    taken = tmp_path / "taken"
    with taken.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.builders.otlp_receiver"], stdout=output
        )
    wait_until(lambda: "\n" in taken.read_text())
    yield taken
    process.kill()
    process.wait()


def points(taken, name):
    found = [json.loads(line) for line in taken.read_text().splitlines()[1:] if line.endswith("}")]
    return [each for each in found if each["name"] == name]


def test_a_receiver_of_otlp_gets_all_metrics_in_intervals_and_the_last_ones_at_the_end(
    cluster, publisher, receiver
):
    port = receiver.read_text().splitlines()[0]
    options = {
        "metrics.reporters": "otel",
        "metrics.reporter.otel.exporter.endpoint": f"http://127.0.0.1:{port}",
        "metrics.reporter.otel.interval": "200 ms",
        "metrics.reporter.otel.service.name": "shop",
    }
    seen = "flink.taskmanager.job.task.operator.seen"
    job = run_published(publisher, options)
    try:
        wait_until(lambda: len({each["value"] for each in points(receiver, seen)}) > 1)
        running = points(receiver, "flink.jobmanager.numRunningJobs")
    finally:
        job.cancel().exception(60)
    first, *_, last = points(receiver, seen)
    assert last["value"] > first["value"] > 0
    assert first["kind"] == "gauge"  # a counter of a user function may go down
    assert first["attributes"]["operator_name"] == "counting"
    assert first["attributes"]["job_name"] == "reported"
    assert first["service"]["service.name"] == "shop"
    read = points(receiver, "flink.taskmanager.job.task.numRecordsIn")
    assert (read[0]["kind"], read[0]["monotonic"]) == ("sum", True)
    assert running[-1]["value"] == 1
    publisher.close(0)
    assert points(receiver, "flink.jobmanager.numRunningJobs")[-1]["value"] == 0


def test_a_reporter_that_cannot_start_is_only_worth_a_warning(cluster, publisher, caplog):
    options = {
        "metrics.reporters": "otel, graphite",
        "metrics.reporter.otel.exporter.protocol": "grpc",
    }
    job = run_published(publisher, options)
    job.cancel().exception(60)
    assert "only http is supported" in caplog.text
    assert "unknown metrics reporter 'graphite'" in caplog.text


def test_a_session_reports_from_its_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    configuration = Configuration.from_dict(
        {"metrics.reporters": "prom", "metrics.reporter.prom.port": "0"}
    )
    place = SessionCluster("nowhere", lambda _: None, ResourceManager(), capacity=lambda: 0)
    session = JobManager(configuration, place)
    session.start()
    try:
        port = session._endpoint.reporters._running["prom"].port
        assert scraped(f"http://127.0.0.1:{port}/")["flink_jobmanager_numRunningJobs"].value == 0
    finally:
        session.close(keeps_jobs=False)
    with pytest.raises(OSError, match="refused"):
        scraped(f"http://127.0.0.1:{port}/")

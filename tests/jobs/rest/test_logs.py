"""What the tasks of a job log, and what is reported about where they run."""

from __future__ import annotations

import logging

import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors import DataGeneratorSource
from penstock.rest.messages import HttpError
from penstock.rest.routing.routes import Services
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.rest_calls import get
from tests.builders.waiting import wait_until

_log = logging.getLogger("of.the.user")


def complain(number):
    if number % 100 == 0:
        _log.warning("%d is round", number)
    return number


class Api:
    def __init__(self, services, job_id):
        self._services = services
        self.job_id = job_id

    def __call__(self, path, **query):
        return get(self._services, path, query)

    def logs(self, **query):
        return self(f"/penstock/jobs/{self.job_id}/logs", **query)

    def lines_of_user(self, **query):
        wait_until(lambda: self._lines_of_user(**query))
        return self._lines_of_user(**query)

    def _lines_of_user(self, **query):
        return [line for line in self.logs(**query)["lines"] if line["logger"] == "of.the.user"]


@pytest.fixture(scope="module", params=["pipelined", "epochs"])
def api(request):
    services = Services()
    with MiniCluster(request.param) as cluster:
        env = configured({"execution.checkpointing.interval": "50 ms"}, 2)
        numbers = env.from_source(
            DataGeneratorSource(lambda i: i, rate_per_second=5000),
            WatermarkStrategy.no_watermarks(),
            "numbers",
        )
        numbers.key_by(lambda n: n).map(complain).name("complain").filter(lambda _: False).print()
        submit = cluster.submit

        def submit_and_publish(*arguments, **options):
            controller = submit(*arguments, **options)
            services.jobs.publish(controller)
            return controller

        cluster.submit = submit_and_publish
        job = env.execute_async("complaints")
        try:
            yield Api(services, str(job.get_job_id()))
        finally:
            job.cancel().result()


def test_every_line_of_a_task_has_its_job_vertex_and_subtask(api):
    line = api.lines_of_user()[0]
    assert (line["job_id"], line["job_name"]) == (api.job_id, "complaints")
    assert "complain" in line["vertex"]
    assert (line["subtask"] in (0, 1), line["parallelism"], line["attempt"]) == (True, 2, 0)
    assert (line["level"], line["message"].endswith("is round")) == ("WARNING", True)


def test_lines_are_chosen_by_vertex_subtask_and_level(api):
    api.lines_of_user(subtask="1")
    found = api.lines_of_user(vertex="complain", subtask="1", level="warning")
    assert {line["subtask"] for line in found} == {1}
    levels = {line["level"] for line in api.logs(level="ERROR")["lines"]}
    assert levels <= {"ERROR", "CRITICAL"}
    assert api.logs(vertex="nothing is called so")["lines"] == []


def test_who_follows_gets_every_line_once(api):
    seen, last = [], 0
    while len(seen) < 20:
        answer = api.logs(after=str(last), limit="7") if last else api.logs(limit="1")
        seen += [line["number"] for line in answer["lines"]]
        last = answer["last"]
    assert seen == sorted(set(seen))


def test_the_log_of_a_taskmanager_and_its_threads_can_be_read(api):
    api.lines_of_user()
    (taskmanager,) = api("/taskmanagers")["taskmanagers"]
    path = f"/taskmanagers/{taskmanager['id']}"
    assert f"[job {api.job_id}, vertex " in api(f"{path}/log")
    (log, _) = api(f"{path}/logs")["logs"]
    assert log["name"] == "taskmanager.log"
    assert log["size"] > 0
    assert "is round" in api(f"{path}/logs/taskmanager.log")
    threads = api(f"{path}/thread-dump")["threadInfos"]
    assert any("\n\tat " in each["stringifiedThreadInfo"] for each in threads)


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        (
            "/penstock/jobs/{job}/logs",
            {"after": "x"},
            400,
            "'after' must be a non-negative integer",
        ),
        ("/penstock/jobs/{job}/logs", {"limit": "99999"}, 400, "at most 10000"),
        ("/penstock/jobs/{job}/logs", {"level": "LOUD"}, 400, "unknown level 'LOUD'"),
        ("/penstock/jobs/{job}/logs", {"format": "xml"}, 400, "unknown format 'xml'"),
        ("/penstock/jobs/ffff/logs", {}, 404, "unknown job ffff"),
        ("/taskmanagers/missing", {}, 404, "unknown TaskManager missing"),
        ("/taskmanagers/local/logs/..%2Fpasswd", {}, 404, "unknown log '../passwd'"),
        ("/jobmanager/logs/%2Fetc%2Fpasswd", {}, 404, "unknown log '/etc/passwd'"),
        ("/jobmanager/profiler", {}, 404, "tasks run in Python"),
        ("/taskmanagers/metrics", {"get": "x", "agg": "most"}, 400, "unknown aggregation 'most'"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(api, path, query, status, text):
    with pytest.raises(HttpError) as refused:
        api(path.replace("{job}", api.job_id), **query)
    assert refused.value.status == status
    assert text in refused.value.errors[0]

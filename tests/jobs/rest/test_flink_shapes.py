"""What the REST API answers about a job that runs has all that Flink's own answers have."""

from __future__ import annotations

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream.connectors import DataGeneratorSource
from penstock.rest.routing.routes import Services
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.flink_shapes import flink_shapes, lacks
from tests.builders.rest_calls import get
from tests.builders.waiting import wait_until

_NOT_YET = {}


class Asking:
    """Asks the API about one job, with the names of its things in the places of parameters."""

    def __init__(self, services, job_id):
        self._services = services
        job = self._get(f"/jobs/{job_id}")
        self._names = {":jobid": job_id, ":applicationid": job_id, ":subtask": "0", ":attempt": "0"}
        self._names[":vertexid"] = job["vertices"][0]["id"]
        self._names[":checkpointid"] = self._a_checkpoint(job_id)
        # Each subtask reports for itself.
        wait_until(lambda: self("/jobs/:jobid/vertices/:vertexid/backpressure")["status"] == "ok")

    def _a_checkpoint(self, job_id):
        wait_until(lambda: self._completed(job_id))
        return self._completed(job_id)[0]

    def _completed(self, job_id):
        history = self(f"/jobs/{job_id}/checkpoints")["history"]
        return [str(each["id"]) for each in history if each["status"] == "COMPLETED"]

    def _get(self, path):
        path, _, query = path.partition("?")
        pairs = dict(each.split("=") for each in query.split("&") if each)
        return get(self._services, path, pairs)

    def __call__(self, path):
        if ":taskmanagerid" in path and ":taskmanagerid" not in self._names:
            (taskmanager,) = self._get("/taskmanagers")["taskmanagers"]
            self._names[":taskmanagerid"] = taskmanager["id"]
        for name, value in self._names.items():
            path = path.replace(name, value)
        return self._get(path)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    directory = tmp_path_factory.mktemp("shapes")
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "web.checkpoints.history": "1000000",  # the one that is asked about is not forgotten
    }
    services = Services()
    with MiniCluster("pipelined") as cluster:
        env = configured(options, 2)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))
        source = DataGeneratorSource(lambda i: i % 5, rate_per_second=1000)
        numbers = env.from_source(source, strategy, "numbers")
        numbers.key_by(lambda n: n).reduce(lambda a, b: a + b).filter(lambda _: False).print()
        submit = cluster.submit

        def submit_and_publish(*arguments, **options):
            controller = submit(*arguments, **options)
            services.jobs.publish(controller)
            return controller

        cluster.submit = submit_and_publish
        job = env.execute_async("numbers")
        try:
            yield Asking(services, str(job.get_job_id()))
        finally:
            job.cancel().result()


@pytest.mark.parametrize("path", [path for path in flink_shapes() if path not in _NOT_YET])
def test_an_answer_has_all_that_flinks_has(ask, path):
    answer = ask(path)
    if path.endswith("/checkpoints"):  # one that is under way has no path yet, as in Flink
        answer["history"] = [each for each in answer["history"] if each["className"] == "completed"]
    assert list(lacks(flink_shapes()[path], answer)) == []


@pytest.mark.parametrize(
    ("expected", "actual", "missing"),
    [
        ({"a": "number"}, {"a": 1, "b": 2}, []),
        ({"a": "number"}, {}, ["/a is missing"]),
        ({"a": "number"}, {"a": "1"}, ["/a is '1', which is not a number"]),
        ([{"a": "text"}], [{"a": "x"}, {}], ["/1/a is missing"]),
        ({"*": {"a": "bool"}}, {"v": {"a": 1}}, ["/v/a is 1, which is not a bool"]),
        ([{"a": "text"}], {}, ["/ is not a list"]),
    ],
)
def test_what_an_answer_lacks_is_found(expected, actual, missing):
    assert list(lacks(expected, actual)) == missing

"""Options of a session and options of its jobs: a job changes only its own."""

from __future__ import annotations

from penstock.common import Configuration
from penstock.jobmanager.dispatcher.session_options import ignored_options, options_of_job

SESSION = Configuration.from_dict(
    {
        "parallelism.default": "2",
        "rest.port": "8081",
        "spark.executor.memory": "1g",
        "state.backend.type": "hashmap",
    }
)


def test_a_job_has_the_options_of_its_session_under_its_own() -> None:
    job = {"state.backend.type": "rocksdb", "pipeline.name": "counts"}
    assert options_of_job(SESSION, job).to_dict() == {
        "parallelism.default": "2",
        "pipeline.name": "counts",
        "spark.executor.memory": "1g",
        "state.backend.type": "rocksdb",
    }
    assert ignored_options(SESSION, job) == []


def test_a_job_does_not_change_what_is_the_session_s() -> None:
    job = {
        "jobmanager.web.submit.enable": "false",
        "metrics.reporters": "prom",
        "rest.port": "9999",
        "spark.executor.memory": "8g",
        "taskmanager.numberOfTaskSlots": "9",
    }
    assert options_of_job(SESSION, job).to_dict() == {
        "parallelism.default": "2",
        "spark.executor.memory": "1g",
        "state.backend.type": "hashmap",
    }
    # With the port a client finds the session.
    assert ignored_options(SESSION, job) == sorted(job.keys() - {"rest.port"})


def test_the_value_that_the_session_has_is_not_ignored() -> None:
    assert ignored_options(SESSION, {"spark.executor.memory": "1g"}) == []

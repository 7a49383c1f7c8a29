"""How jobs ended, as the next leader finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.errors import JobCancelledError, JobExecutionError
from penstock.jobmanager.high_availability.results import JobResult, JobResults

JOB = "ab" * 16


@pytest.fixture
def results(tmp_path: Path) -> JobResults:
    return JobResults(CheckpointFileSystem(str(tmp_path)))


def test_a_job_that_finished_is_finished_for_the_next_leader(results: JobResults) -> None:
    ended = JobResult.finished(JobExecutionResult(JobID(JOB), 1234, {"a.n": 5, "a.x": object()}))
    results.write(JOB, ended)
    found = results.read(JOB, since_ms=ended.ended_ms)
    assert found is not None
    result = found.reached(JOB, "job")
    assert (str(result.get_job_id()), result.get_net_runtime()) == (JOB, 1234)
    assert result.get_all_accumulator_results() == {"a.n": 5}


@pytest.mark.parametrize(
    ("error", "kind", "reported"),
    [
        (ValueError("no"), JobExecutionError, "failed\ndetail: ValueError: no"),
        (JobCancelledError("it was"), JobCancelledError, "canceled\ndetail: it was"),
    ],
)
def test_a_job_that_failed_or_was_cancelled_is_not_run_again(
    results, error, kind, reported
) -> None:
    results.write(JOB, JobResult.failed(error))
    found = results.read(JOB, since_ms=0)
    with pytest.raises(kind, match=reported):
        found.reached(JOB, "job")


def test_a_job_that_is_started_after_its_end_runs_again(results: JobResults) -> None:
    ended = JobResult.failed(ValueError("no"))
    results.write(JOB, ended)
    assert results.read(JOB, since_ms=ended.ended_ms + 1) is None
    assert results.read("cd" * 16, since_ms=0) is None


def test_a_result_that_cannot_be_read_does_not_keep_a_job_from_running(
    results: JobResults, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / f"{JOB}.json").write_text('{"status": ')
    assert results.read(JOB, since_ms=0) is None

"""From options to a job."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock.common import temporary
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.job import Job
from penstock.jobmanager.launcher import create_job
from tests.builders.counting_job import environment, totals


def job_with(**options: str) -> Job:
    env = environment(1, **options)
    totals(env).print()
    return create_job(env._transformations, GraphSettings(), env.get_configuration(), "job")


@pytest.mark.parametrize(
    ("retention", "retained"),
    [
        (None, True),
        ("RETAIN_ON_CANCELLATION", True),
        ("DELETE_ON_CANCELLATION", False),
        ("NO_EXTERNALIZED_CHECKPOINTS", False),
    ],
)
def test_a_cancelled_job_leaves_its_checkpoints_unless_it_was_told_not_to(
    retention: str | None, retained: bool, tmp_path: Path
) -> None:
    options = {"execution__checkpointing__dir": str(tmp_path)}
    if retention is not None:
        options["execution__checkpointing__externalized_checkpoint_retention"] = retention
    assert job_with(**options).checkpoints.retain_on_cancel is retained


def test_a_job_that_is_to_go_on_and_has_no_checkpoint_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = job_with(execution__state_recovery__path=str(tmp_path / "a1b2"))
    assert (job.job_id, job.checkpoints.directory) == ("a1b2", str(tmp_path))
    assert f"no checkpoint in 'a1b2' of '{tmp_path}': the job starts from nothing" in caplog.text


def test_temporary_checkpoints_name_the_process_that_they_belong_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that those of a killed driver are found and deleted by the next one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    checkpoints = job_with().checkpoints
    assert checkpoints.temporary
    name = Path(checkpoints.directory).name
    assert name.startswith(f"penstock-checkpoints-{temporary.this_process()}-")

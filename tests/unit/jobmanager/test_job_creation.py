"""From options to a job."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock.checkpoint.manifest_store import ManifestStore, UnreadableCheckpointError
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ConfigurationError, RestoreRefusedError
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.restoring.starting_point import find_start
from penstock.processes import temporary
from tests.builders.checkpoint_builders import manifest
from tests.builders.counting_job import environment, totals

JOB_ID = "0123456789abcdef0123456789abcdef"


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


def tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


NOTHING = {
    "missing": ("missing", "the path does not exist"),
    "wrong-job-id": ("f" * 32, "the path does not exist"),
    "wrong-checkpoint": (f"{JOB_ID}/chk-9", "the path does not exist"),
    "manifest-of-a-wrong-checkpoint": (f"{JOB_ID}/chk-9/_metadata", "the path does not exist"),
    "savepoint-without-metadata": ("savepoint-1", "a savepoint without its _metadata"),
    "directory-of-others": ("files", "it contains neither"),
    "directory-of-jobs": ("", "it contains neither"),
    "job-without-checkpoints": ("e" * 32, "it contains neither"),
    "a-file": ("files/a", "it contains neither"),
}


@pytest.mark.parametrize(("path", "problem"), NOTHING.values(), ids=NOTHING)
def test_a_path_with_nothing_to_start_from_is_refused_and_left_as_it_is(
    path: str, problem: str, tmp_path: Path
) -> None:
    ManifestStore(CheckpointFileSystem(str(tmp_path)), JOB_ID).write(manifest(1))
    for name in ("savepoint-1/state/a.parquet", "files/a", f"{'e' * 32}/shared/1-a.state"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"x")
    before = tree(tmp_path)
    with pytest.raises(RestoreRefusedError, match="no savepoint or checkpoint at") as raised:
        job_with(execution__state_recovery__path=str(tmp_path / path))
    assert problem in (raised.value.detail or "")
    assert "remove execution.state-recovery.path" in (raised.value.hint or "")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_the_directory_of_a_job_is_that_job_again(tmp_path: Path, end: str) -> None:
    ManifestStore(CheckpointFileSystem(str(tmp_path)), JOB_ID).write(manifest(1))
    job = job_with(execution__state_recovery__path=f"file://{tmp_path}/{JOB_ID}{end}")
    assert (job.job_id, job.checkpoints.directory) == (JOB_ID, str(tmp_path))
    assert job.checkpoints.restore_path is None


def test_a_job_whose_manifests_were_all_deleted_is_that_job_and_cannot_start(
    tmp_path: Path,
) -> None:
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), JOB_ID)
    store.write(manifest(4))
    store.delete(4)
    job = job_with(execution__state_recovery__path=str(tmp_path / JOB_ID))
    assert job.job_id == JOB_ID
    with pytest.raises(UnreadableCheckpointError, match="checkpoint 4 of job"):
        find_start(store, job.checkpoints)


def test_a_directory_with_checkpoints_whose_name_is_not_a_job_id_is_refused(tmp_path: Path) -> None:
    ManifestStore(CheckpointFileSystem(str(tmp_path)), "a1b2").write(manifest(1))
    with pytest.raises(RestoreRefusedError, match="is not the directory of a job") as raised:
        job_with(execution__state_recovery__path=str(tmp_path / "a1b2"))
    assert "'a1b2' is not a job id" in (raised.value.detail or "")


def test_a_job_with_an_id_of_its_own_starts_and_goes_on_under_it(tmp_path: Path) -> None:
    options = {"execution__checkpointing__dir": str(tmp_path), "penstock__job_id": JOB_ID}
    job = job_with(**options)
    assert (job.job_id, job.checkpoints.directory) == (JOB_ID, str(tmp_path))
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), JOB_ID)
    assert find_start(store, job.checkpoints) is None
    store.write(manifest(3))
    assert find_start(store, job_with(**options).checkpoints) == manifest(3)
    store.delete(3)
    with pytest.raises(UnreadableCheckpointError):
        find_start(store, job_with(**options).checkpoints)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penstock__job_id": JOB_ID}, "needs a checkpoint directory"),
        (
            {"penstock__job_id": "mine", "execution__checkpointing__dir": "/nowhere"},
            "invalid penstock.job-id",
        ),
    ],
)
def test_a_job_id_that_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        job_with(**options)


def test_the_directory_of_another_job_than_the_id_says_is_refused(tmp_path: Path) -> None:
    ManifestStore(CheckpointFileSystem(str(tmp_path)), JOB_ID).write(manifest(1))
    with pytest.raises(ConfigurationError, match="belongs to job"):
        job_with(
            execution__checkpointing__dir=str(tmp_path),
            execution__state_recovery__path=str(tmp_path / JOB_ID),
            penstock__job_id="f" * 32,
        )


def test_temporary_checkpoints_name_the_process_that_they_belong_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that those of a killed driver are found and deleted by the next one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    checkpoints = job_with().checkpoints
    assert checkpoints.temporary
    name = Path(checkpoints.directory).name
    assert name.startswith(f"penstock-checkpoints-{temporary.this_process()}-")

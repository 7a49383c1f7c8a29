"""Whole jobs whose checkpoints and savepoints are signed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import state
from penstock.checkpoint.signing import KEY_FILE_VARIABLE, SignatureError
from penstock.errors import JobCancelledError
from penstock.replay.recording import find_interval
from penstock.testing import MiniCluster
from tests.builders.counting_job import totals
from tests.builders.environments import configured
from tests.builders.steps import before_each_epoch
from tests.unit.checkpoint.test_signing import collision

KEY = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"


def run(tmp_path: Path, backend: str, stop_at: int, **options: str) -> tuple[list[Any], str, str]:
    """Run some epochs; return the output, the job's directory, and a savepoint of the last epoch but one."""
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.num-retained": "3",
        "penstock.state.inline-threshold": "1 b",
        "state.backend.type": backend,
        "penstock.signing.key": KEY,
        **options,
    }
    settings = {key: value for key, value in settings.items() if value}
    env = configured(settings)
    found: list[Any] = []
    answers: list[Any] = []
    with MiniCluster() as cluster:

        def act(checkpoint_id: int) -> None:
            if checkpoint_id == stop_at - 1:
                answers.append(cluster.masters[-1].request_savepoint(str(tmp_path / "savepoints")))
            if checkpoint_id == stop_at:
                cluster.masters[-1].cancel(graceful=True)

        with before_each_epoch(act), suppress(JobCancelledError):
            found.extend(totals(env).execute_and_collect())
        return found, cluster.masters[-1].store.storage.base, answers[0].result(60)


@pytest.fixture
def ran(tmp_path: Path, backend: str) -> tuple[str, str]:
    _, job, savepoint = run(tmp_path, backend, 4)
    return job, savepoint


RECOVER = "execution.state-recovery.path"


@pytest.mark.parametrize("place", ["job", "checkpoint", "savepoint"])
def test_it_goes_on_with_its_key_and_not_with_another(
    ran: tuple[str, str], tmp_path: Path, backend: str, place: str
) -> None:
    job, savepoint = ran
    path = {"job": job, "checkpoint": f"{job}/chk-4", "savepoint": savepoint}[place]
    with pytest.raises(SignatureError, match=r"invalid signature of .*_metadata'"):
        run(tmp_path, backend, 9, **{RECOVER: path, "penstock.signing.key": OTHER})
    found, _, _ = run(tmp_path, backend, 9, **{RECOVER: path})
    assert found


@pytest.mark.parametrize("place", ["job", "savepoint"])
def test_what_was_not_signed_is_not_started_from(tmp_path: Path, backend: str, place: str) -> None:
    _, job, savepoint = run(tmp_path, backend, 4, **{"penstock.signing.key": ""})
    path = job if place == "job" else savepoint
    with pytest.raises(SignatureError, match="_metadata' is not signed"):
        run(tmp_path, backend, 9, **{RECOVER: path})


@pytest.mark.parametrize("place", ["job", "savepoint"])
def test_what_was_not_signed_is_started_from_once_it_is_written_again_with_the_key(
    tmp_path: Path, backend: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, job, savepoint = run(tmp_path, backend, 4, **{"penstock.signing.key": ""})
    path = job if place == "job" else savepoint
    (tmp_path / "key").write_text(KEY)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "key"))
    with pytest.raises(SignatureError, match="_metadata' is not signed"):
        state.edit(path)
    written = state.edit(state.read(path, signed=False)).write(str(tmp_path / "again"))
    assert state.read(written).manifest.operators
    found, _, _ = run(tmp_path, backend, 9, **{RECOVER: written})
    assert found


def test_tables_of_state_and_replays_are_checked(
    ran: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, savepoint = ran
    for name, key in (("right", KEY), ("wrong", OTHER)):
        (tmp_path / name).write_text(key)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "wrong"))
    for path in (job, f"{job}/chk-4", savepoint):
        with pytest.raises(SignatureError, match="invalid signature"):
            state.read(path)
    with pytest.raises(SignatureError, match="invalid signature"):
        find_interval(job)
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "right"))
    for path in (job, f"{job}/chk-4", savepoint):
        assert list(state.read(path).state("totals", "total"))
    assert find_interval(job).record.checkpoint_id == 4


def test_the_key_is_not_where_the_checkpoints_are(ran: tuple[str, str]) -> None:
    for place in ran:
        for path in Path(place).rglob("*"):
            assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_a_state_file_that_was_altered_is_refused_before_it_is_unpickled(
    ran: tuple[str, str], tmp_path: Path, backend: str
) -> None:
    job, _ = ran
    files = sorted(Path(job, "shared").iterdir())
    for path in files:
        path.write_bytes(collision(path.read_bytes(), b"cos\nsystem\n(S'exit 1'\ntR."))
    with pytest.raises(SignatureError, match="does not match"):
        run(tmp_path, backend, 9, **{RECOVER: job})

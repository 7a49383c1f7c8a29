"""Whole jobs that are told to start from something that is not there, or not whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.manifest_store import UnreadableCheckpointError
from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import JobCancelledError, RestoreRefusedError
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.scripted import Script
from tests.builders.steps import before_each_epoch

EPOCHS = [[((n % 3, n), n) for n in range(start, start + 5)] for start in range(0, 40, 5)]
EXPECTED = Counter((n % 3, sum(range(n % 3, n + 1, 3))) for n in range(40))


def run(directory: Path, stop_at: int | None = None, **options: str) -> None:
    """Sum numbers by remainder, one list of them an epoch, to files; cancel it in an epoch."""
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.num-retained": "3",
        "penstock.state.inline-threshold": "1 b",
        **{key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
    }
    env = configured(settings)
    numbers = env.from_source(
        Script(EPOCHS), WatermarkStrategy.no_watermarks(), "numbers", Types.PICKLED_BYTE_ARRAY()
    ).uid("numbers")
    sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sums")
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    sums.map(repr, Types.STRING()).sink_to(sink.build()).uid("out")

    def stop(checkpoint_id: int) -> None:
        if checkpoint_id == stop_at:
            cluster.masters[-1].cancel(graceful=True)

    with MiniCluster() as cluster, before_each_epoch(stop):
        env.execute("sums")


def published(directory: Path) -> Counter[Any]:
    return Counter(
        eval(line)
        for path in (directory / "out").rglob("*")
        if path.is_file() and not path.name.startswith(".")
        for line in path.read_text().splitlines()
    )


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The directory of a job that was stopped after its fifth epoch."""
    with pytest.raises(JobCancelledError):
        run(tmp_path, stop_at=5)
    (job,) = (tmp_path / "checkpoints").iterdir()
    assert sorted(path.name for path in job.glob("chk-*")) == ["chk-3", "chk-4", "chk-5"]
    return job


def only_named_by_the_last(job: Path) -> Path:
    return next(path for path in (job / "shared").iterdir() if path.name.startswith("5-"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "manifest-truncated": lambda job: (job / "chk-5/_metadata").write_bytes(
        (job / "chk-5/_metadata").read_bytes()[:-9]
    ),
    "manifest-deleted": lambda job: (job / "chk-5/_metadata").unlink(),
    "checkpoint-deleted": lambda job: [
        *((job / "chk-5/_metadata").unlink(),),
        (job / "chk-5").rmdir(),
    ],
    "state-flipped": lambda job: flip(only_named_by_the_last(job)),
    "state-deleted": lambda job: only_named_by_the_last(job).unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_job_whose_last_checkpoint_is_damaged_is_refused_and_publishes_nothing(
    stopped: Path, tmp_path: Path, damage: Any
) -> None:
    damage(stopped)
    before = published(tmp_path)
    with pytest.raises(UnreadableCheckpointError, match="checkpoint 5 of job") as raised:
        run(tmp_path, execution_state__recovery_path=str(stopped))
    detail = raised.value.detail or ""
    assert "is damaged" in detail or "is missing" in detail or "does not exist" in detail
    assert "checkpoint 4: restoring it runs checkpoint interval 5 again and publishes" in detail
    assert published(tmp_path) == before


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_it_goes_back_if_that_is_allowed(stopped: Path, tmp_path: Path, damage: Any) -> None:
    damage(stopped)
    run(
        tmp_path,
        execution_state__recovery_path=str(stopped),
        penstock_recovery_allow__fallback="true",
    )
    found = published(tmp_path)
    assert set(found) == set(EXPECTED)
    assert sum(found.values()) - sum(EXPECTED.values()) == 5  # of the fifth epoch


def test_a_job_whose_manifests_were_all_deleted_does_not_start_from_nothing(
    stopped: Path, tmp_path: Path
) -> None:
    for path in stopped.glob("chk-*/_metadata"):
        path.unlink()
    before = published(tmp_path)
    with pytest.raises(UnreadableCheckpointError, match="checkpoint 5 of job"):
        run(
            tmp_path,
            execution_state__recovery_path=str(stopped),
            penstock_recovery_allow__fallback="true",
        )
    assert published(tmp_path) == before


def test_without_damage_it_goes_on(stopped: Path, tmp_path: Path) -> None:
    run(tmp_path, execution_state__recovery_path=f"{stopped}/")
    assert published(tmp_path) == EXPECTED


@pytest.mark.parametrize("path", ["missing", "f" * 32, "savepoint-1-2"])
def test_a_start_from_nothing_is_refused_and_publishes_nothing(tmp_path: Path, path: str) -> None:
    (tmp_path / "savepoint-1-2" / "state").mkdir(parents=True)
    (tmp_path / "savepoint-1-2" / "state" / "a.parquet").write_bytes(b"x")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RestoreRefusedError, match="no savepoint or checkpoint at"):
        run(tmp_path, execution_state__recovery_path=str(tmp_path / path))
    assert sorted(tmp_path.rglob("*")) == before


def test_the_thread_of_a_job_hands_over_whatever_goes_wrong_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.jobmanager.controller import LocalJobController

    def broken(_: Any) -> Any:
        raise ValueError("no id")

    monkeypatch.setattr(LocalJobController, "get_job_id", broken)
    with pytest.raises(ValueError, match="no id"):
        run(tmp_path)

"""Jobs whose checkpoints are on a file system that only fsspec has."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.steps import before_each_epoch


@pytest.fixture
def base() -> str:
    return f"memory://penstock/{uuid.uuid4().hex}"


def run(base: str, name: str, act: Any = None, **options: str) -> list[int]:
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": f"{base}/{name}",
        "penstock.state.inline-threshold": "1 b",
        **options,
    }
    env = configured(settings)
    numbers = env.from_collection(list(range(50_000))).uid("numbers")
    sums = numbers.key_by(lambda n: n % 3).reduce(lambda a, b: a + b).uid("sums")
    with MiniCluster() as cluster:

        def between(checkpoint_id: int) -> None:
            if act is not None:
                act(cluster.masters[0], checkpoint_id)

        with before_each_epoch(between):
            return list(sums.execute_and_collect())


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_is_checkpointed_stopped_and_started_again_there(base: str, backend: str) -> None:
    answers: list[Any] = []

    def stop(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 1:
            answers.append(master.request_savepoint(f"{base}/savepoints", stops=True))

    expected = run(base, "whole")
    first = run(base, "first", stop, **{"state.backend.type": backend})
    path = answers[0].result(0)
    assert path.startswith("memory://")
    second = run(
        base,
        "second",
        **{"state.backend.type": backend, "execution.state-recovery.path": path},
    )
    assert 0 < len(first) < 50_000
    assert sorted([*first, *second]) == sorted(expected)

"""Checkpoints and savepoints on a file system that only fsspec has."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from penstock.checkpoint.storage import CheckpointStorage
from penstock.common import Configuration
from penstock.common.connectors.filesystem import resolve
from penstock.common.file_systems import open_file_system
from penstock.datastream import StreamExecutionEnvironment
from penstock.jobmanager.job_master import JobMaster
from penstock.testing.mini_cluster import MiniCluster


@pytest.fixture
def base() -> str:
    return f"memory://penstock/{uuid.uuid4().hex}"


def test_files_are_written_listed_read_and_deleted(base: str) -> None:
    storage = CheckpointStorage(base)
    assert storage.list() == []
    storage.write_atomic("chk-1/_metadata", b"first")
    storage.write_atomic("chk-1/_metadata", b"second")
    storage.write_new("shared/1.state", b"state")
    assert storage.create("chk-1/_metadata", b"third") is False
    assert storage.list() == ["chk-1/_metadata", "shared/1.state"]
    assert storage.read("chk-1/_metadata") == b"second"
    storage.delete_tree("chk-1")
    assert storage.list() == ["shared/1.state"]


def run(base: str, name: str, act: Any = None, **options: str) -> list[int]:
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.interval": "1 ms",
            "execution.checkpointing.dir": f"{base}/{name}",
            "penstock.state.inline-threshold": "1 b",
            **options,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = env.from_collection(list(range(50_000))).uid("numbers")
    sums = numbers.key_by(lambda n: n % 3).reduce(lambda a, b: a + b).uid("sums")
    with MiniCluster() as cluster:

        def hook(moment: str, epoch: int) -> None:
            if moment == "before run_pipe" and act is not None:
                act(cluster.masters[0], epoch)

        JobMaster.step_hooks.append(hook)
        try:
            return list(sums.execute_and_collect())
        finally:
            JobMaster.step_hooks.remove(hook)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_is_checkpointed_stopped_and_started_again_there(base: str, backend: str) -> None:
    answers: list[Any] = []

    def stop(master: JobMaster, epoch: int) -> None:
        if epoch == 1:
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


def test_connectors_use_the_same_file_systems(base: str) -> None:
    files, path = resolve(f"{base}/file")
    out = files.open_output(path)
    out.write(b"text")
    files.finish(out)
    assert open_file_system(f"{base}/file")[0].open_input_stream(path).read() == b"text"


def test_a_scheme_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        open_file_system("nowhere://host/path")

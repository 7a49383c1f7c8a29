"""What checkpoints, leases and sinks need of storage, on real HDFS and S3."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from threading import Barrier
from typing import Any

import pytest

from penstock.checkpoint.heartbeat_lease import HeartbeatLease
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import CheckpointError, FencedError, FileError, MissingFileError
from penstock.files.file_system import resolve
from penstock.files.paths import join_path
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.steps import before_each_epoch

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

RIVALS, RACES = 8, 10


def test_files_are_written_described_moved_and_deleted(base: str) -> None:
    files, path = resolve(base)
    one, two = f"{path}/a/b/one", f"{path}/a/two"
    before = time.time()
    out = files.open_output(one)
    out.write(b"123")
    out.write(b"45")
    files.finish(out)
    found = files.info(one)
    assert found is not None
    assert found.size == 5
    assert abs(found.mtime_ns / 1e9 - before) < 3600
    assert files.info(f"{path}/a/b") is None
    assert files.exists(f"{path}/a/b")
    assert (files.has_file(one), files.has_file(f"{path}/a/b")) == (True, False)
    files.rename(one, two)
    assert [PurePosixPath(each.path).name for each in files.walk(path)] == ["two"]
    with files.open_input(two) as stream:
        stream.seek(2)
        assert stream.read() == b"345"
        stream.seek(1)
        assert stream.read(2) == b"23"
    for _ in range(2):
        files.delete(two)
        files.delete_tree(f"{path}/a")
    assert list(files.walk(path)) == []
    with pytest.raises(MissingFileError, match=r"two(\?.*)?' does not exist"):
        resolve(join_path(base, "two"))[0].read(f"{path}/two")


def test_a_large_file_has_all_its_bytes(base: str) -> None:
    data = bytes(range(256)) * 80_000
    storage = CheckpointFileSystem(base)
    storage.write_new("shared/large", memoryview(data))
    assert storage.read("shared/large") == data


def test_a_file_is_replaced_and_nothing_is_left_over(base: str) -> None:
    storage = CheckpointFileSystem(base)
    for number in range(3):
        storage.write_atomic("_latest", b"%d" % number)
        assert storage.read("_latest") == b"%d" % number
    files, path = resolve(base)
    assert [PurePosixPath(each.path).name for each in files.walk(path)] == ["_latest"]


def test_readers_never_miss_a_file_that_is_replaced(base: str) -> None:
    storage = CheckpointFileSystem(base)
    storage.write_atomic("_latest", b"0" * 1000)
    with ThreadPoolExecutor(1) as other:
        written = other.submit(
            lambda: [storage.write_atomic("_latest", b"%d" % n * 1000) for n in range(1, 10)]
        )
        reader = CheckpointFileSystem(base)
        while not written.done():
            found = reader.read("_latest")
            assert (len(found), len(set(found))) == (1000, 1)
        written.result()


def test_a_file_that_is_there_is_not_renamed_over(base: str) -> None:
    files, path = resolve(base)
    if base.startswith("s3:"):
        pytest.skip("on S3 a rename is a copy, which replaces")
    files.write_atomic(f"{path}/one", b"1")
    files.write_atomic(f"{path}/two", b"2")
    with pytest.raises(FileError):
        files.rename(f"{path}/one", f"{path}/two")
    assert (files.read(f"{path}/one"), files.read(f"{path}/two")) == (b"1", b"2")


def test_of_many_that_create_a_file_at_the_same_moment_one_does(base: str) -> None:
    storages = [CheckpointFileSystem(base) for _ in range(RIVALS)]
    with ThreadPoolExecutor(RIVALS) as threads:
        for race in range(RACES):
            start = Barrier(RIVALS)

            def create(number: int, name: str = f"chk-{race}/_metadata", start: Any = start) -> Any:
                start.wait()
                return storages[number].create(name, b"%d" % number)

            won = list(threads.map(create, range(RIVALS)))
            assert won.count(True) == 1
            assert storages[0].read(f"chk-{race}/_metadata") == b"%d" % won.index(True)


def test_a_lease_has_one_owner(base: str) -> None:
    storage = CheckpointFileSystem(base)
    lease = HeartbeatLease.acquire(storage, LeaseOwner.here("one"), beating=False)
    with pytest.raises(FencedError):
        HeartbeatLease.acquire(storage, LeaseOwner.here("two"), beating=False)
    lease.renew()
    lease.check()
    lease.release()
    second = HeartbeatLease.acquire(storage, LeaseOwner.here("two"), beating=False)
    with pytest.raises(CheckpointError):
        lease.check()
    second.release(forget=True)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_is_stopped_and_started_again_from_there(base: str, backend: str) -> None:
    """Numbers are counted by key into files, without loss and without duplicates, over a savepoint."""
    count, keys = 20_000, 3

    def run(name: str, act: Any = None, **options: str) -> None:
        env = configured(
            {
                "execution.checkpointing.interval": "1 ms",
                "execution.checkpointing.dir": join_path(base, f"checkpoints/{name}"),
                "penstock.state.inline-threshold": "1 b",
                "state.backend.type": backend,
                **options,
            }
        )
        numbers = env.from_collection(list(range(count))).uid("numbers")
        sums = numbers.key_by(lambda n: n % keys).reduce(lambda a, b: a + b).uid("sums")
        sums.map(str).sink_to(
            FileSink.for_row_format(join_path(base, "out"), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .build()
        ).uid("out")
        with MiniCluster() as cluster:

            def between(checkpoint_id: int) -> None:
                if act is not None:
                    act(cluster.masters[0], checkpoint_id)

            with before_each_epoch(between):
                env.execute()

    answers: list[Any] = []

    def stop(master: JobMaster, checkpoint_id: int) -> None:
        if checkpoint_id == 2:
            answers.append(master.request_savepoint(join_path(base, "savepoints"), stops=True))

    run("first", stop)
    saved = answers[0].result(0)
    assert saved.partition("://")[0] == base.partition("://")[0]
    files, path = resolve(join_path(base, "out"))
    assert 0 < len(_lines(files, path)) < count
    run("second", **{"execution.state-recovery.path": saved})
    totals, expected = [0] * keys, []
    for number in range(count):
        totals[number % keys] += number
        expected.append(totals[number % keys])
    assert sorted(map(int, _lines(files, path))) == sorted(expected)


def _lines(files: Any, path: str) -> list[str]:
    return [
        line
        for each in files.walk(path)
        if not PurePosixPath(each.path).name.startswith((".", "_"))
        for line in files.read(each.path).decode().splitlines()
    ]

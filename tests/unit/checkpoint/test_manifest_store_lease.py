"""A store of manifests that has, or has lost, the lease of its job."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint import file_lock
from penstock.checkpoint.file_lock import FileLock
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError, FencedError
from tests.builders.checkpoint_builders import manifest
from tests.builders.examples import examples
from tests.builders.lease_builders import remote_owner


def test_a_fenced_driver_changes_nothing(tmp_path):
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")
    store.acquire("job")
    store.write(manifest(1))
    store.write(manifest(2))
    store.storage.write_new("shared/1-a.state", b"x")
    (tmp_path / "job" / ".lock").write_bytes(remote_owner("other").encode())
    before = sorted(store.storage.list())
    for change in (
        lambda: store.write(manifest(3)),
        lambda: store.delete(1),
        lambda: store.delete_files(("shared/1-a.state",)),
        lambda: store.quarantine(2),
        store.sweep_checkpoints,
        store.delete_working_files,
        store.delete_all,
    ):
        with pytest.raises(FencedError, match="taken over"):
            change()
    assert sorted(store.storage.list()) == before
    store.release()


def test_a_second_store_is_refused_until_the_first_is_released(tmp_path):
    first, second = (ManifestStore(CheckpointFileSystem(str(tmp_path)), "job") for _ in range(2))
    first.acquire("job")
    with pytest.raises(FencedError):
        second.acquire("job")
    second.release()
    first.check_lease()
    first.release()
    second.acquire("job")
    second.release()
    ManifestStore(CheckpointFileSystem(str(tmp_path)), "job").release()


@pytest.mark.parametrize("kind", ["lock", "heartbeat"])
def test_deleting_all_of_a_job_deletes_its_lease_too(tmp_path, monkeypatch, kind):
    if kind == "heartbeat":
        monkeypatch.setattr(FileLock, "acquire", unsupported)
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")
    store.acquire("job")
    store.write(manifest(1))
    store.storage.write_new("chk-2/_damaged", b"x")
    store.delete_all()
    store.release()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    store.acquire("job")
    store.release()


def unsupported(*_, **__):
    raise file_lock.LocksNotSupportedError(errno.ENOLCK, "no locks available")


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(2, 5))
def test_of_drivers_that_write_the_same_checkpoint_at_once_one_succeeds(tmp_path_factory, drivers):
    base = CheckpointFileSystem(str(tmp_path_factory.mktemp("race")), sync=False)
    barrier = threading.Barrier(drivers)

    def write(driver):
        store = ManifestStore(base, "job")
        mine = manifest(1, files=(f"shared/1-{driver}",))
        barrier.wait()
        try:
            store.write(mine)
        except CheckpointError as error:
            assert "already exists" in error.message  # noqa: PT017 - the other outcome is not a failure
            return None
        return mine

    with ThreadPoolExecutor(drivers) as pool:
        written = [found for found in pool.map(write, range(drivers)) if found is not None]
    assert len(written) == 1
    assert ManifestStore(base, "job").latest() == written[0]


class Lease:
    """A lease that says what a test wants."""

    contested = True

    def __init__(self):
        self.lost_after = None  # so many checks

    def check(self):
        if self.lost_after == 0:
            raise FencedError("another driver has taken over this job")
        if self.lost_after is not None:
            self.lost_after -= 1


def test_a_job_is_contested_until_this_driver_has_written_a_checkpoint(tmp_path):
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")
    assert not store.contested
    store._lease = Lease()
    assert store.contested
    store.write(manifest(1))
    assert not store.contested


def test_a_damaged_manifest_is_not_replaced_by_a_driver_that_lost_its_job_meanwhile(tmp_path):
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")
    store.write(manifest(1))
    (path,) = (tmp_path / "job" / "chk-1").iterdir()
    path.write_bytes(b"damaged")
    store._lease = Lease()
    store._lease.lost_after = 1
    with pytest.raises(FencedError):
        store.write(manifest(1))
    assert path.read_bytes() == b"damaged"
    store._lease.lost_after = None
    store.write(manifest(1))
    assert store.read(1) == manifest(1)

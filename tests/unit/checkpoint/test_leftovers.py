"""What killed drivers leave of checkpoints, and who may delete it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import FencedError
from penstock.files.faults import set_fault_hook
from tests.builders.checkpoint_builders import lay_out, manifest
from tests.builders.lease_builders import remote_owner

UNFINISHED = "._metadata.0123456789abcdef0123456789abcdef.tmp"


def found_in(directory):
    """Return the files of checkpoints, and the directories that are empty."""
    files = {str(path.relative_to(directory)) for path in Path(directory).glob("chk-*/*")}
    return files | {
        f"{path.name}/" for path in Path(directory).glob("chk-*") if not [*path.iterdir()]
    }


@pytest.fixture
def store(tmp_path):
    store = ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")
    store.acquire("job")
    yield store
    store.release()


@pytest.mark.parametrize(
    ("left", "stays"),
    [
        pytest.param(["chk-1/"], [], id="deleted by halves"),
        pytest.param([f"chk-1/{UNFINISHED}"], [], id="an unfinished manifest of an old epoch"),
        pytest.param(["chk-5/", "chk-9/"], [], id="begun, of later epochs"),
        pytest.param([f"chk-5/{UNFINISHED}"], [f"chk-5/{UNFINISHED}"], id="unfinished, of a later epoch"),
        pytest.param(["chk-2/_damaged"], ["chk-2/_damaged"], id="set aside"),
        pytest.param(["chk-2/notes.txt"], ["chk-2/notes.txt"], id="of another program"),
        pytest.param(["chk-x/", "chk-/"], ["chk-/", "chk-x/"], id="no checkpoint"),
    ],
)  # fmt: skip
def test_directories_without_a_manifest_are_deleted(store, tmp_path, left, stays):
    store.write(manifest(3))
    store.write(manifest(4))
    lay_out(tmp_path / "job", *left)
    store.sweep_checkpoints()
    assert found_in(tmp_path / "job") == {"chk-3/_metadata", "chk-4/_metadata", *stays}
    assert store.list_checkpoint_ids() == [3, 4]


def test_marks_that_were_not_finished_are_deleted(store, tmp_path):
    store.write(manifest(3))
    lay_out(tmp_path / "job", "._latest.6f0c.tmp", ".other.6f0c.tmp")
    store.sweep_checkpoints()
    hidden = {path.name for path in (tmp_path / "job").glob(".*.tmp")}
    assert hidden == {".other.6f0c.tmp"}


def test_a_damaged_manifest_counts_as_one(store, tmp_path):
    store.write(manifest(4))
    lay_out(tmp_path / "job", "chk-3/_metadata")
    store.sweep_checkpoints()
    assert store.list_checkpoint_ids() == [3, 4]


def test_without_any_checkpoint_only_empty_directories_are_deleted(store, tmp_path):
    lay_out(tmp_path / "job", "chk-1/", f"chk-2/{UNFINISHED}")
    store.sweep_checkpoints()
    assert found_in(tmp_path / "job") == {f"chk-2/{UNFINISHED}"}


def test_a_directory_that_is_filled_at_that_moment_stays(store, tmp_path):
    """The manifest is written between the list and the deletion."""
    store.write(manifest(3))
    lay_out(tmp_path / "job", "chk-4/")

    def interfere(action, path, call):
        if action == "delete":
            lay_out(tmp_path / "job", "chk-4/_metadata")
        return call()

    before = set_fault_hook(interfere)
    try:
        store.sweep_checkpoints()
    finally:
        set_fault_hook(before)
    assert found_in(tmp_path / "job") == {"chk-3/_metadata", "chk-4/_metadata"}


def test_a_driver_that_has_lost_its_job_deletes_nothing(store, tmp_path):
    store.write(manifest(3))
    lay_out(tmp_path / "job", "chk-1/", "chk-4/")
    (tmp_path / "job" / ".lock").write_bytes(remote_owner("other").encode())
    with pytest.raises(FencedError):
        store.sweep_checkpoints()
    assert found_in(tmp_path / "job") == {"chk-3/_metadata", "chk-1/", "chk-4/"}


def test_storage_that_cannot_delete_does_not_keep_a_job_from_starting(store, tmp_path, caplog):
    store.write(manifest(3))
    lay_out(tmp_path / "job", "chk-1/")

    def refuse(action, path, call):
        if action == "delete":
            raise PermissionError("no")
        return call()

    before = set_fault_hook(refuse)
    try:
        store.sweep_checkpoints()
    finally:
        set_fault_hook(before)
    assert "could not delete" in caplog.text


def test_where_looking_and_deleting_are_two_steps_later_epochs_stay():
    storage = CheckpointFileSystem("mock:///base")
    store = ManifestStore.at(storage)
    store.write(manifest(3))
    files = storage._locate("list", "")[0]._fs
    for name in ("chk-1", "chk-4"):
        files.create_dir(f"/base/{name}")
    assert storage.list_directories("chk-") == ["chk-1", "chk-3", "chk-4"]
    store.sweep_checkpoints()
    assert storage.list_directories("chk-") == ["chk-3", "chk-4"]


def test_nothing_of_a_job_stays_when_all_of_it_is_deleted(store, tmp_path):
    store.write(manifest(3))
    lay_out(tmp_path / "job", "chk-1/")
    store.delete_all()
    assert list(tmp_path.iterdir()) == []

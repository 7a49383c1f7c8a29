from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint import manifest as manifest_module
from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import (
    DamagedManifestError,
    Manifest,
    OperatorSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
    decode,
    encode,
)
from penstock.checkpoint.manifest_store import (
    ManifestStore,
    UnreadableCheckpointError,
    resolve_restore_path,
)
from penstock.checkpoint.pickled import Pickled
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError
from penstock.savepoint.writer import write_savepoint
from tests.builders.checkpoint_builders import full, manifest, progress

ENCODED = encode(manifest(7, files=("shared/6-sum-0-a.state", "shared/7-sum-0-b.state")))


@pytest.fixture
def store(tmp_path):
    return ManifestStore(CheckpointFileSystem(str(tmp_path)), "job")


def test_a_manifest_is_read_back_as_it_was():
    original = manifest(7, files=("shared/6-sum-0-a.state", "shared/7-sum-0-b.state"), final=True)
    found = decode(encode(original), "x")
    assert found == original
    assert found.sources["source"].load_enumerator() == "seen"
    assert found.sources["source"].load_splits(0) == (progress("s", 3),)
    assert found.load_commit("sink").committables == ["out-7"]


def test_a_manifest_is_json_that_any_tool_reads():
    body = json.loads(ENCODED.splitlines()[1])
    assert (body["version"], body["checkpoint_id"], body["job_id"]) == (1, 7, "job")
    assert body["operators"]["total"]["parallelism"] == 1
    assert body["operators"]["total"]["subtasks"][0][1]["file"] == "shared/7-sum-0-b.state"
    assert body["vertices"]["sum"] == {
        "parallelism": 1,
        "watermark": 5,
        "watermarks": [5],
        "finished": [False],
        "next_wakeups": [99],
        "attempts": ["t1"],
        "local": ["eA=="],
    }


@given(st.integers(0, len(ENCODED) - 1))
def test_a_manifest_cut_anywhere_is_damaged(length):
    with pytest.raises(DamagedManifestError, match="chk-7/_metadata' is damaged"):
        decode(ENCODED[:length], "chk-7/_metadata")


@given(st.integers(0, len(ENCODED) - 1), st.integers(1, 255))
def test_a_manifest_with_any_byte_altered_is_damaged(position, change):
    altered = bytearray(ENCODED)
    altered[position] ^= change
    with pytest.raises(DamagedManifestError):
        decode(bytes(altered), "x")


def test_a_manifest_with_bytes_added_is_damaged():
    with pytest.raises(DamagedManifestError):
        decode(ENCODED + b"\n", "x")


def test_a_manifest_of_another_version_is_refused_and_not_skipped(store, monkeypatch):
    store.write(manifest(1))
    monkeypatch.setattr(manifest_module, "VERSION", 2)
    store.write(manifest(2))
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match="format version 2, but this version of Penstock reads 1"
    ):
        store.latest()


def test_a_sound_file_with_missing_parts_is_refused():
    body = b'{"version":1}'
    with pytest.raises(CheckpointError, match="could not read"):
        decode(manifest_module._header(body) + body + b"\n", "x")


def test_the_files_of_a_manifest_are_those_of_all_chains():
    assert manifest(7, files=("a", "b")).files() == {"a", "b"}


def unaligned() -> Manifest:
    """A manifest of two subtasks, the second of which had records in its channels."""
    held = SubtaskSnapshot(5, attempt="t2", in_flight=full("shared/1-in-flight-1-t2.state", 7))
    return manifest(
        files=("shared/a",), vertices={"sum": VertexSnapshot((SubtaskSnapshot(), held))}
    )


def test_data_in_flight_is_part_of_the_checkpoint(tmp_path):
    found = decode(encode(unaligned()), "x")
    assert found == unaligned()
    assert found.has_in_flight_data
    assert not manifest().has_in_flight_data
    assert found.files() == {"shared/a", "shared/1-in-flight-1-t2.state"}
    assert found.state_size == 10 + 7
    moved = found.relocated(CheckpointFileSystem(str(tmp_path)))
    assert moved.files() == {f"{tmp_path}/{name}" for name in found.files()}


def test_a_manifest_without_data_in_flight_says_nothing_of_it():
    assert b"in_flight" not in encode(manifest())


def test_no_savepoint_is_made_of_data_in_flight(tmp_path):
    with pytest.raises(CheckpointError, match="checkpoint 1 is unaligned"):
        write_savepoint(unaligned(), None, str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_vertex_is_as_far_as_its_slowest_subtask():
    vertex = VertexSnapshot((SubtaskSnapshot(5, True, 1), SubtaskSnapshot(3, False, 7)))
    assert (vertex.watermark, vertex.finished, vertex.next_wakeup) == (3, False, 7)
    assert manifest(vertices={"a": vertex}).next_wakeup == 7
    assert manifest(vertices={}).next_wakeup is None


def test_unmatched_operators_are_reported():
    stateless = OperatorSnapshot(None, "map", "sum", 128, (StateChain(),))
    before = manifest(files=("a",))
    before = manifest(operators={**before.operators, "map": stateless})
    assert before.unmatched(["total", "source"]) == {}
    assert before.unmatched([]) == {"source": "splits", "total": "state"}


def test_the_layout_is_that_of_flink(store, tmp_path):
    store.write(manifest(3))
    files = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())
    assert files == ["job/_latest", "job/chk-3/_metadata"]
    assert store.staging == f"{tmp_path}/job/staging"


def test_the_latest_is_the_newest_by_number(store):
    assert store.latest() is None
    for checkpoint_id in (9, 10, 8):
        store.write(manifest(checkpoint_id))
    assert store.list_checkpoint_ids() == [8, 9, 10]
    assert store.latest() == manifest(10)
    assert store.read(8) == manifest(8)
    store.delete(10)
    assert (store.list_checkpoint_ids(), store.latest().checkpoint_id) == ([8, 9], 9)


def damage(store, checkpoint_id):
    name = f"chk-{checkpoint_id}/_metadata"
    store.storage.write_atomic(name, store.storage.read(name)[:-20])


def test_a_damaged_manifest_is_left_out_with_a_warning_that_names_it(store, caplog):
    for checkpoint_id in (1, 2):
        store.write(manifest(checkpoint_id))
    damage(store, 1)
    with caplog.at_level(logging.WARNING):
        assert store.read_all() == [manifest(2)]
    assert "chk-1/_metadata' is damaged: skipping it" in caplog.text
    assert store.latest() == manifest(2)


def lose(store, checkpoint_id):
    store.storage.delete_tree(f"chk-{checkpoint_id}")


@pytest.mark.parametrize(
    ("hurt", "problem"),
    [(damage, "chk-5/_metadata' is damaged"), (lose, "chk-5/_metadata' is missing")],
    ids=["damaged", "gone"],
)
def test_a_job_whose_last_manifest_cannot_be_read_does_not_go_back_by_itself(store, hurt, problem):
    for checkpoint_id in (2, 3, 4, 5):
        store.write(manifest(checkpoint_id))
    damage(store, 4)
    hurt(store, 5)
    with pytest.raises(UnreadableCheckpointError, match="checkpoint 5 of job job") as raised:
        store.latest()
    assert problem in raised.value.detail
    assert "The last one before it is checkpoint 3" in raised.value.detail
    assert (
        "2 checkpoint intervals, 4 to 5, again and publishes again what they have already published"
        in raised.value.detail
    )
    assert "penstock.recovery.allow-fallback" in raised.value.hint


@pytest.mark.parametrize("hurt", [damage, lose], ids=["damaged", "gone"])
def test_a_job_that_may_go_back_does_so_once(store, hurt, caplog):
    for checkpoint_id in (2, 3, 4, 5):
        store.write(manifest(checkpoint_id))
    damage(store, 4)
    hurt(store, 5)
    with caplog.at_level(logging.WARNING):
        assert store.latest(allow_fallback=True) == manifest(3)
    assert "Falling back to checkpoint 3" in caplog.text
    assert store.list_checkpoint_ids() == [2, 3]
    assert store.latest() == manifest(3)
    store.write(manifest(4))
    assert store.latest() == manifest(4)


def test_a_job_that_may_go_back_and_has_nothing_to_go_back_to_is_refused(store):
    store.write(manifest(7))
    lose(store, 7)
    with pytest.raises(UnreadableCheckpointError) as raised:
        store.latest(allow_fallback=True)
    assert "There is no readable checkpoint before it" in raised.value.detail
    assert "allow-fallback" not in raised.value.hint


def test_a_driver_that_was_killed_between_a_manifest_and_its_mark_goes_on_from_it(store):
    for checkpoint_id in (1, 2):
        store.write(manifest(checkpoint_id))
    store._point_at(1)
    assert store.latest() == manifest(2)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_a_mark_that_cannot_be_read_marks_nothing(store, content, caplog):
    store.write(manifest(1))
    store.storage.write_atomic("_latest", content)
    assert store.latest() == manifest(1)
    assert "_latest'" in caplog.text


def test_a_job_whose_manifests_are_all_damaged_does_not_start_from_nothing(store):
    store.write(manifest(1))
    damage(store, 1)
    with pytest.raises(UnreadableCheckpointError, match="cannot be restored"):
        store.latest()
    with pytest.raises(UnreadableCheckpointError, match="cannot be restored"):
        store.latest(allow_fallback=True)


def test_partially_written_manifest_is_invisible(store):
    store.storage.write_new("chk-4/._metadata.123.tmp", b"half")
    assert store.list_checkpoint_ids() == []
    assert store.latest() is None


def test_writing_the_same_manifest_twice_is_writing_it_once(store):
    store.write(manifest(1))
    store.write(manifest(1))
    assert store.latest() == manifest(1)


def test_two_drivers_cannot_both_complete_an_epoch(store):
    store.write(manifest(1))
    with pytest.raises(CheckpointError, match="checkpoint 1 of job job already exists"):
        store.write(manifest(1, files=("shared/1-sum-0-b.state",)))
    assert store.latest() == manifest(1)


def test_damaged_manifest_is_written_again(store):
    store.write(manifest(1))
    damage(store, 1)
    store.write(manifest(1, files=("a",)))
    assert store.latest() == manifest(1, files=("a",))


def test_state_files_are_listed_and_deleted(store):
    for name in ("shared/1-a.state", "shared/2-a.state", "staging/x"):
        store.storage.write_new(name, b"")
    store.delete_files(("shared/1-a.state", "shared/gone.state"))
    assert store.list_state_files() == ["shared/2-a.state"]


@pytest.mark.parametrize("job_id", ["", "a/b", "..", ".x"])
def test_a_job_id_is_the_name_of_a_directory(job_id, tmp_path):
    with pytest.raises(ArgumentError, match="invalid job id"):
        ManifestStore(CheckpointFileSystem(str(tmp_path)), job_id)


@pytest.mark.parametrize(
    ("path", "checkpoint_id"),
    [
        ("job", 12),
        ("job/", 12),
        ("job/chk-2", 2),
        ("job/chk-2/", 2),
        ("job/chk-2/_metadata", 2),
        ("job/chk-2/../chk-12", 12),
    ],
)
@pytest.mark.parametrize("kind", ["path", "uri", "relative"])
def test_a_restore_path_is_a_job_or_a_checkpoint(
    store, tmp_path, monkeypatch, path, checkpoint_id, kind
):
    for number in (2, 12):
        store.write(manifest(number, files=("shared/x.state",)))
    monkeypatch.chdir(tmp_path)
    base = {"path": f"{tmp_path}/", "uri": f"file://{tmp_path}/", "relative": ""}[kind]
    found = resolve_restore_path(base + path)
    assert found.manifest.checkpoint_id == checkpoint_id
    assert {name.replace("chk-2/../", "") for name in found.manifest.files()} == {
        f"{tmp_path}/job/shared/x.state"
    }


@pytest.mark.parametrize("path", ["", "job/chk-3", "jobs", "job/shared", "job/chk-x"])
def test_another_path_is_refused_with_the_two_that_would_do(store, tmp_path, path):
    store.write(manifest(2))
    with pytest.raises(CheckpointError, match="no checkpoint at") as raised:
        resolve_restore_path(f"{tmp_path}/{path}")
    assert "chk-<N>" in raised.value.hint


def test_a_damaged_checkpoint_that_was_asked_for_is_not_replaced_by_another(store, tmp_path):
    for checkpoint_id in (1, 2):
        store.write(manifest(checkpoint_id))
    damage(store, 2)
    with pytest.raises(DamagedManifestError):
        resolve_restore_path(f"{tmp_path}/job/chk-2")


def test_a_value_that_plain_pickle_cannot_take_is_pickled_by_value():
    assert Pickled.of(lambda: 5).load()() == 5


def test_a_value_that_cannot_be_pickled_is_named():
    with pytest.raises(CheckpointError, match="the splits of 'source' cannot be pickled"):
        Pickled.of((number for number in [1]), "the splits of 'source'")


def test_bytes_that_cannot_be_unpickled_are_named():
    with pytest.raises(CheckpointError, match="could not unpickle the splits of the checkpoint"):
        Pickled(b"cnosuchmodule\nThing\n.").load("the splits")

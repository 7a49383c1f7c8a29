"""Savepoints of programs: self-contained, exact, and good for any parallelism and backend."""

from __future__ import annotations

import pickle
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import MIN_WATERMARK, DamagedManifestError
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.runtime.state.backends import read_chain
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.savepoint.reader import dispose_savepoint, is_savepoint, list_tables, read_savepoint
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.savepoint.writer import safe_name, write_savepoint
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.clusters import close_subtasks
from tests.builders.environments import stateful_environment
from tests.builders.values import exact
from tests.jobs.savepoint.programs import matches_and_pairs, run

BACKENDS = ("hashmap", "rocksdb")
NOWHERE = SnapshotStateIO("/nowhere")


class Job:
    """A job that has run, with all its checkpoints."""

    def __init__(self, backend, directory, results):
        self.backend = backend
        self.directory = directory
        self.results = results
        (path,) = Path(directory, "checkpoints").iterdir()
        self.store = ManifestStore.at(CheckpointFileSystem(str(path)))
        self.manifests = {manifest.checkpoint_id: manifest for manifest in self.store.read_all()}
        self.state_io = SnapshotStateIO(str(path))

    def middle(self):
        """A checkpoint with state everywhere: windows are open, timers pending."""
        epochs = sorted(self.manifests)
        return self.manifests[epochs[len(epochs) // 2]]

    def operator(self, uid):
        """The id of an operator."""
        (found,) = [name for name, op in self.middle().operators.items() if op.uid == uid]
        return found

    def savepoint(self, target, manifest=None, **options):
        return write_savepoint(manifest or self.middle(), self.state_io, str(target), **options)


@pytest.fixture(scope="module", params=BACKENDS)
def job(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    with MiniCluster():
        options = {"penstock.state.inline-threshold": "1 kb"}
        results = run(stateful_environment(request.param, directory, **options))
    close_subtasks()
    return Job(request.param, directory, results)


@pytest.fixture
def moved(job, tmp_path):
    """A savepoint in another place than the one it was written to, which is gone."""
    path = job.savepoint(tmp_path / "first")
    shutil.copytree(path, tmp_path / "second" / "copy")
    shutil.rmtree(tmp_path / "first")
    return str(tmp_path / "second" / "copy")


def tables_of(state_io, chains, max_parallelism, owned=None):
    """All entries of some chains, exactly, by table; with the tables' schemas."""
    found = {}
    for chain in chains:
        merged = {}
        for tables in read_chain(state_io, chain, max_parallelism, owned):
            for name, delta in tables.items():
                schema, entries = merged.setdefault(name, (delta.schema, {}))
                for entry in delta.removed:
                    entries.pop(entry, None)
                entries.update(delta.written)
        for name, (schema, entries) in merged.items():
            for entry, value in entries.items():
                found.setdefault((name, schema), {})[exact(entry)] = exact(value)
    return found


def test_a_savepoint_has_exactly_the_state_of_its_checkpoint_wherever_it_is(job, moved):
    before, after = job.middle(), read_savepoint(moved)
    kinds = set()
    for name, operator in before.operators.items():
        groups = operator.max_parallelism
        for old, new in zip(operator.subtasks, after.operators[name].subtasks, strict=True):
            expected = tables_of(job.state_io, [old], groups)
            assert tables_of(NOWHERE, [new], groups) == expected
            kinds |= {table for table, _ in expected}
    assert kinds >= {
        "state/count",
        "state/seen",
        "state/last",
        "state/sum",
        "state/mean",
        "state/mixed",
        "state/old count",
        "state/old/seen",
        "state/old last",
        "timers/event",
        "timers/processing",
        "reduced",
    }
    assert any(table.startswith("panes/") for table in kinds)


def test_any_checkpoint_of_a_job_can_become_a_savepoint(job, tmp_path):
    for manifest in list(job.manifests.values())[::4]:
        after = read_savepoint(job.savepoint(tmp_path, manifest))
        for name, operator in manifest.operators.items():
            groups = operator.max_parallelism
            assert tables_of(NOWHERE, after.operators[name].subtasks, groups) == tables_of(
                job.state_io, operator.subtasks, groups
            )


def test_a_savepoint_keeps_all_else_of_its_checkpoint(job, moved):
    before, after = job.middle(), read_savepoint(moved)
    for name in ("job_id", "job_name", "checkpoint_id", "created_ms", "watermarks", "parallelism"):
        assert getattr(after, name) == getattr(before, name)
    assert (after.commits, after.final) == ({}, False)
    assert before.commits
    for name, vertex in before.vertices.items():
        for old, new in zip(vertex.subtasks, after.vertices[name].subtasks, strict=True):
            assert exact(pickle.loads(new.local)) == exact(pickle.loads(old.local))
            assert (new.finished, new.next_wakeup) == (old.finished, old.next_wakeup)
            assert new.attempt is None
    read_on = False
    for name, source in before.sources.items():
        restored = after.sources[name]
        assert exact(restored.load_enumerator()) == exact(source.load_enumerator())
        splits = [source.load_splits(subtask) for subtask in range(source.parallelism)]
        assert [restored.load_splits(s) for s in range(restored.parallelism)] == splits
        read_on |= any(splits)
    assert read_on
    for name, operator in before.operators.items():
        restored = after.operators[name]
        for field in ("uid", "name", "vertex", "max_parallelism", "parallelism"):
            assert getattr(restored, field) == getattr(operator, field)


def test_operator_state_is_part_of_a_savepoint(moved):
    manifest = read_savepoint(moved)
    names = {
        name
        for vertex in manifest.vertices.values()
        for subtask in vertex.subtasks
        for state in pickle.loads(subtask.local)["operators"].values()
        for name in state
    }
    assert {"list/numbers", "union/highest", "broadcast/rules", "emitted", "idle"} <= names


def test_the_metadata_can_be_read_by_people(moved):
    text = Path(moved, "_metadata").read_text()
    assert text.startswith('{"format": "penstock-savepoint", "sha256": "')
    assert '"list/numbers": [' in text
    assert max(map(len, text.splitlines())) < 400
    assert "$pickle" not in text


@pytest.mark.parametrize("parallelism", [1, 3, 32])
def test_subtasks_of_any_number_share_the_state(moved, parallelism):
    manifest = read_savepoint(moved)
    for operator in manifest.operators.values():
        groups = operator.max_parallelism
        together = {}
        for subtask in range(parallelism):
            owned = key_group_range(subtask, parallelism, groups)
            backend = HashMapKeyedStateBackend(lambda: 0)
            assert backend.restore(NOWHERE, operator.subtasks, owned, groups) is None
            for name, delta in backend.full_snapshot().items():
                keys = [key[0] if delta.namespaced else key for key in delta.written]
                assert all(key_group_of(key, groups) in owned for key in keys)
                part = {exact(key): exact(value) for key, value in delta.written.items()}
                assert not together.setdefault((name, delta.schema), {}).keys() & part.keys()
                together[name, delta.schema] |= part
        together = {key: entries for key, entries in together.items() if entries}
        assert together == tables_of(NOWHERE, operator.subtasks, groups)


def test_the_next_snapshot_after_a_savepoint_is_a_full_one_of_the_jobs_own(moved):
    """So that the savepoint may be deleted as soon as there is a checkpoint."""
    for operator in read_savepoint(moved).operators.values():
        for chain in operator.subtasks:
            if chain:
                backend = HashMapKeyedStateBackend(lambda: 0)
                assert backend.restore(NOWHERE, (chain,), None, operator.max_parallelism) is None


def test_a_savepoint_of_a_savepoint_is_the_same(moved, tmp_path):
    first = read_savepoint(moved)
    second = read_savepoint(write_savepoint(first, NOWHERE, str(tmp_path / "third")))
    for name, operator in first.operators.items():
        groups = operator.max_parallelism
        assert tables_of(NOWHERE, second.operators[name].subtasks, groups) == tables_of(
            NOWHERE, operator.subtasks, groups
        )


def test_the_tables_of_a_savepoint_are_listed(job, moved):
    tables = list_tables(moved)
    counts = [table for table in tables if table.name == "state/count"]
    name = job.operator("everything")
    expected = job.middle().operators[name]
    entries = tables_of(job.state_io, expected.subtasks, expected.max_parallelism)
    assert {table.operator for table in counts} == {name}
    (found,) = [len(values) for (name, _), values in entries.items() if name == "state/count"]
    assert sum(table.rows for table in counts) == found
    assert all(Path(file.name).is_relative_to(moved) for table in tables for file in table.files)


# Jobs that start from a savepoint


def resumed(path, backend, directory, parallelism):
    options = {"execution.state-recovery.path": path}
    with MiniCluster():
        results = run(stateful_environment(backend, directory, parallelism, **options))
    close_subtasks()
    return results


@pytest.mark.parametrize(
    ("parallelism", "other_backend"),
    [
        pytest.param(2, False, id="the same", marks=pytest.mark.full),
        pytest.param(1, True, id="smaller, other backend"),
        pytest.param(3, True, id="larger, other backend"),
        pytest.param(3, False, id="larger", marks=pytest.mark.full),
    ],
)
def test_a_job_goes_on_from_a_savepoint(job, moved, tmp_path, parallelism, other_backend):
    copy = ManifestStore(CheckpointFileSystem(str(tmp_path)), "copy")
    # A checkpoint commits its own output again, a savepoint does not.
    copy.write(replace(job.middle(), commits={}).relocated(job.store.storage))
    checkpoint = copy.storage.path(f"chk-{job.middle().checkpoint_id}")
    expected = resumed(checkpoint, job.backend, tmp_path / "expected", 2)
    assert 0 < len(expected) < len(job.results)
    backends = set(BACKENDS) - {job.backend} if other_backend else {job.backend}
    assert resumed(moved, backends.pop(), tmp_path / "resumed", parallelism) == expected


@contextmanager
def stopping_with_a_savepoint(cluster, target, checkpoint_id):
    """Ask for a savepoint before an epoch, with which the job ends; yield a list that gets the answer."""
    answers = []

    def hook(moment, number):
        if (moment, number) == ("before run_pipe", checkpoint_id):
            answers.append(cluster.masters[0].request_savepoint(str(target), stops=True))

    with watched_steps(hook):
        yield answers


def test_a_job_moves_from_place_to_place_and_nothing_is_lost(tmp_path):
    """Three runs, each with another parallelism, backend, job name and directory."""
    runs = [("hashmap", 1, 4), ("rocksdb", 7, 8), ("hashmap", 3, None)]
    found, options = [], {}
    for backend, parallelism, checkpoint_id in runs:
        home = tmp_path / f"run {parallelism}"
        with (
            MiniCluster() as cluster,
            stopping_with_a_savepoint(cluster, home, checkpoint_id) as answers,
        ):
            settings = {"pipeline.name": home.name, **options}
            found += matches_and_pairs(stateful_environment(backend, home, parallelism, **settings))
        close_subtasks()
        for answer in answers:
            elsewhere = shutil.move(answer.result(0), tmp_path / f"moved {parallelism}")
            options = {"execution.state-recovery.path": elsewhere}
        shutil.rmtree(home)
    with MiniCluster():
        expected = matches_and_pairs(stateful_environment("hashmap", tmp_path / "at once", 2))
    close_subtasks()
    assert sorted(found) == sorted(expected)
    assert {eval(each)[0] for each in found} == {"match", "pair", "session"}


def test_a_job_needs_its_savepoint_no_more_after_its_first_checkpoint(job, moved, tmp_path):
    resumed(moved, job.backend, tmp_path / "resumed", 2)
    new = Job(job.backend, tmp_path / "resumed", None)
    for manifest in new.manifests.values():
        assert not [file for file in manifest.files() if file.startswith("/")]


# Draining


def test_a_drained_savepoint_is_at_the_start_of_time(job, tmp_path):
    last = job.manifests[max(job.manifests)]
    assert all(vertex.finished for vertex in last.vertices.values())
    manifest = read_savepoint(job.savepoint(tmp_path, last, drained=True))
    for vertex in manifest.vertices.values():
        assert (vertex.watermark, vertex.finished) == (MIN_WATERMARK, False)
        for subtask in vertex.subtasks:
            local = pickle.loads(subtask.local)
            assert (*local["valve"], local["floor"]) == (MIN_WATERMARK, False, [], MIN_WATERMARK)
            assert local["finished"] is False
            names = {name for state in local["operators"].values() for name in state}
            assert not names & {"emitted", "idle", "watermark", "timer watermark"}
    assert not manifest.final


def test_a_savepoint_that_is_not_drained_keeps_time(job, tmp_path):
    last = job.manifests[max(job.manifests)]
    manifest = read_savepoint(job.savepoint(tmp_path, last))
    assert manifest.watermarks == last.watermarks
    assert all(vertex.finished for vertex in manifest.vertices.values())
    assert not manifest.final


def test_drained_savepoint_keeps_positions_and_user_state(job, tmp_path):
    last = job.manifests[max(job.manifests)]
    manifest = read_savepoint(job.savepoint(tmp_path, last, drained=True))
    for name, source in last.sources.items():
        for subtask in range(source.parallelism):
            assert manifest.sources[name].load_splits(subtask) == source.load_splits(subtask)
    everywhere = [
        pickle.loads(subtask.local)["operators"]
        .get(job.operator("remember"), {})
        .get("list/numbers", [])
        for vertex in manifest.vertices.values()
        for subtask in vertex.subtasks
    ]
    assert sorted(number for numbers in everywhere for number, _ in numbers) == list(range(60))


# The directory


def test_the_directory_is_named_after_the_job_and_has_nothing_else(job, tmp_path):
    path = Path(job.savepoint(tmp_path))
    assert path.parent == tmp_path
    assert path.name.startswith(f"savepoint-{job.middle().job_id[:6]}-")
    assert len(path.name.rpartition("-")[2]) == 12
    manifest = read_savepoint(str(path))
    files = {str(file) for file in path.rglob("*") if file.is_file()}
    assert files == manifest.files() | {str(path / "_metadata")}
    assert any(
        file.startswith(f"{path}/state/{job.operator('everything')}/state.count-") for file in files
    )


def test_two_savepoints_of_one_checkpoint_do_not_meet(job, tmp_path):
    one, other = job.savepoint(tmp_path), job.savepoint(tmp_path)
    assert one != other
    dispose_savepoint(one)
    assert read_savepoint(other).checkpoint_id == job.middle().checkpoint_id


@pytest.mark.parametrize("keep_suffix", [False, True], ids=["directory", "metadata file"])
def test_a_savepoint_is_known_by_its_metadata(job, moved, keep_suffix):
    assert is_savepoint(f"{moved}/_metadata" if keep_suffix else f"{moved}/")
    assert read_savepoint(f"{moved}/_metadata").job_id == job.middle().job_id
    checkpoint = job.store.storage.path(f"chk-{job.middle().checkpoint_id}")
    assert not is_savepoint(checkpoint)
    assert not is_savepoint(f"{moved}/state")
    assert not is_savepoint(f"{moved}/nothing")


def test_tasks_that_run_twice_leave_nothing(job, tmp_path):
    def run_twice(function, items):
        pickled = pickle.dumps((function, items))
        for _ in range(2):
            function, items = pickle.loads(pickled)
            results = [function(item) for item in items]
        return reversed(results)

    path = job.savepoint(tmp_path, run=run_twice)
    manifest = read_savepoint(path)
    files = {str(file) for file in Path(path, "state").rglob("*") if file.is_file()}
    assert files == manifest.files()


@pytest.mark.parametrize("after", [0, 3])
def test_a_savepoint_that_fails_leaves_nothing(job, tmp_path, after):
    def fail(function, items):
        for item in items[:after]:
            yield function(item)
        raise RuntimeError("as planned")

    with pytest.raises(RuntimeError, match="as planned"):
        job.savepoint(tmp_path / "target", run=fail)
    assert list((tmp_path / "target").glob("*")) == []


def test_a_savepoint_of_which_a_part_was_not_written_is_none(job, tmp_path):
    with pytest.raises(CheckpointError, match="the savepoint is not complete"):
        job.savepoint(tmp_path, run=lambda function, items: map(function, items[1:]))
    assert list(tmp_path.iterdir()) == []


def test_the_metadata_is_written_last(job, tmp_path, monkeypatch):
    seen = []

    def refuse(self, name, data):
        seen.append((name, sorted(self.list())))
        raise CheckpointError("no space")

    monkeypatch.setattr(CheckpointFileSystem, "write_atomic", refuse)
    with pytest.raises(CheckpointError, match="no space"):
        job.savepoint(tmp_path)
    ((name, files),) = seen
    assert name == "_metadata"
    assert files
    assert list(tmp_path.iterdir()) == []


# Damage, and deleting


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda data: data[:-2], "is damaged", id="truncated"),
        pytest.param(
            lambda data: data.replace(b'"checkpoint_id"', b'"checkpoint_ix"'),
            "is damaged",
            id="altered",
        ),
        pytest.param(lambda data: b"", "is not a savepoint", id="empty"),
        pytest.param(lambda data: b"x" + data, "is not a savepoint", id="first line"),
    ],
)
def test_damaged_metadata_is_refused(moved, damage, message):
    file = Path(moved, "_metadata")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CheckpointError, match=message) as raised:
        read_savepoint(moved)
    assert moved in raised.value.message
    assert raised.value.hint
    assert isinstance(raised.value, DamagedManifestError) == (message == "is damaged")


def test_a_path_without_savepoint_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no savepoint at"):
        read_savepoint(str(tmp_path / "nothing"))


def test_a_savepoint_of_a_later_version_is_refused(job, tmp_path, monkeypatch):
    from penstock.savepoint import metadata

    monkeypatch.setattr(metadata, "VERSION", 2)
    path = job.savepoint(tmp_path)
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match="has format version 2, but this version of Penstock reads 1"
    ):
        read_savepoint(path)


def test_a_savepoint_is_deleted_with_all_it_has(moved):
    dispose_savepoint(moved)
    assert not Path(moved).exists()


def test_deleting_spares_files_of_others(moved):
    Path(moved, "notes.txt").write_text("mine")
    dispose_savepoint(moved)
    assert [file.name for file in Path(moved).iterdir()] == ["notes.txt"]


def test_a_damaged_savepoint_can_be_deleted(moved):
    file = Path(moved, "_metadata")
    file.write_bytes(file.read_bytes()[:-1])
    dispose_savepoint(moved)
    assert not Path(moved).exists()


def test_directory_that_is_not_a_savepoint_is_not_deleted(job, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "file").write_text("mine")
    checkpoint = job.store.storage.path(f"chk-{job.middle().checkpoint_id}")
    for path in (str(tmp_path), checkpoint, str(tmp_path / "nothing")):
        with pytest.raises(CheckpointError, match="is not a savepoint: nothing was deleted"):
            dispose_savepoint(path)
    assert (tmp_path / "state" / "file").exists()
    assert Path(checkpoint, "_metadata").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("state/count", "state.count", id="table"),
        pytest.param("..", "-fb5bde96", id="dots"),
        pytest.param("a b", "a_b-", id="space"),
        pytest.param("x" * 300, "x" * 80 + "-", id="long"),
    ],
)
def test_names_are_safe_on_any_file_system(text, expected):
    found = safe_name(text)
    assert found.startswith(expected[:1] if text == ".." else expected)
    assert "/" not in found
    assert found not in {".", ".."}
    assert len(found) < 100


def test_an_empty_chain_stays_empty(job, tmp_path):
    manifest = job.manifests[min(job.manifests)]
    path = job.savepoint(tmp_path, manifest)
    for name, operator in read_savepoint(path).operators.items():
        for subtask, chain in enumerate(operator.subtasks):
            if not manifest.operators[name].subtasks[subtask]:
                assert chain == StateChain()

"""Reading the state of a job that runs, and deletes its checkpoints meanwhile."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import state
from penstock.checkpoint.handles import DamagedStateError
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.cli.main import main
from penstock.files.faults import set_fault_hook
from penstock.state import CheckpointDeletedError
from tests.builders.clusters import own_cluster
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import checkpoint, run_everything

# So many that no file of the first checkpoint is part of the last one.
COUNT = 20
MIDDLE = 10


class RunningJob:
    """The directory of a job that keeps one checkpoint. It moves on when the test says so."""

    def __init__(self, recorded, directory):
        self._recorded = Path(recorded)
        self.directory = Path(directory, "job")
        self.move_to(1)

    def move_to(self, checkpoint_id):
        """Complete a checkpoint; delete the one before it, as retention does."""
        store = ManifestStore.at(CheckpointFileSystem(str(self._recorded)))
        needed = {f"chk-{checkpoint_id}/_metadata", *store.read(checkpoint_id).files()}
        for name in needed:
            target = self.directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._recorded / name, target)
        for path in sorted(self.directory.rglob("*")):
            if path.is_file() and str(path.relative_to(self.directory)) not in needed:
                path.unlink()

    @contextmanager
    def moving(self, when, *epochs):
        """Move on, to one epoch after the other, whenever a file below `when` is to be read; None lets it be read."""
        left = list(epochs)
        begin = f"{self.directory}/{when}"

        def hook(action, path, call):
            if action == "read" and path.startswith(begin) and left:
                checkpoint_id = left.pop(0)
                if checkpoint_id is not None:
                    self.move_to(checkpoint_id)
            return call()

        before = set_fault_hook(hook)
        try:
            yield
        finally:
            set_fault_hook(before)
        assert left == []


@pytest.fixture(scope="module")
def recorded(backend, tmp_path_factory):
    directory = tmp_path_factory.mktemp("running")
    options = {"penstock.state.inline-threshold": "1 b"}
    with own_cluster():
        run_everything(
            stateful_environment(backend, directory, **options),
            [[("ann", n)] for n in range(1, COUNT + 1)],
        )
    return checkpoint(directory)


@pytest.fixture
def job(recorded, tmp_path):
    return RunningJob(recorded, tmp_path)


def total(snapshot):
    return [(row.key, row.value) for row in snapshot.state("all", "total")]


def sum_to(checkpoint_id):
    return checkpoint_id * (checkpoint_id + 1) // 2


def test_a_manifest_that_goes_before_it_is_read_gives_way_to_a_newer_one(job):
    with job.moving("chk-", MIDDLE, COUNT):
        snapshot = state.read(job.directory)
    assert (snapshot.checkpoint_id, total(snapshot)) == (COUNT, [("ann", sum_to(COUNT))])


def test_a_job_that_is_always_faster_is_an_error_that_says_so(job):
    with (
        job.moving("chk-", *[2, 3] * 5),
        pytest.raises(CheckpointDeletedError, match="faster than they can be read") as raised,
    ):
        state.read(job.directory)
    assert "num-retained" in raised.value.hint


def test_a_checkpoint_that_goes_before_it_is_read_is_missed(job):
    with (
        job.moving("chk-", None, 2),
        pytest.raises(CheckpointDeletedError, match="checkpoint 1 was"),
    ):
        state.read(job.directory / "chk-1")


def test_tables_of_a_checkpoint_that_was_deleted_tell_that_it_was(job):
    snapshot = state.read(job.directory)
    described = snapshot.state("all", "total")
    unread = state.read(job.directory)
    job.move_to(COUNT)
    reads = {
        "rows": lambda: list(unread.state("all", "total")),
        "catalog": lambda: unread.operators,
        "overview": lambda: str(unread),
    }
    if snapshot.databases._fetched == {}:  # else it has all that it needs in a copy of its own
        reads["a table from before"] = lambda: list(described)
    for read in reads.values():
        with pytest.raises(CheckpointDeletedError, match="checkpoint 1 was deleted") as raised:
            read()
        assert raised.value.hint.startswith("read the newest one again")
    assert total(state.read(job.directory)) == [("ann", sum_to(COUNT))]


def test_a_file_that_is_missing_from_a_checkpoint_that_is_there_is_damage(job):
    snapshot = state.read(job.directory)
    for path in (job.directory / "shared").iterdir():
        path.unlink()
    with pytest.raises(DamagedStateError, match="does not exist"):
        list(snapshot.state("all", "total"))


@pytest.mark.parametrize("when", ["chk-", "shared/"])
def test_the_command_line_begins_again_with_the_newest_checkpoint(job, capsys, when):
    with job.moving(when, COUNT):
        assert main(["state", "ls", str(job.directory)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"checkpoint {COUNT} of job ")
    assert printed.count("checkpoint") == 1


@pytest.mark.parametrize("output", ["json", "csv", "table"])
def test_nothing_of_the_deleted_checkpoint_is_printed(job, capsys, output):
    with job.moving("shared/", MIDDLE, COUNT):
        command = ["state", "show", str(job.directory), "all", "total", "--format", output]
        assert main(command) == 0
    rows = {
        "json": json.dumps({"key": "ann", "value": sum_to(COUNT)}),
        "csv": f"key,value\nann,{sum_to(COUNT)}",
        "table": f"key  value\nann  {sum_to(COUNT)}",
    }
    assert capsys.readouterr().out.strip() == rows[output]


def test_a_comparison_begins_again_too(job, recorded, capsys):
    with job.moving("shared/", COUNT):
        before = f"{recorded}/chk-{COUNT - 1}"
        assert main(["state", "diff", before, str(job.directory), "--format", "csv"]) == 0
    assert f"all,total,ann,,changed,{sum_to(COUNT - 1)},{sum_to(COUNT)}" in capsys.readouterr().out


def test_a_named_checkpoint_that_goes_is_an_error(job, capsys):
    with job.moving("shared/", COUNT):
        assert main(["state", "ls", str(job.directory / "chk-1")]) != 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no checkpoint at" in printed.err

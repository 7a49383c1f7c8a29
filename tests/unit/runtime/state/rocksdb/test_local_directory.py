"""What stays on the disk of an executor, and what goes."""

from __future__ import annotations

import os
import time

import pytest

from penstock.runtime.state.rocksdb import local_directory
from penstock.runtime.state.rocksdb.local_directory import LocalDirectory

A_WEEK_AGO = time.time() - 7 * 24 * 3600
DEAD = 999_999_999


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    monkeypatch.setattr(local_directory, "_swept", set())


def leave(root, name, *, modified):
    """Make a directory as a job has it, last changed at some time."""
    path = root / "penstock-rocksdb" / "other-job" / "0.0-0" / name
    path.mkdir(parents=True)
    (path / "000012.sst").write_bytes(b"x")
    for directory in (path, path.parent, path.parent.parent):
        os.utime(directory, (modified, modified))
    return path


@pytest.mark.parametrize(
    ("name", "modified", "stays"),
    [
        pytest.param(f"work-{os.getpid()}-3", A_WEEK_AGO, True, id="idle, its process lives"),
        pytest.param(f"work-{DEAD}-3", A_WEEK_AGO, False, id="its process is gone"),
        pytest.param("snap-7-op-0-a1", A_WEEK_AGO, False, id="a snapshot nobody has opened"),
        pytest.param(f"work-{DEAD}-3", time.time(), True, id="not forgotten yet"),
    ],
)
def test_files_of_other_jobs_go_when_nobody_has_used_them_for_a_day(
    tmp_path, name, modified, stays
):
    left = leave(tmp_path, name, modified=modified)
    LocalDirectory((str(tmp_path),), "this-job", "0.0", 0).new()
    assert left.exists() == stays


def test_subtasks_are_spread_over_the_directories(tmp_path):
    roots = [str(tmp_path / "a"), str(tmp_path / "b")]
    used = [LocalDirectory(roots, "job", "0.0", subtask).path for subtask in range(4)]
    assert [path.parents[2].name for path in used] == ["a", "b", "a", "b"]

"""Exactly once on checkpoint storage that fails: now and then, or because it is full."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_harness import NewRun, computed, existing, judge

from penstock.testing.storage_faults import StorageFaults
from tests.builders.modes import WAYS, Way, ways

EPISODES = 2  # of a full disk, on state files and on manifests each
TMPFS_SIZE = 4 * 1024 * 1024


@pytest.mark.parametrize("way", ways(WAYS[0]), ids=str)
def test_storage_that_fails_every_third_write_costs_time_only(
    way: Way, new_run: NewRun, seed: str
) -> None:
    run = new_run(way=way, released=True)
    with run.without_end():
        run.start(environment=StorageFaults(every=3).environment())
        assert run.wait_until(lambda: run.said("retrying") >= 20), run.story()
    assert run.wait() == 0, run.story()
    run.strike("write fails", run.said("retrying"), interrupts=False)
    judge(run, computed(run.records), seed)
    # In pipelined mode, a process writes with several threads, and a write that is tried again may be a third one every time.
    assert way.pipelined or run.restarts() == 0, run.story()


def test_a_job_goes_on_when_the_disk_is_no_longer_full(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(way=way, released=True)
    is_full = run.directory / "is-full"
    with run.without_end():
        for path in ("/shared/", "/_metadata"):  # tasks write the former, the driver the latter
            faults = StorageFaults(full=True, path=path, while_exists=str(is_full))
            run.start(environment=faults.environment())
            for _ in range(EPISODES):
                assert run.wait_for_epochs(rng.randint(1, 3)), run.story()
                run.survive(existing(is_full))
            if path == "/shared/":
                assert run.kill_driver(), run.story()
    assert run.wait() == 0, run.story()
    judge(run, computed(run.records), seed)
    assert run.said("checkpoint storage is full") >= 2 * EPISODES, run.story()


def test_a_job_goes_on_when_a_real_disk_is_no_longer_full(
    way: Way, new_run: NewRun, rng: random.Random, seed: str
) -> None:
    run = new_run(way=way, released=True)
    with small_disk(run.directory / "checkpoints") as disk:
        with run.without_end():
            run.start()
            for _ in range(EPISODES):
                assert run.wait_for_epochs(rng.randint(1, 3)), run.story()
                run.survive(filled(disk))
        assert run.wait() == 0, run.story()
        judge(run, computed(run.records), seed)
    assert run.said("checkpoint storage is full") >= EPISODES, run.story()


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of a few megabytes, for as long as it takes."""
    directory.mkdir(parents=True)
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_SIZE}", "tmpfs", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounting.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No space on a disk meanwhile."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for _ in range(TMPFS_SIZE):
            os.write(file.fileno(), b"\0" * 4096)
    yield
    filler.unlink()

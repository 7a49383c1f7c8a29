"""Pipelined jobs whose driver and slots die at any moment, again and again: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.checkpoint.manifest import decode
from tests.builders.counting_job import KEYS
from tests.jobs.checkpoint import killed_drivers

DEATHS = int(os.environ.get("PENSTOCK_DEATHS", "6"))
UNALIGNED = {
    "execution.checkpointing.unaligned.enabled": "true",
    "taskmanager.memory.segment-size": "1 kb",
}
WAYS = {
    "hashmap": {},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "several at a time": {"execution.checkpointing.max-concurrent-checkpoints": "3"},
    "unaligned": UNALIGNED,
    "modes in turn": UNALIGNED,
}


# What they have the others have too.
CONTAINED = ("hashmap", "unaligned")


@pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=pytest.mark.full) if way in CONTAINED else way for way in WAYS],
)
def test_every_line_comes_once_however_often_the_driver_dies(way: str, tmp_path: Path) -> None:
    seed = os.environ.get("PENSTOCK_SEED", way)
    command = [sys.executable, "-m", killed_drivers.__name__]
    modes = ["pipelined", "epochs"] if way == "modes in turn" else ["pipelined"]
    arguments = [str(tmp_path), seed, str(DEATHS), json.dumps(modes), json.dumps(WAYS[way])]
    subprocess.run([*command, *arguments], check=True, timeout=200 + 5 * DEATHS)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    found = Counter(line for path in files for line in path.read_text().splitlines())
    sums: Counter[int] = Counter()
    expected: Counter[str] = Counter()
    for number in range(sum(found.values())):
        sums[number % KEYS] += number
        expected[f"{number % KEYS},{sums[number % KEYS]}"] += 1
    assert found == expected
    assert len(found) > killed_drivers.MANY_LINES
    assert not [path for path in files if path.name.startswith(".")], "unpublished output is left"
    check_checkpoints(tmp_path / "checkpoints" / killed_drivers.JOB_ID)
    in_flight = [int(size) for size in (tmp_path / "in-flight").read_text().split()]
    assert any(in_flight) is (WAYS[way] is UNALIGNED)


def check_checkpoints(directory: Path) -> None:
    """What is left is the last checkpoint with its files, and nothing else."""
    (path,) = directory.glob("chk-*/_metadata")
    manifest = decode(path.read_bytes(), str(path))
    assert manifest.final
    left = {f"shared/{file.name}" for file in directory.glob("shared/*")}
    assert left == manifest.files()

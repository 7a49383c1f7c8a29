"""State that is larger than the memory of the workers: 400 MB of it, in processes that may have 300 MB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = Path(__file__).parent / "jobs" / "large_state.py"
KEYS = 200_000  # with 2 KB each
WORKER_MEMORY_MB = 300


def run(
    directory: Path, backend: str, memory_mb: int = WORKER_MEMORY_MB
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(JOB), str(directory), backend, str(KEYS)],
        env={**os.environ, "WORKER_MEMORY_MB": str(memory_mb)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_rocksdb_holds_more_state_than_a_worker_has_memory(tmp_path):
    done = run(tmp_path, "rocksdb")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "1000 keys came again"


@pytest.mark.timeout(1500)
def test_the_limit_is_one_that_hashmap_does_not_fit_into(tmp_path):
    """Where memory runs out is chance, and a C library may end the process without a word: the control tells why."""
    enough = run(tmp_path / "enough", "hashmap", memory_mb=10 * WORKER_MEMORY_MB)
    assert enough.returncode == 0, enough.stderr[-3000:]
    assert run(tmp_path / "limited", "hashmap").returncode != 0

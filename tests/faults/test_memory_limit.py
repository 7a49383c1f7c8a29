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


def run(directory: Path, backend: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(JOB), str(directory), backend, str(KEYS)],
        env={**os.environ, "WORKER_MEMORY_MB": str(WORKER_MEMORY_MB)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.timeout(300)
def test_rocksdb_holds_more_state_than_a_worker_has_memory(tmp_path):
    done = run(tmp_path, "rocksdb")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "1000 keys came again"


@pytest.mark.timeout(300)
def test_the_limit_is_one_that_hashmap_does_not_fit_into(tmp_path):
    done = run(tmp_path, "hashmap")
    assert done.returncode != 0
    assert "MemoryError" in done.stderr

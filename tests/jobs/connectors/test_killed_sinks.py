"""What a killed driver leaves of a file sink, and who sweeps it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.environments import configured

JOB_ID, OTHER_ID = "0123456789abcdef0123456789abcdef", "f" * 32


def run(directory: Path, job_id: str, *, killed: bool) -> None:
    options = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "penstock.job-id": job_id,
    }
    env = configured(options)
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    numbers = env.from_collection([*range(10)], Types.INT()).map(str, Types.STRING())
    numbers.sink_to(sink.build()).uid("out")

    def die(moment: str, _: int) -> None:
        if killed and moment == "before write_manifest":
            os.kill(os.getpid(), signal.SIGKILL)

    with MiniCluster(), watched_steps(die):
        env.execute("killed")


def hidden(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "out").rglob(".*"))


def test_hidden_files_of_a_killed_job_are_swept_when_it_starts_again_and_no_others(
    tmp_path: Path,
) -> None:
    for job_id in (JOB_ID, OTHER_ID):
        command = [sys.executable, "-m", __name__, str(tmp_path), job_id]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    # The name says whose it is.
    left = hidden(tmp_path)
    others = [name for name in left if name.endswith(f".{OTHER_ID}")]
    assert others
    assert (
        0 < len([name for name in left if name.endswith(f".{JOB_ID}")]) == len(left) - len(others)
    )
    run(tmp_path, JOB_ID, killed=False)
    assert hidden(tmp_path) == others
    found = [path for path in (tmp_path / "out").rglob("part-*") if path.is_file()]
    lines = [line for path in found for line in path.read_text().splitlines()]
    assert sorted(map(int, lines)) == list(range(10))
    run(tmp_path, OTHER_ID, killed=False)
    assert hidden(tmp_path) == []


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2], killed=True)

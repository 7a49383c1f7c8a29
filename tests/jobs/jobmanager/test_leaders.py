"""A job under two leaders at once: the one that was elected first goes on unaware, and finds the other in its place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import JobSuspendedError
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.testing import MiniCluster
from penstock.testing.conformance.jobs import ScriptedSource
from tests.builders.modes import MODES, runs_in
from tests.builders.waiting import wait_until

TIMEOUT_S = 120
COUNT = 400
JOB_ID = "1ead" * 8


class Leaders(MiniCluster):
    """Runs each program twice: under the leader with token 1, and some checkpoints later under the one with token 2.

    While the file `hold` exists, the program has more to read.
    """

    def __init__(self, hold: Path) -> None:
        super().__init__()
        self.hold = hold

    def submit(self, *program, **hooks):
        masters = [
            self.create_master(*program, **hooks, job_id=JOB_ID, leader=token) for token in (1, 2)
        ]
        self.first, self.second = masters
        return self

    def wait(self):
        with ThreadPoolExecutor() as threads:
            first = threads.submit(self.first.run)
            try:
                wait_until(lambda: completed(self.first) >= 2, "checkpoints of the first leader")
                second = threads.submit(self.second.run)
                self.error = first.exception(TIMEOUT_S)
            finally:
                self.hold.unlink()
            second.result(TIMEOUT_S)


def completed(master: JobMaster) -> int:
    return 0 if master.manifest is None else master.manifest.checkpoint_id


@pytest.mark.parametrize("mode", MODES)
def test_the_earlier_leader_is_suspended_and_nothing_is_lost_or_comes_twice(
    mode: str, tmp_path: Path
) -> None:
    settings = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        **runs_in(mode),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1)
    hold = tmp_path / "hold"
    hold.write_text(str(COUNT // 4))  # of each of the two splits
    source = ScriptedSource([str(number) for number in range(COUNT)], hold, paced=True)
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    with Leaders(hold) as cluster:
        env.execute("numbers")
    assert isinstance(cluster.error, JobSuspendedError), cluster.error
    assert cluster.first.status is JobStatus.SUSPENDED
    assert cluster.second.status is JobStatus.FINISHED
    lines = [
        line
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
        for line in path.read_text().splitlines()
    ]
    assert sorted(map(int, lines)) == list(range(COUNT))

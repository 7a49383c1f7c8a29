"""A job under two leaders at once: the one that was elected first goes on unaware, and finds the other in its place."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import JobSuspendedError
from penstock.testing.mini_cluster import MiniCluster
from tests.builders.modes import MODES, runs_in
from tests.builders.waiting import wait_until

COUNT = 400
JOB_ID = "1ead" * 8


class Leaders(MiniCluster):
    """Runs each program twice: under the leader with token 1, and some checkpoints later under the one with token 2."""

    def submit(self, *program, **hooks):
        masters = [
            self.create_master(*program, **hooks, job_id=JOB_ID, leader=token) for token in (1, 2)
        ]
        self.first, self.second = masters
        self.ended: list[BaseException | None] = []
        return self

    def wait(self):
        running = threading.Thread(target=self._run_first)
        running.start()
        wait_until(lambda: self.first.manifest is not None and self.first.manifest.epoch >= 2)
        self.second.run()
        running.join(60)

    def _run_first(self):
        try:
            self.first.run()
        except BaseException as error:
            self.ended.append(error)
        else:
            self.ended.append(None)


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
    source = DataGeneratorSource(
        str, COUNT, rate_limiter_strategy=RateLimiterStrategy.per_second(400)
    )
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    with Leaders() as cluster:
        env.execute("numbers")
    (error,) = cluster.ended
    assert isinstance(error, JobSuspendedError), error
    assert cluster.first.status is JobStatus.SUSPENDED
    assert cluster.second.status is JobStatus.FINISHED
    lines = [
        line
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
        for line in path.read_text().splitlines()
    ]
    assert sorted(map(int, lines)) == list(range(COUNT))

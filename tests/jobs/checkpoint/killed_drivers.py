"""Drivers of a pipelined job that are killed one after another, each in a process of its own, with all its slots.

The process that starts them has one thread, so that it can fork: a driver is there within milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.jobmanager.job_master import JobMaster
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.counting_job import Slowly, totals
from tests.builders.environments import configured

JOB_ID = "0123456789abcdef0123456789abcdef"
STEPS = ["trigger", "write_manifest", "commit_sink", "delete_checkpoint", "delete_files"]
MOMENTS = [f"{side} {step}" for step in STEPS for side in ("before", "after")]


def run(directory: Path, options: dict[str, str], act: Any) -> None:
    """Run the job; `act(master, moment)` is called at every step."""
    env = configured(
        {
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.checkpointing.tolerable-failed-checkpoints": "5",
            "penstock.state.inline-threshold": "0 b",
            "penstock.job-id": JOB_ID,
            **options,
        },
        2,
    )
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    # Small parts that stay open for a while: what one checkpoint hands over a later one publishes.
    sink.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=2000))
    lines = totals(env, Slowly()).map(lambda pair: f"{pair[0]},{pair[1]}", Types.STRING())
    lines.sink_to(sink.build()).uid("out")
    with (
        MiniCluster(mode="pipelined") as cluster,
        watched_steps(lambda moment, _: act(cluster.masters[0], moment)),
    ):
        env.execute("killed")


def dies_at(moment: str, occurrence: int) -> Any:
    """Return what ends the process when a moment comes for the n-th time."""
    left = [occurrence]

    def act(_: JobMaster, found: str) -> None:
        left[0] -= found == moment
        if not left[0]:
            os._exit(86)

    return act


def drains_after(checkpoints: int, directory: Path) -> Any:
    left = [checkpoints]

    def act(master: JobMaster, found: str) -> None:
        left[0] -= found == "after write_manifest"
        if not left[0]:
            master.request_savepoint(str(directory / "savepoints"), stops=True, drains=True)

    return act


def start(directory: Path, options: dict[str, str], act: Any) -> int:
    """Start a driver in a process of its own; return its id."""
    pid = os.fork()
    if not pid:
        _run_and_exit(directory, options, act)
    return pid


def _run_and_exit(directory: Path, options: dict[str, str], act: Any) -> NoReturn:
    try:
        run(directory, options, act)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(directory: Path, seed: str, deaths: int, options: dict[str, str]) -> None:
    rng = random.Random(seed)
    for number in range(deaths):
        if rng.random() < 0.7:
            moment, occurrence = rng.choice(MOMENTS), rng.randint(1, 4)
            pid = start(directory, options, dies_at(moment, occurrence))
            story = f"{moment}, {occurrence} times"
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 86, (number, story, status)
        else:
            pid = start(directory, options, lambda *_: None)
            time.sleep(rng.uniform(0.02, 0.6))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (number, status)
    pid = start(directory, options, drains_after(3, directory))
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the last one did not finish"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))

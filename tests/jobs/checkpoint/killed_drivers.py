"""Drivers of a pipelined job that are killed one after another, each in a process of its own, with all its slots.

Each goes on from the last checkpoint of the one before, with a parallelism of its own, and perhaps in another mode.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointRecord
from penstock.jobmanager.job_master.job_master import JobMaster
from penstock.testing import MiniCluster
from penstock.testing.faults import moments, watched_steps
from tests.builders.counting_job import Slowly, totals
from tests.builders.environments import configured

JOB_ID = "0123456789abcdef0123456789abcdef"
MANY_LINES = 100


@dataclass(frozen=True, slots=True)
class Way:
    """How a driver runs the job."""

    mode: str
    parallelism: int
    options: dict[str, str]


def run(directory: Path, way: Way, act: Any) -> None:
    """Run the job; `act(master, moment)` is called at every step."""
    env = configured(
        {
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            "execution.checkpointing.tolerable-failed-checkpoints": "5",
            "penstock.state.inline-threshold": "0 b",
            "penstock.job-id": JOB_ID,
            **way.options,
        },
        way.parallelism,
    )
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    # Small parts that stay open for a while: what one checkpoint hands over a later one publishes.
    sink.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=2000))
    pause_s = 0.0003 if "execution.checkpointing.unaligned.enabled" in way.options else 0.0
    lines = totals(env, Slowly()).map(lambda pair: written(pair, pause_s), Types.STRING())
    lines.sink_to(sink.build()).uid("out")

    def watch(moment: str, _: int) -> None:
        master = cluster.masters[0]
        if moment == "before commit_sink" and (latest := latest_completed(master)) is not None:
            with (directory / "in-flight").open("a") as file:
                file.write(f"{latest.totals().persisted_in_flight}\n")
        act(master, moment)

    with MiniCluster(mode=way.mode) as cluster, watched_steps(watch):
        env.execute("killed")


def written(pair: tuple[int, int], pause_s: float) -> str:
    """Return a line; slowly, so that records wait in the channels."""
    if pause_s:
        time.sleep(pause_s)
    return f"{pair[0]},{pair[1]}"


def latest_completed(master: JobMaster) -> CheckpointRecord | None:
    """Return the last completed checkpoint."""
    return master.statistics.snapshot().completed


def dies_at(moment: str, occurrence: int) -> Any:
    """Return what ends the process when a moment comes for the n-th time."""
    left = [occurrence]

    def act(_: JobMaster, found: str) -> None:
        left[0] -= found == moment
        if not left[0]:
            os._exit(86)

    return act


def drains_after(checkpoints: int, directory: Path, *, in_flight: bool) -> Any:
    """Return what ends the job after some checkpoints, not before there are many lines, and if asked for some were in flight."""
    left = [checkpoints]
    stopping: list[Any] = []

    def is_enough() -> bool:
        noted = directory / "in-flight"
        sizes = noted.read_text().split() if noted.exists() else []
        return Slowly.read_up_to > 2 * MANY_LINES and (not in_flight or any(map(int, sizes)))

    def act(master: JobMaster, found: str) -> None:
        left[0] -= found == "after write_manifest"
        if left[0] <= 0 and not stopping and is_enough():
            stopping.append(True)
            master.request_savepoint(str(directory / "savepoints"), stops=True, drains=True)

    return act


def start(directory: Path, way: Way, act: Any) -> int:
    """Start a driver in a process of its own; return its id."""
    pid = os.fork()
    if not pid:
        _run_and_exit(directory, way, act)
    return pid


def _run_and_exit(directory: Path, way: Way, act: Any) -> NoReturn:
    try:
        run(directory, way, act)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main(
    directory: Path, seed: str, deaths: int, modes: list[str], options: dict[str, str]
) -> None:
    rng = random.Random(seed)
    for number in range(deaths):
        way = Way(rng.choice(modes), rng.randint(1, 3), options)
        if rng.random() < 0.7:
            moment, occurrence = rng.choice(moments(way.mode)), rng.randint(1, 4)
            pid = start(directory, way, dies_at(moment, occurrence))
            _, status = os.waitpid(pid, 0)
            story = (number, way, moment, occurrence, status)
            assert os.waitstatus_to_exitcode(status) == 86, story
        else:
            pid = start(directory, way, lambda *_: None)
            time.sleep(rng.uniform(0.02, 0.6))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (number, way, status)
    overtakes = "execution.checkpointing.unaligned.enabled" in options
    end = drains_after(3, directory, in_flight=overtakes)
    pid = start(directory, Way(modes[0], 2, options), end)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the last one did not finish"


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        json.loads(sys.argv[4]),
        json.loads(sys.argv[5]),
    )

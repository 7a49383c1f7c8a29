"""Jobs that write to Kafka and are killed one after another, each in a process of its own, at a step of a checkpoint.

Each goes on from the last checkpoint of the one before, with a parallelism of its own and some lines more. None of them ends before it is killed,
however long that takes. The process that starts them has one thread, so that it can fork.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path

from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps
from tests.builders.environments import configured
from tests.builders.modes import runs_in
from tests.connectors.kafka.sink_jobs import Lines, sink, write_lines

JOB_ID = "0123456789abcdef0123456789abcdef"
LINES_EACH = 300


def length(settings: dict) -> int:
    """Return how many lines of each key there are when the last job has ended."""
    return LINES_EACH * (len(settings["deaths"]) + 1)


def run(settings: dict, lines: Lines, parallelism: int, dies_at: tuple[str, int] | None) -> None:
    """Run the job to its end, or to the n-th time that a moment comes."""
    options = {
        "execution.checkpointing.interval": "30 ms",
        "execution.checkpointing.dir": str(Path(settings["directory"]) / "checkpoints"),
        "penstock.job-id": JOB_ID,
        "restart-strategy.type": "none",
        **runs_in(settings["mode"]),
    }
    env = configured(options, parallelism)
    to = sink(settings["bootstrap"], settings["topic"], prefix=settings["topic"])
    write_lines(env, lines, to)
    left = [0 if dies_at is None else dies_at[1]]

    def die(moment: str, _: int) -> None:
        if dies_at is not None and moment == dies_at[0]:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    with MiniCluster(), watched_steps(die):
        env.execute("killed")


def main(settings: dict) -> None:
    for number, (moment, occurrence) in enumerate(settings["deaths"]):
        parallelism = (2, 3, 1, 4)[number % 4]
        pid = os.fork()
        if not pid:
            try:
                lines = Lines(LINES_EACH * (number + 1), 0.004, ends=False)
                run(settings, lines, parallelism, (moment, occurrence))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (moment, number, status)
    run(settings, Lines(length(settings), 0.004), 2, None)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

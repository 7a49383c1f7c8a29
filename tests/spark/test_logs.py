"""What tasks log on Spark reaches the driver, also of a process that was killed in the next moment."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest

from penstock.logs.log_buffer import log_book
from penstock.rest.routing.routes import Services
from penstock.rest.services.taskmanagers import TaskManagers
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

_log = logging.getLogger("of.the.user")


class DiesOnce:
    """Logs and prints, and kills its process when it comes to a number for the first time."""

    def __init__(self, marker):
        self._marker = str(marker)

    def __call__(self, number):
        _log.info("saw %d", number)
        if number == 3 and not Path(self._marker).exists():
            Path(self._marker).touch()
            print("the last words", flush=True)
            _log.warning("about to die")
            os.kill(os.getpid(), signal.SIGKILL)
        return number


def lines_of(job_id, message):
    def arrived():
        return [e for e in log_book().entries(job_id=job_id) if e.line.message == message]

    wait_until(lambda: bool(arrived()), seconds=120)
    return arrived()


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_lines_of_tasks_arrive_with_job_vertex_subtask_and_executor(tmp_path, mode):
    options = {
        "penstock.execution.mode": mode,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    env = configured(options, 1)
    env.from_collection(list(range(6))).map(DiesOnce(tmp_path / "died")).name("dies").print()
    client = env.execute_async("mortal")
    job_id = str(client.get_job_id())
    client.get_job_execution_result().result()

    (dying,) = lines_of(job_id, "about to die")
    scope = dying.line.scope
    assert (dying.line.level, dying.source) == ("WARNING", "driver")
    assert "dies" in scope.vertex
    assert (scope.job_name, scope.subtask, scope.parallelism) == ("mortal", 0, 1)
    (printed,) = lines_of(job_id, "the last words")
    assert (printed.line.stream, printed.line.scope.process) == ("stdout", scope.process)
    processes = {each.line.scope.process for each in lines_of(job_id, "saw 5")}
    assert scope.process not in processes | {os.getpid()}
    (taskmanager,) = TaskManagers.now(Services().jobs).all
    assert (taskmanager.id, taskmanager.executor.slots) == ("driver", 2)

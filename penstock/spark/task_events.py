"""Events of Spark's tasks: which were started, when, and how many run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

_FIRST_LOOK_S = 1.0  # shorter epochs are reported by their acknowledgements only
_POLL_S = 0.5
_MAX_TASKS = 10_000


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task of a Spark job that was started: its stage, in the order of the stages, its number there, and when."""

    stage: int
    task: int
    launched_ms: int


def started_tasks(context: SparkContext, group: str) -> list[TaskStarted]:
    """Return the tasks of a job group's newest job that Spark has started, in the last attempts of its stages."""
    store = context._jsc.sc().statusStore()  # noqa: SLF001 - Python has it not
    found = []
    for place, stage in enumerate(_stages(context, group)):
        tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), _MAX_TASKS)
        for index in range(tasks.size()):
            task = tasks.apply(index)
            found.append(TaskStarted(place, task.index(), task.launchTime().getTime()))
    return found


def count_active(context: SparkContext, group: str) -> int:
    """Return how many tasks of a job group are at work."""
    tracker = context.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in _stages(context, group)]
    return sum(info.numActiveTasks for info in infos if info is not None)


def has_started(context: SparkContext, group: str) -> bool:
    """Whether any task of a job group's newest job has got a core."""
    tracker = context.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in _stages(context, group)]
    return any(info.numActiveTasks or info.numCompletedTasks for info in infos if info is not None)


def _stages(context: SparkContext, group: str) -> list[int]:
    """Return the stages of a group's newest job, those that come first before the others."""
    tracker = context.statusTracker()
    jobs = sorted(tracker.getJobIdsForGroup(group))
    info = tracker.getJobInfo(jobs[-1]) if jobs else None
    return [] if info is None else sorted(info.stageIds)


@contextmanager
def watched(
    look: Callable[[], list[TaskStarted]], on_started: Callable[[TaskStarted], None]
) -> Iterator[None]:
    """Tell of tasks as they are started, while a Spark job runs that takes long enough; each once.

    `on_started` is called by another thread, and never after the `with` statement.
    """
    over = threading.Event()

    def run() -> None:
        reported: set[tuple[int, int]] = set()
        pause = _FIRST_LOOK_S
        while not over.wait(pause):
            pause = _POLL_S
            try:
                found = look()
            except Exception as error:  # noqa: BLE001 - the job continues; acknowledgements report its tasks
                _log.debug("Spark does not report its tasks: %s", error)
                return
            for each in found:
                if (each.stage, each.task) not in reported and not over.is_set():
                    reported.add((each.stage, each.task))
                    on_started(each)

    thread = threading.Thread(target=run, name="penstock-task-events", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

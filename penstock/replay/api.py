"""`replay`: runs an epoch again and says what came of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.replay.debugging import Debugger, Stop
from penstock.replay.epochs import EpochReplay
from penstock.replay.intervals import IntervalReplay
from penstock.replay.recording import Attempt, find_epoch
from penstock.replay.result import ReplayResult
from penstock.replay.running import Replay, Target
from penstock.replay.targets import find_target


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which epoch to replay, how much of it, and where to look for the program's modules."""

    job_directory: str
    epoch: int | None = None
    vertex: str | int | None = None
    subtask: int | None = None
    attempt: Attempt | None = None
    verify: bool = False
    python_files: tuple[str, ...] = ()


@contextlib.contextmanager
def _prepared(request: ReplayRequest) -> Iterator[tuple[Replay, Target | None]]:
    recording = find_epoch(request.job_directory, request.epoch, request.attempt)
    target = None
    if request.vertex is not None:
        target = find_target(recording, request.vertex, request.subtask)
    way = IntervalReplay if recording.record.flows else EpochReplay
    with (
        recording.python_path(request.python_files),
        way(recording, verify=request.verify and target is None) as run,
    ):
        yield run, target


def replay(
    job_directory: str,
    epoch: int | None = None,
    vertex: str | int | None = None,
    subtask: int | None = None,
    *,
    attempt: Attempt | None = None,
    verify: bool = False,
    python_files: Sequence[str] = (),
) -> ReplayResult:
    """Run one epoch of a job again, in this process, from the state and over the input that it had.

    Sinks are switched off: the result holds what they would have got. With a vertex, the epoch is run up to that subtask.
    With `verify`, the state after the epoch is compared with that of its checkpoint.
    """
    request = ReplayRequest(
        job_directory, epoch, vertex, subtask, attempt, verify, tuple(python_files)
    )
    with _prepared(request) as (run, target):
        run.run(target)
        return run.result()


def debug(request: ReplayRequest, stop: Stop | None = None) -> ReplayResult:
    """Run an epoch again with the debugger: at the record that failed, or at the one that `stop` names."""
    with _prepared(request) as (run, target):
        debugger = Debugger(run)
        debugger.run(target, stop)
        return replace(run.result(), stopped=debugger.left)

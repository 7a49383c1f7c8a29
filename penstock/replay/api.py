"""`replay` and `debug`: run one checkpoint interval again and return its result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.replay.debugging import Breakpoint, Debugger
from penstock.replay.epochs import EpochReplay
from penstock.replay.pipelined import IntervalReplay
from penstock.replay.recording import Attempt, find_interval
from penstock.replay.result import ReplayResult
from penstock.replay.running import Replay, ReplayTarget
from penstock.replay.targets import find_target


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The interval to replay, the target within it, and where the program's modules are."""

    job_directory: str
    checkpoint_id: int | None = None
    vertex: str | int | None = None
    subtask: int | None = None
    attempt: Attempt | None = None
    verify: bool = False
    python_files: tuple[str, ...] = ()


@contextlib.contextmanager
def _prepared(request: ReplayRequest) -> Iterator[tuple[Replay, ReplayTarget | None]]:
    recording = find_interval(request.job_directory, request.checkpoint_id, request.attempt)
    target = None
    if request.vertex is not None:
        target = find_target(recording, request.vertex, request.subtask)
    way = IntervalReplay if recording.record.pipelined else EpochReplay
    with (
        recording.python_path(request.python_files),
        way(recording, verify=request.verify and target is None) as run,
    ):
        yield run, target


def replay(
    job_directory: str,
    checkpoint_id: int | None = None,
    vertex: str | int | None = None,
    subtask: int | None = None,
    *,
    attempt: Attempt | None = None,
    verify: bool = False,
    python_files: Sequence[str] = (),
) -> ReplayResult:
    """Run one interval between two checkpoints again, in this process, from its original state and input.

    Sinks are switched off: the result holds the records that they would have received. With a vertex, the replay ends at that
    subtask. With `verify`, the state at the end is compared with that of the interval's checkpoint.
    """
    request = ReplayRequest(
        job_directory, checkpoint_id, vertex, subtask, attempt, verify, tuple(python_files)
    )
    with _prepared(request) as (run, target):
        run.run(target)
        return run.result()


def debug(request: ReplayRequest, stop: Breakpoint | None = None) -> ReplayResult:
    """Run an interval again under the debugger: stop at the record that failed, or at the one that `stop` names."""
    with _prepared(request) as (run, target):
        debugger = Debugger(run)
        debugger.run(target, stop)
        return replace(run.result(), stopped=debugger.left)

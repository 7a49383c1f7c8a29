"""Stack samples of one thread, and stack dumps of all threads of this process.

Samples are taken by another thread, which holds the GIL meanwhile: the sampled thread stands still.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final

from penstock.graph.task_id import TaskId
from penstock.runtime.inspection.requests import Stacks, StackSamples, ThreadInfo

_DEEPEST: Final = 256
# A thread that was busy for a smaller part of the time between two samples counts as waiting.
_ON_CPU_SHARE: Final = 0.5
_SWITCH_S: Final = 0.0001


def sample(
    request: StackSamples,
    thread: int,
    current: Callable[[], TaskId | None],
    stopped: threading.Event,
    outermost: Container[CodeType] = (),
) -> Stacks:
    """Sample a thread's stack repeatedly. `current` returns the task that it works for, None while it waits for work.

    The frames of each stack up to one of the functions `outermost` are omitted. Ends early once `stopped` is set.
    """
    counts: dict[tuple[str, ...], tuple[int, int]] = {}
    interval = request.interval_ms / 1000
    clock = _cpu_clock(thread)
    wall, used = time.monotonic(), clock()
    due = wall
    taken = 0
    with _quick_switches():
        for _ in range(request.samples):
            due += interval
            if stopped.wait(max(due - time.monotonic(), 0.0)):
                break
            task = current()
            frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented usage
            now, now_used = time.monotonic(), clock()
            on_cpu = now_used - used >= _ON_CPU_SHARE * (now - wall)
            wall, used = now, now_used
            if frame is None:
                break
            taken += 1
            if request.task is not None and task is not None and task != request.task:
                continue
            stack = _names(frame, outermost)
            on, off = counts.get(stack, (0, 0))
            counts[stack] = (on + 1, off) if on_cpu else (on, off + 1)
    return Stacks(taken, counts)


class _QuickSwitches:
    """Shortens the GIL switch interval during sampling.

    A working thread releases the GIL by itself where it sends or reads. A sampler that waits for the GIL with the usual
    interval of 5 ms mostly gets it at such a place, and would find the thread nowhere else.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samplers = 0
        self._usual = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._samplers:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_S)
            self._samplers += 1
        try:
            yield
        finally:
            with self._lock:
                self._samplers -= 1
                if not self._samplers:
                    sys.setswitchinterval(self._usual)


_quick_switches = _QuickSwitches()


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Return a function that returns the busy time of a thread: on a CPU, or waiting for one.

    Waiting for a CPU counts: otherwise a busy thread on an overloaded machine would seem idle.
    """
    native = next((t.native_id for t in threading.enumerate() if t.ident == thread), None)
    path = f"/proc/self/task/{native}/schedstat"

    def used() -> float:
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - ten microseconds less
                on_cpu, waited, _ = file.read().split()
        except (OSError, ValueError):
            return time.monotonic()  # without the information, everything counts as work
        return (int(on_cpu) + int(waited)) / 1e9

    return used


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a stack, innermost first."""
    for _ in range(_DEEPEST):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _names(frame: FrameType, outermost: Container[CodeType]) -> tuple[str, ...]:
    names = []
    for each in _frames(frame):
        if each.f_code in outermost:
            break
        names.append(_name(each))
    return tuple(reversed(names))


def _name(frame: FrameType) -> str:
    """Return the name of a frame in a flame graph, in Flink's form: location, function and line."""
    module = frame.f_globals.get("__name__", "?")
    return f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}"


def dump_threads(runs_tasks: int | None = None) -> tuple[ThreadInfo, ...]:
    """Dump all threads of this process; `runs_tasks` is the one that runs subtasks, and comes first."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    found = []
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - documented usage
        thread = known.get(ident)
        lines = tuple(_line(each) for each in _frames(frame))
        name = f"thread {ident}" if thread is None else thread.name
        daemon = thread is None or thread.daemon
        found.append(ThreadInfo(name, ident, ident == runs_tasks, daemon, lines))
    return tuple(sorted(found, key=lambda each: (not each.runs_tasks, each.name)))


def _line(frame: FrameType) -> str:
    code = frame.f_code
    module = frame.f_globals.get("__name__", "?")
    return f"{module}.{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"

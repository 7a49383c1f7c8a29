"""Stops a replay in the user's function, at its first line, for the record that failed or for a requested one.

A first run finds the failure and counts the calls of every function until then: the one that failed was, say, call 4711 of
`price`. A second run of that slot, which the recorded traces make identical to the first, stops at that call.
"""

from __future__ import annotations

import bdb
import dis
import inspect
import linecache
import pdb  # noqa: T100 - the purpose of this module
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, TextIO

from penstock.errors.user_errors import UserCodeError
from penstock.replay.errors import ReplayError
from penstock.replay.running import (
    Replay,
    ReplayedFailure,
    ReplayTarget,
    ReplayWatcher,
    breakpoints,
    pass_over,
)
from penstock.runtime.records import Batch
from penstock.runtime.task.shared.subtask import Subtask

_PACKAGE: Final = f"{Path(__file__).resolve().parents[1]}/"
_LIBRARIES: Final = tuple(
    f"{Path(path).resolve()}/"
    for name, path in sysconfig.get_paths().items()
    if name in {"stdlib", "platstdlib", "purelib", "platlib"}
)
_Place = tuple[str, str, int]  # file, name, first line


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A record to stop at: the `record`-th (from 1) that arrives at the subtask, or the first one with a key (as displayed)."""

    record: int | None = None
    key: str | None = None


class Debugger:
    """Runs a replay with `pdb` on standard input and output."""

    def __init__(self, replay: Replay, output: TextIO | None = None) -> None:
        self._replay = replay
        self._output = output or sys.stdout
        self.left = False  # whether the user quit before the end
        self._show_sources()

    def run(self, target: ReplayTarget | None, stop: Breakpoint | None) -> None:
        """Run up to a target, or everything; stop at the requested record, else at the failure, if any."""
        if stop is not None:
            self._run_to(target, stop)
            return
        counting = _CallCounter(target)
        with breakpoints(pass_over):  # only the second run stops
            self._replay.run(target, counting)
        failed = self._replay.failed
        if failed is None:
            self._say(
                "nothing failed: select a record to stop at with --vertex and --record or --key"
            )
            return
        call = counting.call_of(_cause(failed.error))
        if call is None or not self._run_again(failed, call):
            self._post_mortem(failed)

    def _run_to(self, target: ReplayTarget | None, stop: Breakpoint) -> None:
        if target is None:
            raise ReplayError(
                "the record to stop at needs an operator",
                hint="select it with --vertex, and with --subtask if it has several",
            )
        watcher = _RecordWatcher(target, stop, self._start_pdb)
        with breakpoints(_break):
            self._replay.run(target, watcher)
        if self._after_quit():
            return
        if not watcher.armed:
            self._say(f"the subtask received {watcher.seen} records, and none of them matched")
        elif not watcher.stopped:
            self._say("none of your functions was called for the record or after it")

    def _run_again(self, failed: ReplayedFailure, call: tuple[_Place, int]) -> bool:
        """Run the failed slot again and stop at a call; return whether the call happened."""
        place, number = call
        shown = _describe(failed)

        def start(frame: FrameType) -> Any:
            self._say(f"checkpoint {self._replay.recording.record.checkpoint_id}, {shown}")
            return self._start_pdb(frame)

        watcher = _CallWatcher(place, number, start)
        with breakpoints(_break):
            self._replay.run_slot_again(failed.level, failed.slot, watcher)
        if self._after_quit():
            return True
        if not watcher.stopped:
            self._replay.failed = failed
        elif self._replay.failed is None:
            self._say("the failure did not occur again")
        return watcher.stopped

    def _after_quit(self) -> bool:
        """Whether the user quit the debugger, which is not a failure of the interval."""
        failed = self._replay.failed
        if failed is not None and isinstance(_cause(failed.error), bdb.BdbQuit):
            self._replay.failed = None
            self.left = True
        return self.left

    def _start_pdb(self, frame: FrameType) -> Any:
        debugger = _Pdb()
        debugger.set_trace(frame)
        return debugger.trace_dispatch

    def _post_mortem(self, failed: ReplayedFailure) -> None:
        self._say(f"checkpoint {self._replay.recording.record.checkpoint_id}, {_describe(failed)}")
        self._say("the function has no line to stop at before the failure: this is where it failed")
        traceback = _cause(failed.error).__traceback__
        last: TracebackType | None = None
        each = traceback
        while each is not None:
            if _is_users(each.tb_frame.f_code):
                last = each
            each = each.tb_next
        if last is not None:
            last.tb_next = None
        debugger = _Pdb()
        debugger.reset()
        debugger.interaction(None, traceback)

    def _show_sources(self) -> None:
        """Let the debugger find the source of a script that was started by a relative path from another directory."""
        directory = self._replay.recording.plan.script_directory
        if directory is None or not Path(directory).is_dir():
            return
        for script in Path(directory).glob("*.py"):
            here = str(Path(script.name).absolute())
            if not Path(here).exists():
                lines = script.read_text(errors="replace").splitlines(keepends=True)
                linecache.cache[here] = (script.stat().st_size, None, lines, str(script))

    def _say(self, text: str) -> None:
        self._output.write(f"{text}\n")
        self._output.flush()


class _Pdb(pdb.Pdb):
    """Skips Penstock's own functions: `next` at the end of a function leads to its next call."""

    def __init__(self) -> None:
        super().__init__(skip=["penstock", "penstock.*"], nosigint=True)
        self._before = sys.gettrace()

    def set_continue(self) -> None:
        """Continue, and rearm the watcher for the call."""
        super().set_continue()
        if not self.breaks and self._before is not None:
            sys.settrace(self._before)

    def stop_here(self, frame: FrameType) -> bool:
        """Whether to stop in a frame: not in a library's, unless called by the program."""
        caller = frame.f_back
        if not _is_programs(frame.f_code) and (caller is None or not _is_users(caller.f_code)):
            return False
        return super().stop_here(frame)


def _break(*_: Any, **__: Any) -> None:
    """Start the debugger where the program calls `breakpoint()`."""
    _Pdb().set_trace(sys._getframe(1))  # noqa: SLF001 - the only access to the caller


def _cause(error: BaseException) -> BaseException:
    return error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ else error


def _describe(failed: ReplayedFailure) -> str:
    error = failed.error
    where = getattr(error, "detail", None) or "outside of any operator"
    return f"{type(_cause(error)).__name__} {where}"


def _is_users(code: CodeType) -> bool:
    return not code.co_filename.startswith((_PACKAGE, "<frozen"))


def _is_programs(code: CodeType) -> bool:
    """Whether a function is the program's own: neither a library's nor generated by one (a named tuple's `__new__`)."""
    file = code.co_filename
    return _is_users(code) and file != "<string>" and not file.startswith(_LIBRARIES)


def _place(code: CodeType) -> _Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


_YIELDS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_beginnings: dict[CodeType, int] = {}


def _begins(frame: FrameType) -> bool:
    """Whether a call event starts a function, rather than resuming a generator."""
    code = frame.f_code
    if not code.co_flags & _YIELDS:
        return True
    first = _beginnings.get(code)
    if first is None:
        resumes = (each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")
        first = _beginnings[code] = next(resumes, 0)
    return frame.f_lasti <= first


class _CallCounter(ReplayWatcher):
    """Counts the calls of functions outside of Penstock, slot by slot."""

    def __init__(self, target: ReplayTarget | None) -> None:
        self._target = target
        self._users: dict[CodeType, bool] = {}
        self._counts: dict[_Place, int] = {}
        # By the identity of the frame: a frame that failed is still referenced, so its identity is not reused.
        self._calls: dict[int, tuple[_Place, int]] = {}

    def before_slot(self, level: int, slot: int) -> None:
        """Start counting."""
        self._counts.clear()
        self._calls.clear()
        sys.settrace(self._trace)

    def after_slot(self, level: int, slot: int) -> None:
        """Stop counting."""
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        users = self._users.get(code)
        if users is None:
            users = self._users[code] = _is_users(code)
        if users and _begins(frame):
            place = _place(code)
            count = self._counts[place] = self._counts.get(place, 0) + 1
            self._calls[id(frame)] = (place, count)

    def call_of(self, error: BaseException) -> tuple[_Place, int] | None:
        """Return the call of the user's function that raised an exception, or None."""
        traceback = error.__traceback__
        while traceback is not None:
            if _is_users(traceback.tb_frame.f_code):
                return self._calls.get(id(traceback.tb_frame))
            traceback = traceback.tb_next
        return None


Start = Callable[[FrameType], Any]


class _CallWatcher(ReplayWatcher):
    """Starts the debugger at the n-th call of a function."""

    def __init__(self, place: _Place, number: int, start: Start) -> None:
        self._place = place
        self._left = number
        self._start = start
        self.stopped = False

    def before_slot(self, level: int, slot: int) -> None:
        """Start watching."""
        sys.settrace(self._trace)

    def after_slot(self, level: int, slot: int) -> None:
        """Stop watching."""
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if event != "call" or frame.f_code.co_firstlineno != self._place[2]:
            return None
        if _place(frame.f_code) != self._place or not _begins(frame):
            return None
        self._left -= 1
        if self._left:
            return None
        self.stopped = True
        sys.settrace(None)
        return self._start(frame)


class _RecordWatcher(ReplayWatcher):
    """Passes a subtask its records up to the requested one, and that one alone, with the debugger armed for user code."""

    def __init__(self, target: ReplayTarget, stop: Breakpoint, start: Start) -> None:
        self._target = target
        self._stop = stop
        self._start = start
        self.seen = 0
        self.armed = False
        self.stopped = False

    def after_slot(self, level: int, slot: int) -> None:
        """Stop watching."""
        sys.settrace(None)

    def opened(self, subtask: Subtask) -> None:
        """Intercept the records of the subtask."""
        place = (subtask.deployment.vertex, subtask.index)
        if place != (self._target.vertex, self._target.subtask):
            return
        head = subtask.chain.operators[0]
        if subtask.source is not None:
            emit = head.output.emit
            head.output.emit = lambda batch: self._take(batch, emit)  # type: ignore[method-assign]
        else:
            process = head.process

            def watched(batch: Batch, input_index: int = 0) -> None:
                self._take(batch, lambda part: process(part, input_index))

            head.process = watched  # type: ignore[method-assign]

    def _take(self, batch: Batch, hand_over: Callable[[Batch], None]) -> None:
        at = None if self.armed else self._find(batch)
        self.seen += len(batch)
        if at is None:
            hand_over(batch)
            return
        before, wanted = batch.slice(0, at), batch.slice(at, at + 1)
        rest = batch.slice(at + 1)
        if len(before):
            hand_over(before)
        self.armed = True
        sys.settrace(self._trace)
        hand_over(wanted)
        if len(rest):
            hand_over(rest)

    def _find(self, batch: Batch) -> int | None:
        if self._stop.record is not None:
            at = self._stop.record - 1 - self.seen
            return at if at < len(batch) else None
        if batch.keys is None:
            raise ReplayError(
                "the records of this operator are not keyed",
                hint="select an operator after key_by(...), or use --record",
            )
        wanted = self._stop.key
        for at, key in enumerate(batch.keys):
            if wanted in {str(key), repr(key)}:
                return at
        return None

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if event != "call" or not _is_programs(frame.f_code):
            return None
        self.stopped = True
        sys.settrace(None)
        return self._start(frame)

"""The calls of an asynchronous operator: an event loop that the operator itself drives, in its own thread.

This needs no locks, and results arrive without a thread switch. A call is one task; its overhead is 6 us on CPython 3.11.

In an epoch the loop runs while the operator waits for results (`run`). Otherwise the loop stands still, and so does the clock
of the timeouts. In pipelined mode the operator never waits: it takes a `step` whenever there is something to do, and timeouts
follow the clock. In both modes a result that has arrived never times out.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import RecordError
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.runtime.isolation import isolated
from penstock.runtime.operators.functions.async_loop import StepLoop
from penstock.runtime.operators.functions.async_queue import AsyncQueueEntry
from penstock.runtime.time.decisions import ANSWERS_TAKEN, CALL_FAILED, WALL, RuntimeDecisions

# How long a cancelled call may take to end before it is abandoned.
_GRACE_S = 1.0

Answer = Callable[[AsyncQueueEntry], None]


class CallFailedError(Exception):
    """A call raised or returned an invalid result; `cause` says why, `record` is its input."""

    def __init__(self, cause: BaseException, record: Record) -> None:
        super().__init__(cause, record)
        self.cause = cause
        self.record = record


def _nothing() -> bool:
    return False


class AsyncCalls:
    """Calls the user's function for entries, with retries and timeouts, and passes completed entries to `on_answer`.

    `on_answer` is called inside the loop: it may start calls, and must not run user code that could block or use its own
    loop.
    """

    def __init__(
        self,
        spec: AsyncWaitSpec,
        loop: asyncio.AbstractEventLoop,
        on_answer: Answer,
        decisions: RuntimeDecisions = WALL,
        place: str = "answers",
    ) -> None:
        self._loop = loop
        #: The loop in pipelined mode, where it is stepped and never run.
        self._steps = loop if isinstance(loop, StepLoop) else None
        self._decisions = decisions
        self._place = place
        #: The number of the next call in this interval, and how many have completed in it.
        self._next_number = 0
        self._answered = 0
        #: The completion order to follow in a replay, None where none was recorded; results that complete earlier wait.
        self._script: Iterator[int] | None = None
        self._early: dict[AsyncQueueEntry, Any] = {}
        self._early_failed: set[AsyncQueueEntry] = set()
        self._early_failure: CallFailedError | None = None
        self._on_answer = on_answer
        self._function = spec.function
        self._invoke: Callable[[Any], Awaitable[Any]] = spec.function.async_invoke
        self._timeout = spec.timeout / 1000
        self._strategy = spec.retry_strategy
        predicate = None if self._strategy is None else self._strategy.get_retry_predicate()
        self._retries_result = None if predicate is None else predicate.result_predicate()
        self._retries_error = None if predicate is None else predicate.exception_predicate()
        self._ask = self._ask_once if self._strategy is None else self._ask_with_retries
        #: Calls in flight, ordered by deadline: all have the same timeout.
        self._asked: dict[AsyncQueueEntry, None] = {}
        #: What `run` waits for, and the handle that stops the loop once it is true; None: it is not true, or nothing waits.
        self._enough = _nothing
        self._stop: asyncio.Handle | None = None
        #: The first failure, which every later call of `run` or `step` raises.
        self._failure: CallFailedError | None = None
        #: Seconds in which the loop did not run, which do not count for timeouts, and since when it stands still; None: it runs.
        self._paused_s = 0.0
        self._stopped_at: float | None = loop.time()
        #: Expires the first call in `_asked`, in a loop that is run; one that is stepped is asked for its deadline.
        self._timer: asyncio.TimerHandle | None = None

    # Driving the loop.

    def complete(self, result: object) -> None:
        """Await the return value of a method of the user's function, if it is awaitable."""
        if inspect.isawaitable(result):
            self._loop.run_until_complete(_finish(result))

    def run(self, enough: Callable[[], bool], limit: float | None = None) -> None:
        """Run until `enough()`, at most for `limit` seconds; raises CallFailedError.

        `enough` is checked after each result. If it is true already, the loop makes one pass: new calls start, and
        available results
        are taken.
        """
        if self._script is not None and self._follow_script():
            return
        self._run_loop(enough, limit)
        self._decisions.answered(self._place, ANSWERS_TAKEN)

    def step(self) -> None:
        """Do everything that is possible without waiting; raises CallFailedError."""
        assert self._steps is not None
        if self._script is not None and self._follow_script():
            return
        if self._failure is None:
            self._steps.step()
        if self._failure is None and self._expire_late():
            self._steps.step()  # abandoned calls end
        if self._failure is not None:
            raise self._failure
        self._decisions.answered(self._place, ANSWERS_TAKEN)

    def time(self) -> float:
        """Return the time of the loop's clock, which is time.monotonic() except in tests."""
        return self._loop.time()

    def next_step(self) -> float | None:
        """Return when a step is due even if nothing arrives, by the loop's clock; None: never."""
        assert self._steps is not None
        due = self._steps.due
        if self._timeout > 0 and self._asked:
            deadline = next(iter(self._asked)).deadline
            due = deadline if due is None else min(due, deadline)
        return due

    def begin_interval(self) -> None:
        """Reset the call numbers; calls in flight come first, because they are repeated first after a restore."""
        self._next_number = self._answered = 0
        for entry in self._asked:
            entry.number = self._next_number
            self._next_number += 1
        self._script = self._decisions.answers(self._place)

    def _follow_script(self) -> bool:
        """Take results in the recorded order; return False where the record ends."""
        assert self._script is not None
        for answer in self._script:
            if answer == ANSWERS_TAKEN:
                return True
            if answer == CALL_FAILED:
                self._run_loop(self._all_ended)
                break
            timed_out, number = answer & 1, (answer >> 1) + self._answered
            entry = next((each for each in self._asked if each.number == number), None)
            if entry is None:
                break
            if timed_out:
                self._early.pop(entry, None)
                self._time_out(entry)
            else:
                self._run_loop(partial(self._has_ended, entry))
                if entry not in self._early:
                    break
                self._take(entry, self._early.pop(entry))
        self._script = None
        self._failure, self._early_failure = self._early_failure, None
        if self._failure is not None:
            raise self._failure
        for entry, results in list(self._early.items()):
            self._take(entry, results)
        self._early.clear()
        return False

    def _has_ended(self, entry: AsyncQueueEntry) -> bool:
        return entry in self._early or entry in self._early_failed

    def _all_ended(self) -> bool:
        """Whether a call has failed, or none is left that could."""
        return bool(self._early_failed) or len(self._early) == len(self._asked)

    def _run_loop(self, enough: Callable[[], bool], limit: float | None = None) -> None:
        if self._failure is not None:
            raise self._failure
        loop = self._loop
        self._start_clock()
        self._enough = enough
        limiter = None
        if enough() or limit == 0:
            loop.stop()
        elif limit is not None:
            limiter = loop.call_later(limit, loop.stop)
        try:
            loop.run_forever()
        finally:
            self._enough = _nothing
            for handle in (limiter, self._stop):
                if handle is not None:
                    handle.cancel()
            self._stop = None
            self._stop_clock()
        if self._failure is not None:
            raise self._failure

    def cancel(self) -> None:
        """Cancel all calls; their results are ignored from now on."""
        tasks = dict.fromkeys(entry.task for entry in self._asked)
        self._asked.clear()
        self._early.clear()
        self._early_failed.clear()
        self._early_failure = None
        self._cancel(tasks)

    def _cancel(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE_S))

    def close(self) -> None:
        """Cancel all calls, close the user's function, and stop the loop with everything in it."""
        loop = self._loop
        try:
            self.cancel()
            closer = getattr(self._function, "close", None)
            if callable(closer):
                self.complete(closer())
        finally:
            self._cancel(asyncio.all_tasks(loop))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    # Calling.

    def ask(self, entry: AsyncQueueEntry) -> None:
        """Start the call of one entry."""
        self._register(entry, self._loop.create_task(self._ask(entry)), self._now())

    def ask_together(self, entries: list[AsyncQueueEntry]) -> None:
        """Start one call for many entries."""
        task, now = self._loop.create_task(self._ask_batch(entries)), self._now()
        for entry in entries:
            self._register(entry, task, now)

    def _register(self, entry: AsyncQueueEntry, task: asyncio.Task[None], now: float) -> None:
        self._asked[entry] = None
        entry.number = self._next_number
        self._next_number += 1
        entry.task = task
        if self._steps is not None and not self._loop.is_running():
            self._steps.due = now  # nothing else would report that the call can start
        if self._timeout > 0:
            entry.deadline = now + self._timeout
            if self._timer is None and self._stopped_at is None and self._script is None:
                self._arm()

    async def _ask_once(self, entry: AsyncQueueEntry) -> None:
        try:
            results = await self._invoke(entry.value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it fails the job
            self._fail(entry, error)
        else:
            self._answer(entry, results)

    async def _ask_with_retries(self, entry: AsyncQueueEntry) -> None:
        attempt = 0
        again = True
        try:
            while again:
                attempt += 1
                error: Exception | None = None
                results = None
                try:
                    results = await self._invoke(entry.value)
                except Exception as raised:  # noqa: BLE001 - the strategy decides
                    error = raised
                else:
                    _check(results, self._function)
                again = self._wants_retry(results, error) and self._strategy.can_retry(attempt)
                if again:
                    await self._back_off(attempt)
            if error is not None:
                raise error
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - it fails the job
            self._fail(entry, failure)
        else:
            self._answer(entry, results)

    async def _ask_batch(self, entries: list[AsyncQueueEntry]) -> None:
        attempt = 0
        left = entries
        try:
            while left:
                attempt += 1
                again = self._strategy is not None and self._strategy.can_retry(attempt)
                left = await self._ask_left(left, again=again)
                if left:
                    await self._back_off(attempt)
        except (Exception, asyncio.CancelledError) as failure:  # noqa: BLE001 - it fails the job
            if any(entry in self._asked for entry in entries):
                self._fail_with(failure, [entry.value for entry in left], left)

    async def _ask_left(
        self, entries: list[AsyncQueueEntry], *, again: bool
    ) -> list[AsyncQueueEntry]:
        """Call the function for entries once; return those to retry."""
        try:
            answers = await self._function.async_invoke_batch([entry.value for entry in entries])
        except Exception as error:
            if again and self._wants_retry(None, error):
                return entries
            raise
        _check(answers, self._function, "async_invoke_batch")
        if len(answers) != len(entries):
            raise RecordError(
                f"async_invoke_batch returned {len(answers)} lists for {len(entries)} values",
                hint="return one list of results for each value, in the order of the values",
            )
        left = []
        for entry, results in zip(entries, answers, strict=True):
            if again and results is not None and self._wants_retry(results, None):
                left.append(entry)
            else:
                self._answer(entry, results)
        return left

    def _wants_retry(self, results: object, error: Exception | None) -> bool:
        if error is not None:
            return self._retries_error is not None and bool(self._retries_error(error))
        return self._retries_result is not None and bool(self._retries_result(results))

    async def _back_off(self, attempt: int) -> None:
        await asyncio.sleep(self._strategy.get_backoff_time_millis(attempt) / 1000)

    # Completing.

    def _answer(self, entry: AsyncQueueEntry, results: Any, *, timed_out: bool = False) -> None:
        if entry not in self._asked:
            return  # timed out before, or cancelled
        try:
            _check(results, self._function)
        except Exception as error:  # noqa: BLE001 - it fails the job
            self._fail(entry, error)
            return
        if self._script is None or timed_out:
            self._take(entry, results, timed_out=timed_out)
        else:
            self._early[entry] = results
        self._stop_if_enough()

    def _stop_if_enough(self) -> None:
        if self._stop is None and self._enough():
            # One pass later, so that the calls which replace this one start.
            self._stop = self._loop.call_soon(self._loop.stop)

    def _take(self, entry: AsyncQueueEntry, results: list[Any], *, timed_out: bool = False) -> None:
        del self._asked[entry]
        # In the order of the calls it is 0 each time.
        answer = entry.number - self._answered
        self._decisions.answered(self._place, answer << 1 | timed_out)
        self._answered += 1
        entry.results = list(map(isolated, results))
        entry.task = None
        self._on_answer(entry)

    def _fail(self, entry: AsyncQueueEntry, error: BaseException) -> None:
        if entry in self._asked:
            self._fail_with(error, entry.value, [entry])

    def _fail_with(
        self, error: BaseException, record: object, entries: list[AsyncQueueEntry]
    ) -> None:
        if self._script is not None:
            self._early_failure = self._early_failure or CallFailedError(error, record)
            self._early_failed.update(entries)
            self._stop_if_enough()
            return
        if self._failure is None:
            self._failure = CallFailedError(error, record)
            self._decisions.answered(self._place, CALL_FAILED)
        self._loop.stop()

    # Timeouts: one timer for all, because deadlines have the order of the calls.

    def _now(self) -> float:
        """Return how long the loop has run; in steps, the clock."""
        if self._steps is not None:
            return self._loop.time()
        moment = self._loop.time() if self._stopped_at is None else self._stopped_at
        return moment - self._paused_s

    def _start_clock(self) -> None:
        assert self._stopped_at is not None
        if self._steps is None:
            self._paused_s += self._loop.time() - self._stopped_at
        self._stopped_at = None
        if self._timeout > 0 and self._asked and self._script is None:
            self._arm()

    def _stop_clock(self) -> None:
        self._stopped_at = self._loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        first = next(iter(self._asked))
        self._timer = self._loop.call_at(first.deadline + self._paused_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._expire_late()
        if self._asked and self._timer is None:
            self._arm()

    def _expire_late(self) -> bool:
        """Expire calls whose timeout is over; return whether there are any."""
        if self._timeout <= 0:
            return False
        now = self._now() + 1e-6
        late = list(takewhile(lambda entry: entry.deadline <= now, self._asked))
        for entry in late:
            self._time_out(entry)
        return bool(late)

    def _time_out(self, entry: AsyncQueueEntry) -> None:
        try:
            results = self._function.timeout(entry.value)
        except Exception as error:  # noqa: BLE001 - it fails the job
            self._fail(entry, error)
            return
        # Before the result is passed on, which may start the next call. Others of the same call time out at the same moment.
        entry.task.cancel()
        self._answer(entry, results, timed_out=True)


def _check(results: object, function: object, method: str = "async_invoke") -> None:
    if not isinstance(results, list):
        name = type(function).__name__
        wrong = "cannot be none: it " if results is None else ""
        got = "None" if results is None else f"{type(results).__name__}"
        raise RecordError(
            f"the result of an AsyncFunction {wrong}should be of list type, got {got}",
            detail=f"see the methods '{method}' and 'timeout' of class {name}",
            hint=f"return a list from {method} and timeout: [] for no result, [result] for one",
        )


async def _finish(awaitable: Awaitable[Any]) -> None:
    await awaitable

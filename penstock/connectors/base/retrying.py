"""Retries of connectors: the pauses between attempts, and the functions that make the attempts.

Every connector that repeats a failed call does it with `retry` or `retry_async`, which are based on tenacity. It takes some 40 ms to import,
so it is imported with the first call: a worker starts without it.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")


class AttemptFailedError(Exception):
    """An attempt had an answer that says to try again. `pause_s`: the system asks for a pause of at least this many seconds."""

    def __init__(self, reason: str, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts: `first_ms`, then `factor` times as long each time, up to `longest_ms`, with random jitter.

    They end after `retries` pauses, or after `within_ms`, whichever is set. The last pause is cut to what is left of that time;
    if not `cuts_last_pause`, a pause that is longer than what is left is left out.

    >>> [round(pause, 3) for pause in Backoff(100, 1000, retries=5, jitter=0).pauses()]
    [0.1, 0.2, 0.4, 0.8, 1.0]
    """

    first_ms: float = 100
    longest_ms: float = 10_000
    factor: float = 2.0
    retries: int | None = None
    within_ms: float | None = None
    jitter: float = 0.2
    cuts_last_pause: bool = True

    def pauses(self, since: float | None = None) -> Iterator[float]:
        """Yield the pause before each retry, in seconds, until no retries are left.

        The time begins at `since` on the clock of `time.monotonic`, by default with the first pause.
        """
        end = math.inf
        if self.within_ms is not None:
            end = (time.monotonic() if since is None else since) + self.within_ms / 1000
        pause = self.first_ms / 1000
        count = 0
        while self.retries is None or count < self.retries:
            left = end - time.monotonic()
            if left <= 0 or (pause > left and not self.cuts_last_pause):
                return
            chance = 1 + self.jitter * (2 * random.random() - 1)  # noqa: S311 - no secret
            yield min(pause * chance, left)
            pause = min(pause * self.factor, self.longest_ms / 1000)
            count += 1


def retry(
    action: Callable[[], T],
    pauses: Iterable[float],
    *,
    when: Callable[[Exception], bool],
    before_pause: Callable[[Exception], object] = lambda _: None,
    sleep: Callable[[float], Any] | None = None,
) -> T:
    """Return the result of an action, which is repeated after each pause while its errors are temporary; raise the last error.

    `when` tells whether an error is temporary; `before_pause` gets those that are followed by another attempt.

    >>> answers = iter([OSError("busy"), OSError("busy"), 42])
    >>> def ask():
    ...     if isinstance(answer := next(answers), Exception):
    ...         raise answer
    ...     return answer
    >>> retry(ask, [0.0, 0.0], when=lambda error: isinstance(error, OSError), before_pause=print)
    busy
    busy
    42
    """
    from tenacity import Retrying

    return Retrying(sleep=sleep or time.sleep, **_settings(pauses, when, before_pause))(action)


async def retry_async(
    action: Callable[[], Awaitable[T]],
    pauses: Iterable[float],
    *,
    when: Callable[[Exception], bool],
    before_pause: Callable[[Exception], object] = lambda _: None,
) -> T:
    """Like `retry`, for an async function."""
    from tenacity import AsyncRetrying

    result: T = await AsyncRetrying(sleep=asyncio.sleep, **_settings(pauses, when, before_pause))(
        action
    )
    return result


def _settings(
    pauses: Iterable[float],
    when: Callable[[Exception], bool],
    before_pause: Callable[[Exception], object],
) -> dict[str, Any]:
    """Return tenacity's settings. It computes the next pause first, then asks whether to stop."""
    from tenacity import retry_if_exception

    left = iter(pauses)

    def wait(state: RetryCallState) -> float:
        pause, error = next(left, math.inf), _error(state)
        return max(pause, error.pause_s) if isinstance(error, AttemptFailedError) else pause

    return {
        "retry": retry_if_exception(lambda error: isinstance(error, Exception) and when(error)),
        "wait": wait,
        "stop": lambda state: state.upcoming_sleep == math.inf,
        "before_sleep": lambda state: before_pause(_error(state)),
        "reraise": True,
    }


def _error(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.exception()

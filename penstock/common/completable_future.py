"""CompletableFuture: a result that comes later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
# How long threads wait before they look whether Ctrl-C was pressed. A library that takes the signal
# (Polars does) may ask for waits to be resumed behind it: one without an end would never hear of it.
LISTEN_S = 0.2


class CompletableFuture(Generic[T]):
    """A result that comes later, over a concurrent.futures.Future. It can be awaited too."""

    def __init__(self, future: Future[T] | None = None) -> None:
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: R) -> CompletableFuture[R]:
        """Create a future that has its result already."""
        future: CompletableFuture[R] = CompletableFuture()
        future.set_result(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture[Any]:
        """Create a future that has failed already."""
        future: CompletableFuture[Any] = CompletableFuture()
        future.set_exception(error)
        return future

    def cancel(self) -> bool:
        """Give up on the result; return whether that was still possible."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether the future was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, an error or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result (seconds at most) and return it, or raise the error."""
        if timeout is None:
            self._listen()
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end (seconds at most) and return the error, or None."""
        if timeout is None:
            self._listen()
        return self._future.exception(timeout)

    def _listen(self) -> None:
        """Wait for the end, and let Ctrl-C end the waiting (see LISTEN_S)."""
        while not self._future.done():
            with contextlib.suppress(TimeoutError):
                self._future.exception(LISTEN_S)

    def set_result(self, result: T) -> bool:
        """Set the result; return False if there was one already."""
        return self._complete(lambda: self._future.set_result(result))

    def set_exception(self, exception: BaseException) -> bool:
        """Set the error; return False if there was a result already."""
        return self._complete(lambda: self._future.set_exception(exception))

    @staticmethod
    def _complete(action: Callable[[], None]) -> bool:
        try:
            action()
        except InvalidStateError:
            return False
        return True

    def add_done_callback(self, callback: Callable[[CompletableFuture[T]], Any]) -> None:
        """Call `callback` with this future when it is done."""
        self._future.add_done_callback(lambda _: callback(self))

    def then_apply(self, function: Callable[[T], R]) -> CompletableFuture[R]:
        """Return a future of what `function` makes of the result."""
        following: CompletableFuture[R] = CompletableFuture()

        def forward(future: Future[T]) -> None:
            if future.cancelled():
                following.cancel()
                return
            try:
                following.set_result(function(future.result()))
            except BaseException as error:  # noqa: BLE001  the error is the result
                following.set_exception(error)

        self._future.add_done_callback(forward)
        return following

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        if self.cancelled():
            state = "cancelled"
        elif self.done():
            error = self._future.exception()
            state = repr(self._future.result()) if error is None else f"failed with {error!r}"
        else:
            state = "pending"
        return f"CompletableFuture({state})"


__all__ = ["CompletableFuture"]

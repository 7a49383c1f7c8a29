"""Asynchronous calls: the class that PyFlink has, and Penstock does not run yet."""

from __future__ import annotations

from penstock.datastream._not_implemented import not_implemented
from penstock.datastream.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryStrategy,
)

_ASYNC = "asynchronous operators are not there yet"
_HINT = "call the service from a map() or flat_map() function"


class AsyncDataStream:
    """Adds asynchronous calls to a stream."""

    unordered_wait = not_implemented(_ASYNC, hint=_HINT)
    unordered_wait_with_retry = not_implemented(_ASYNC, hint=_HINT)
    ordered_wait = not_implemented(_ASYNC, hint=_HINT)
    ordered_wait_with_retry = not_implemented(_ASYNC, hint=_HINT)


__all__ = ["AsyncDataStream", "AsyncFunction", "AsyncFunctionDescriptor", "AsyncRetryStrategy"]

"""Lookup joins: each row with the current rows of an external table for its key."""

from __future__ import annotations

import asyncio
import io
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import polars as pl

from penstock.errors import PenstockError
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.joins.lookups import Lookup, ask, checked
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.functions.async_queue import AsyncQueueEntry
from penstock.runtime.operators.functions.async_wait import AsyncWaitOperator

_ROWS_PER_CALL: Final = 256
_MOST_THREADS: Final = 16


class LookupJoinOperator(StreamOperator):
    """Looks up the keys of a batch at once, and waits for the results."""

    spec: LookupJoinSpec

    def open(self, context: OperatorContext) -> None:
        """Connect."""
        super().open(context)
        self._lookup = Lookup(self.spec, context.runtime_context)
        self.spec.lookup.open(context.runtime_context)

    def close(self) -> None:
        """Disconnect."""
        self._lookup.close()
        self.spec.lookup.close()

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Look up the keys of all rows."""
        if not len(batch):
            return
        try:
            joined = self._join(batch.frame)
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error
        if joined.height:
            self.output.emit(ColumnBatch(joined))

    def _join(self, frame: pl.DataFrame) -> pl.DataFrame:
        lookup = self._lookup
        if hasattr(self.spec.lookup, "frame"):
            return lookup.join_frame(frame, self.spec.lookup.frame())
        question = lookup.question(frame)
        answers = ask(self.spec.lookup.lookup, question.keys)
        for _ in range(lookup.retries):
            missing = lookup.misses(answers)
            if not missing:
                break
            time.sleep(lookup.delay_ms / 1000)
            again = ask(self.spec.lookup.lookup, [question.keys[at] for at in missing])
            for at, rows in zip(missing, again, strict=True):
                answers[at] = rows
        return lookup.join(question, answers)


class AsyncLookupJoinOperator(AsyncWaitOperator):
    """Looks up the keys of a few rows at a time, with many requests in flight: rows are one record of the asynchronous operator, as bytes."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._lookup_spec = spec
        super().__init__(
            AsyncWaitSpec(_AsyncLookup(spec), spec.ordered, spec.timeout_ms, spec.capacity)
        )

    def process(self, batch: Any, input_index: int = 0) -> None:
        """Begin calls, as many at a time as the capacity allows."""
        frame = batch.frame
        # Few rows per call while there are few rows, so that several calls are in flight.
        size = min(_ROWS_PER_CALL, max(1, -(-frame.height // self._lookup_spec.capacity)))
        self.start_calls(
            AsyncQueueEntry(_to_bytes(frame.slice(start, size)), None)
            for start in range(0, frame.height, size)
        )

    def emit_results(self, values: list[Any], times: list[int | None]) -> None:
        """Emit the joined rows of all calls as one batch."""
        frames = [frame for each in values if (frame := _from_bytes(each)).height]
        if frames:
            batch = ColumnBatch(frames[0])
            for frame in frames[1:]:
                batch.extend(ColumnBatch(frame))
            self.output.emit(batch)


class _AsyncLookup:
    """The asynchronous function: a provider with `lookup_async` is awaited, any other is called in threads."""

    def __init__(self, spec: LookupJoinSpec) -> None:
        self._spec = spec
        self._provider = spec.lookup
        self._threads: ThreadPoolExecutor | None = None

    def open(self, runtime_context: Any) -> None:
        """Connect."""
        self._lookup = Lookup(self._spec, runtime_context)
        self._provider.open(runtime_context)
        if not hasattr(self._provider, "lookup_async"):
            self._threads = ThreadPoolExecutor(
                min(self._spec.capacity, _MOST_THREADS), "penstock-lookup"
            )

    def close(self) -> None:
        """Disconnect."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._lookup.close()
        self._provider.close()

    async def async_invoke(self, value: bytes) -> list[bytes]:
        """Look up the keys of some rows."""
        lookup = self._lookup
        question = lookup.question(_from_bytes(value))
        answers = await self._ask(question.keys)
        for _ in range(lookup.retries):
            missing = lookup.misses(answers)
            if not missing:
                break
            await asyncio.sleep(lookup.delay_ms / 1000)
            again = await self._ask([question.keys[at] for at in missing])
            for at, rows in zip(missing, again, strict=True):
                answers[at] = rows
        return [_to_bytes(lookup.join(question, answers))]

    async def _ask(self, keys: list[Any]) -> list[Any]:
        if not keys:
            return []
        if self._threads is None:
            return checked(await self._provider.lookup_async(keys), keys)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, ask, self._provider.lookup, keys)

    def timeout(self, value: bytes) -> list[bytes]:
        """Fail: a lookup that times out is an error."""
        raise TimeoutError(
            f"a lookup of {_from_bytes(value).height} rows timed out after {self._spec.timeout_ms} ms"
        )


def _to_bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer, compression="uncompressed")
    return buffer.getvalue()


def _from_bytes(content: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(content))

"""A harness to test one operator: no Spark, no threads, a clock that stands still.

>>> from penstock.graph.operator_specs import MapSpec
>>> harness = OperatorHarness(MapSpec(lambda n: n + 1))
>>> harness.process_element(1, timestamp=10)
>>> harness.output()
[(2, 10)]
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.common.user_types import Key, Record
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentError
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.graph.keys import as_keys
from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.transformations import OperatorTransformation
from penstock.runtime.metrics import OperatorMetricGroup
from penstock.runtime.operators.base import (
    CheckpointInterval,
    KeyedContext,
    OperatorContext,
    OperatorSlot,
    Output,
    StreamOperator,
)
from penstock.runtime.operators.hooks import FollowsCheckpoints, UsesProcessingTime
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from penstock.runtime.records import RowBatch
from penstock.runtime.state.backends import BACKENDS
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.operator_state import OperatorStateBackend, StateClasses
from penstock.runtime.state.redistribution import merge_classes, redistribute
from penstock.runtime.task.shared.typed_output import typed_output
from penstock.runtime.time.decisions import WALL, RuntimeDecisions
from penstock.runtime.time.timers import TimerManager
from penstock.runtime.user_code import method_of

_NO_KEY: Any = object()


class ManualClock:
    """A manual clock in epoch milliseconds.

    >>> clock = ManualClock(1000)
    >>> clock.advance(500)
    >>> clock()
    1500
    """

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        """Return the time."""
        return self.now

    def set(self, now: int) -> None:
        """Move to a time."""
        if now < self.now:
            raise ArgumentError(f"the clock cannot go back from {self.now} to {now}")
        self.now = now

    def advance(self, millis: int) -> None:
        """Move on by some time."""
        self.set(self.now + millis)


class CollectingOutput:
    """Keeps everything an operator emits, checked by the declared types."""

    def __init__(self, types: Mapping[str | None, Any] | None = None) -> None:
        self._types = {tag: typed_output(kind) for tag, kind in (types or {}).items()}
        self.records: list[tuple[Any, int | None]] = []
        self.side_records: dict[str, list[tuple[Any, int | None]]] = {}
        self.watermarks: list[int] = []
        self.statuses: list[bool] = []
        self.batches: list[int] = []  # the size of each batch of the main output

    def emit(self, batch: Any) -> None:
        """Keep records."""
        self._check(None, batch)
        self.batches.append(len(batch))
        self.records.extend(_pairs(batch))

    def emit_side(self, tag: str, batch: Any) -> None:
        """Keep records of a side output."""
        self._check(tag, batch)
        self.side_records.setdefault(tag, []).extend(_pairs(batch))

    def _check(self, tag: str | None, batch: Any) -> None:
        typed = self._types.get(tag)
        if typed is not None:
            batch.apply_types(typed.apply)

    def emit_watermark(self, watermark: int) -> None:
        """Keep a watermark."""
        self.watermarks.append(watermark)

    def emit_status(self, idle: bool) -> None:
        """Keep a status."""
        self.statuses.append(idle)


def _backend(
    kind: str, clock: ManualClock, max_parallelism: int, operator: str
) -> KeyedStateBackend:
    backend = BACKENDS.get(kind)
    if backend is None:
        names = " or ".join(map(repr, BACKENDS))
        raise ArgumentError(f"the state backend must be {names}, not {kind!r}")
    return backend.create_temporary(clock, operator, max_parallelism)


def _pairs(batch: Any) -> list[tuple[Any, int | None]]:
    """Return records with their timestamps; the rows of columns are tuples."""
    values = batch.values if isinstance(batch, RowBatch) else batch.extract(lambda row: row)
    timestamps = batch.timestamps
    if timestamps is None:
        return [(value, None) for value in values]
    return list(zip(values, timestamps, strict=True))


@dataclass(frozen=True, slots=True)
class HarnessSnapshot:
    """The state of one subtask, as bytes: the changes of each epoch so far, the operator's own state, the watermark.

    `classes` are those of objects in the operator's own state.
    """

    deltas: tuple[bytes, ...]
    operator_state: bytes
    watermark: int
    classes: StateClasses = field(default_factory=dict)


class HarnessSlot:
    """The slot of an operator in pipelined mode: counts wake-ups, watches no files, keeps what a sink sends to the driver."""

    def __init__(self, harness: OperatorHarness) -> None:
        self._harness = harness
        self.sent: list[bytes] = []

    def wake(self) -> None:
        """Count a wake-up."""
        self._harness.woken += 1

    def watch(self, file: int | None) -> bool:
        """Return False: the operator has to poll."""
        return False

    def tell(self, data: bytes) -> None:
        """Keep the output."""
        self.sent.append(data)


class OperatorHarness:
    """Runs one subtask of one operator.

    `operator` is a stream, whose last operator is taken with its key selectors and declared types, or a spec, or an operator
    object. With `key_selector` (one, or one per input) records get their keys; a key may also be given with each record.
    `state_backend` is `hashmap` or `rocksdb`; `keyed_state` is a
    backend that is in use already. `pipelined`: records flow between barriers; `woken` counts the operator's calls of `wake`.
    The operator is open after construction.
    """

    def __init__(
        self,
        operator: DataStream | OperatorSpec | StreamOperator,
        *,
        key_selector: Any = None,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        clock: ManualClock | None = None,
        snapshots: Iterable[HarnessSnapshot] = (),
        name: str = "operator",
        batch_mode: bool = False,
        job_parameters: dict[str, str] | None = None,
        state_backend: str = "hashmap",
        keyed_state: KeyedStateBackend | None = None,
        pipelined: bool = False,
        auto_watermark_interval: int = 200,
        output: Output | None = None,
        decisions: RuntimeDecisions | None = None,
        slot: OperatorSlot | None = None,
        job_id: str = "harness",
        attempt: str = "attempt",
        staging: str = "",
        checkpointed: bool = True,
        untimed_inputs: str | None = None,
    ) -> None:
        self.woken = 0
        self._attempt, self._staging = attempt, staging
        self.clock = clock or ManualClock()
        self.metrics = OperatorMetricGroup()
        self.keyed_state = keyed_state or _backend(state_backend, self.clock, max_parallelism, name)
        types: dict[str | None, Any] = {}
        if isinstance(operator, DataStream):
            operator, selectors, types = _last_operator(operator)
            key_selector = selectors if key_selector is None else key_selector
        self.operator = operator if isinstance(operator, StreamOperator) else _create(operator)
        self._key_selectors = _selectors(key_selector)
        self._output = CollectingOutput(types)
        self._deltas: tuple[bytes, ...] = ()
        self._place = (subtask, parallelism, max_parallelism)
        snapshots = list(snapshots)
        operator_state = self._restore(snapshots, name)
        self.timers = TimerManager(self.keyed_state)
        self._checkpoint_id = 1
        if snapshots:
            self.timers.watermark = min(snapshot.watermark for snapshot in snapshots)
        self._watermark = self.timers.watermark
        runtime_context = StreamingRuntimeContext(
            task_name=name,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            keyed_state=self.keyed_state,
            operator_state=operator_state,
            job_parameters=job_parameters,
            metrics=self.metrics,
        )
        self.context = OperatorContext(
            operator_id=name,
            operator_name=name,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            job_id=job_id,
            interval=self._interval(),
            checkpointed=checkpointed,
            output=output or self._output,
            runtime_context=runtime_context,
            operator_state=operator_state,
            keyed=KeyedContext(self.keyed_state, self.timers),
            clock=self.clock if decisions is None else decisions.clock,
            decisions=WALL if decisions is None else decisions,
            batch_mode=batch_mode,
            auto_watermark_interval=auto_watermark_interval,
            untimed_inputs=untimed_inputs,
            slot=(slot or HarnessSlot(self)) if pipelined else None,
        )
        self.operator.open(self.context)

    @classmethod
    def restore(
        cls,
        operator: DataStream | OperatorSpec | StreamOperator,
        snapshots: Sequence[HarnessSnapshot],
        subtask: int = 0,
        parallelism: int = 1,
        **options: Any,
    ) -> OperatorHarness:
        """Start a subtask from the snapshots of all former subtasks, at this or another parallelism."""
        return cls(
            operator, subtask=subtask, parallelism=parallelism, snapshots=snapshots, **options
        )

    def _restore(self, snapshots: list[HarnessSnapshot], name: str) -> OperatorStateBackend:
        subtask, parallelism, max_parallelism = self._place
        mine = key_group_range(subtask, parallelism, max_parallelism)

        def owns(key: Key) -> bool:
            return key_group_of(key, max_parallelism) in mine

        for snapshot in snapshots:
            for delta in snapshot.deltas:
                self.keyed_state.apply(pickle.loads(delta), owns)
        if snapshots:
            # what was restored is the first delta of later snapshots
            self.keyed_state.snapshot()
            self._deltas = (pickle.dumps(self.keyed_state.full_snapshot(), protocol=5),)
        states = [pickle.loads(snapshot.operator_state) for snapshot in snapshots]
        return OperatorStateBackend(
            redistribute(states, parallelism, subtask),
            operator=name,
            classes=merge_classes(snapshot.classes for snapshot in snapshots),
        )

    def _interval(self) -> CheckpointInterval:
        return CheckpointInterval(self._checkpoint_id, self._attempt, self._staging)

    # -- input

    def process_element(
        self, value: Record, timestamp: int | None = None, key: Key = _NO_KEY, input_index: int = 0
    ) -> None:
        """Send one record."""
        keys = None if key is _NO_KEY else [key]
        self.process_batch(RowBatch([value], [timestamp], keys), input_index)

    def process_elements(
        self, records: Iterable[tuple[Any, int | None]], input_index: int = 0
    ) -> None:
        """Send records, given as (value, timestamp), as one batch."""
        records = list(records)
        values = [value for value, _ in records]
        self.process_batch(RowBatch(values, [timestamp for _, timestamp in records]), input_index)

    def process_batch(self, batch: Any, input_index: int = 0) -> None:
        """Send a batch; keys are computed if there is a key selector and the batch has none."""
        if batch.keys is None and self._key_selectors:
            select = self._key_selectors[min(input_index, len(self._key_selectors) - 1)]
            if select is not None:  # a broadcast input has no keys
                batch.keys = as_keys(map(select, batch.values))
        self.operator.process(batch, input_index)

    def process_watermark(self, watermark: int) -> None:
        """Move event time on."""
        if watermark < self._watermark:
            raise ArgumentError(
                f"the watermark cannot go back from {self._watermark} to {watermark}"
            )
        self._watermark = watermark
        self.operator.process_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Say that the input turned idle or active."""
        self.operator.process_status(idle)

    def advance_processing_time(self, millis: int) -> None:
        """Move the clock on by `millis` and fire what is due."""
        self.clock.advance(millis)
        self._advance_processing_time()

    def set_processing_time(self, now: int) -> None:
        """Move the clock to `now` and fire what is due."""
        self.clock.set(now)
        self._advance_processing_time()

    def _advance_processing_time(self) -> None:
        if isinstance(self.operator, UsesProcessingTime):
            self.operator.advance_processing_time(self.clock.now)

    def finish(self, *, drained: bool = False) -> None:
        """End the input: the last watermark, then `finish`. `drained`: there may be more input for a job that resumes from a savepoint."""
        self.process_watermark(2**63 - 1)
        self.operator.finish(ends_for_good=not drained)

    # -- state

    def snapshot(self, next_attempt: str | None = None) -> HarnessSnapshot:
        """Pass a barrier: return the state, and continue with the next checkpoint interval, perhaps in another attempt."""
        self.operator.barrier()
        self.context.runtime_context.snapshot_functions(self._checkpoint_id, self.clock.now)
        delta = self.keyed_state.snapshot()
        if self.keyed_state.in_memory:
            self._deltas = (*self._deltas, pickle.dumps(delta, protocol=5))
        else:
            self._deltas = (pickle.dumps(self.keyed_state.full_snapshot(), protocol=5),)
        snapshot = HarnessSnapshot(
            self._deltas,
            pickle.dumps(self.context.operator_state.snapshot(), protocol=5),
            self._watermark,
            self.context.operator_state.classes(),
        )
        self._checkpoint_id += 1
        self._attempt = next_attempt or self._attempt
        if isinstance(self.operator, FollowsCheckpoints):
            self.operator.begin_interval(self._interval())
        return snapshot

    def state_entries(self) -> dict[str, int]:
        """Return how many entries each keyed state has, without the empty ones."""
        self.operator.barrier()
        self.keyed_state.snapshot()
        sizes = {
            name: len(delta.written) for name, delta in self.keyed_state.full_snapshot().items()
        }
        return {name: size for name, size in sizes.items() if size}

    # -- output

    def output(self) -> list[tuple[Any, int | None]]:
        """Return the emitted records as (value, timestamp)."""
        return list(self._output.records)

    def values(self) -> list[Any]:
        """Return the emitted values."""
        return [value for value, _ in self._output.records]

    def side_output(self, tag: Any) -> list[tuple[Any, int | None]]:
        """Return the records of a side output, by OutputTag or its name."""
        return list(self._output.side_records.get(getattr(tag, "tag_id", tag), ()))

    def watermarks(self) -> list[int]:
        """Return the emitted watermarks."""
        return list(self._output.watermarks)

    def statuses(self) -> list[bool]:
        """Return the emitted statuses: True for idle."""
        return list(self._output.statuses)

    def batch_sizes(self) -> list[int]:
        """Return the sizes of the emitted batches."""
        return list(self._output.batches)

    def clear(self) -> None:
        """Forget what was emitted so far."""
        output = self._output
        output.records.clear()
        output.side_records.clear()
        output.watermarks.clear()
        output.statuses.clear()
        output.batches.clear()

    def take(self) -> list[tuple[Any, int | None]]:
        """Return the emitted records and forget all that was emitted."""
        records = self.output()
        self.clear()
        return records

    def close(self) -> None:
        """Close the operator."""
        self.operator.close()


def _last_operator(
    stream: DataStream,
) -> tuple[OperatorSpec, tuple[Any, ...] | None, dict[str | None, Any]]:
    """Return the spec, the key selectors and the declared types of a stream's last operator."""
    step = stream.transformation
    if not isinstance(step, OperatorTransformation):
        raise ArgumentError(
            "the stream does not end with an operator",
            hint="give the result of map(), process() or another operation to the harness",
        )
    keyed = any(selector is not None for selector in step.key_selectors)
    outputs: list[tuple[str | None, Any]] = [(None, step.output_type), *step.side_types.items()]
    return step.spec, tuple(step.key_selectors) if keyed else None, dict(outputs)


def _create(spec: OperatorSpec) -> StreamOperator:
    from penstock.runtime.operators.registry import create_operator

    return create_operator(spec)


def _selectors(key_selector: Any) -> list[Callable[[Any], Any] | None]:
    if key_selector is None:
        return []
    selectors = key_selector if isinstance(key_selector, list | tuple) else [key_selector]
    return [None if selector is None else method_of(selector, "get_key") for selector in selectors]


__all__ = ["CollectingOutput", "HarnessSnapshot", "ManualClock", "OperatorHarness"]

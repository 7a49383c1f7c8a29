"""What an operator of a plan is: frozen descriptions, without behaviour.

The API writes them, the graph carries them, `penstock.runtime.operators` turns each into the operator that
runs inside a Spark task. User functions appear as they were given: a plain callable, or an object with
PyFlink's method for its kind (`map`, `flat_map`, ...), optionally with `open` and `close`. Where a spec has an
`error_tag`, a record that its function raises on goes to that side output as a DeadLetter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_SHOWN_IF_SET = {"shown": "if set"}  # plans leave such a field out while it has its default


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """Base of all operator descriptions."""


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    """Reads splits; assigns timestamps and watermarks per split."""

    source: Any  # penstock.connectors.source.Source
    watermark_strategy: Any  # penstock.common.watermark_strategy.WatermarkStrategy


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    """Writes records; pre-commits at the barrier."""

    sink: Any  # penstock.connectors.sink.Sink


@dataclass(frozen=True, slots=True)
class MapSpec(OperatorSpec):
    """One result per record."""

    function: Any
    error_tag: str | None = field(default=None, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class FlatMapSpec(OperatorSpec):
    """Any number of results per record."""

    function: Any
    error_tag: str | None = field(default=None, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class FilterSpec(OperatorSpec):
    """Keeps the records that the function says True to."""

    function: Any
    error_tag: str | None = field(default=None, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class TimestampsAndWatermarksSpec(OperatorSpec):
    """Assigns timestamps and emits watermarks, one generator per subtask."""

    watermark_strategy: Any


@dataclass(frozen=True, slots=True)
class ProcessSpec(OperatorSpec):
    """A ProcessFunction on a stream without keys."""

    function: Any
    error_tag: str | None = field(default=None, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(OperatorSpec):
    """A KeyedProcessFunction: keyed state and timers."""

    function: Any
    error_tag: str | None = field(default=None, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class KeyedReduceSpec(OperatorSpec):
    """A rolling reduce per key. `emit_updates` is False in BATCH mode: one value per key at the end."""

    function: Any
    emit_updates: bool = True


@dataclass(frozen=True, slots=True)
class WindowSpec(OperatorSpec):
    """A window operator, keyed or not (`window_all` uses one constant key).

    Exactly one of these holds: `reduce_function` is set, `aggregate_function` is set, or neither is and the
    window keeps its elements. `window_function` is called as `window_function.process(key, context, elements)`;
    without it the reduced or aggregated value itself is emitted. With an `evictor` the window keeps its elements, with their
    timestamps, in any case.
    """

    assigner: Any
    trigger: Any
    window_function: Any = None
    reduce_function: Any = None
    aggregate_function: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    keyed: bool = True
    evictor: Any = field(default=None, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class CoGroupWindowSpec(OperatorSpec):
    """A window over two keyed inputs.

    The window's elements are pairs `(input index, value)`; `window.window_function` takes them apart again.
    """

    window: WindowSpec


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(OperatorSpec):
    """Joins two keyed inputs where `lower <= right.timestamp - left.timestamp <= upper`, both inclusive.

    `function.process_element(left, right, context)` is called for every pair.
    """

    function: Any
    lower: int
    upper: int
    left_late_tag: str | None = None
    right_late_tag: str | None = None


@dataclass(frozen=True, slots=True)
class LocalAggregateSpec(OperatorSpec):
    """The first of two stages: folds records per key and window, and emits `(key, window start, accumulator)`.

    `window` is the spec of the second stage; its window function has no part in this one.
    """

    window: WindowSpec
    key_selector: Any


@dataclass(frozen=True, slots=True)
class GlobalAggregateSpec(OperatorSpec):
    """The second of two stages: merges the accumulators of the first one per key and window."""

    window: WindowSpec


@dataclass(frozen=True, slots=True)
class FullWindowPartitionSpec(OperatorSpec):
    """All records of a subtask, from the beginning of its input to the end, as one window.

    Exactly one is set. `function(values, timestamps)` gets all records and returns an iterable of (value, timestamp)
    pairs; the others fold records as they come.
    """

    function: Any = None
    reduce_function: Any = None
    aggregate_function: Any = None


@dataclass(frozen=True, slots=True)
class CoMapSpec(OperatorSpec):
    """At most one result per record of either input: `map1`, `map2`."""

    function: Any


@dataclass(frozen=True, slots=True)
class CoFlatMapSpec(OperatorSpec):
    """Any number of results per record of either input: `flat_map1`, `flat_map2`."""

    function: Any


@dataclass(frozen=True, slots=True)
class CoProcessSpec(OperatorSpec):
    """A CoProcessFunction on two inputs without keys."""

    function: Any


@dataclass(frozen=True, slots=True)
class KeyedCoProcessSpec(OperatorSpec):
    """A KeyedCoProcessFunction on two keyed inputs that share keyed state and timers."""

    function: Any


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec(OperatorSpec):
    """A BroadcastProcessFunction: input 0 has no keys, input 1 is broadcast.

    `states` are the descriptors of the broadcast state that the function may ask for.
    """

    function: Any
    states: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyedBroadcastProcessSpec(OperatorSpec):
    """A KeyedBroadcastProcessFunction: input 0 is keyed, input 1 is broadcast."""

    function: Any
    states: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class AsyncWaitSpec(OperatorSpec):
    """Asks an AsyncFunction about each record, with up to `capacity` records between input and output.

    `timeout` (milliseconds; 0 for none) is for all attempts of a record together; `retry_strategy` is None if nothing is tried
    again. With `max_batch` the function is asked about so many records in one call, by `async_invoke_batch`.
    `barrier_wait` (milliseconds) is how long a barrier waits for calls in flight before it makes their records part of the
    checkpoint.
    """

    function: Any
    ordered: bool
    timeout: int
    capacity: int = 100
    retry_strategy: Any = field(default=None, metadata=_SHOWN_IF_SET)
    max_batch: int | None = field(default=None, metadata=_SHOWN_IF_SET)
    barrier_wait: int = field(default=1000, metadata=_SHOWN_IF_SET)


@dataclass(frozen=True, slots=True)
class CepSpec(OperatorSpec):
    """Finds a pattern in the events of each key (a stream without keys has one constant key).

    `function` has `process_match(match, context)` and may have `process_timed_out_match(match, context)`. `comparator(a, b)`
    orders events with the same timestamp, as a negative number, zero or a positive one.
    """

    pattern: Any  # penstock.cep.engine.PatternPlan
    function: Any
    event_time: bool = True
    comparator: Any = None
    late_tag: str | None = None
    keyed: bool = True


@dataclass(frozen=True, slots=True)
class DynamicCepSpec(OperatorSpec):
    """Finds patterns that come from a stream: input 0 is keyed, input 1 is broadcast.

    `pattern_of(record)` returns the id of a pattern and its plan, or None in place of the plan to end it. `state` is the
    descriptor of the broadcast state that holds the records.
    """

    pattern_of: Any
    function: Any
    state: Any
    event_time: bool = True
    comparator: Any = None
    late_tag: str | None = None
    keyed: bool = True

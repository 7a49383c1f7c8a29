"""What an operator of a plan is: frozen descriptions, without behaviour.

The API writes them, the graph carries them, `penstock.runtime.operators` turns each into the operator that
runs inside a Spark task. User functions appear as they were given: a plain callable, or an object with
PyFlink's method for its kind (`map`, `flat_map`, ...), optionally with `open` and `close`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """Base of all operator descriptions."""


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    """Reads splits; assigns timestamps and watermarks per split."""

    source: Any  # penstock.common.connector.Source
    watermark_strategy: Any  # penstock.common.watermark_strategy.WatermarkStrategy


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    """Writes records; pre-commits at the barrier."""

    sink: Any  # penstock.common.connector.Sink


@dataclass(frozen=True, slots=True)
class MapSpec(OperatorSpec):
    """One result per record."""

    function: Any


@dataclass(frozen=True, slots=True)
class FlatMapSpec(OperatorSpec):
    """Any number of results per record."""

    function: Any


@dataclass(frozen=True, slots=True)
class FilterSpec(OperatorSpec):
    """Keeps the records that the function says True to."""

    function: Any


@dataclass(frozen=True, slots=True)
class TimestampsAndWatermarksSpec(OperatorSpec):
    """Assigns timestamps and emits watermarks, one generator per subtask."""

    watermark_strategy: Any


@dataclass(frozen=True, slots=True)
class ProcessSpec(OperatorSpec):
    """A ProcessFunction on a stream without keys."""

    function: Any


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(OperatorSpec):
    """A KeyedProcessFunction: keyed state and timers."""

    function: Any


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
    without it the reduced or aggregated value itself is emitted.
    """

    assigner: Any
    trigger: Any
    window_function: Any = None
    reduce_function: Any = None
    aggregate_function: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    keyed: bool = True

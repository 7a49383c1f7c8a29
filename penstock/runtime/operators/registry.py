"""Which operator runs which description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common import operator_specs as specs
from penstock.errors import UnsupportedOperationError
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.runtime.operators.reduce import KeyedReduceOperator
from penstock.runtime.operators.sink import SinkOperator
from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from penstock.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from penstock.runtime.operators.window import create_window_operator

_OPERATORS: dict[type[specs.OperatorSpec], Callable[[Any], StreamOperator]] = {
    specs.SourceSpec: SourceOperator,
    specs.SinkSpec: SinkOperator,
    specs.MapSpec: MapOperator,
    specs.FlatMapSpec: FlatMapOperator,
    specs.FilterSpec: FilterOperator,
    specs.TimestampsAndWatermarksSpec: TimestampsAndWatermarksOperator,
    specs.ProcessSpec: ProcessOperator,
    specs.KeyedProcessSpec: KeyedProcessOperator,
    specs.KeyedReduceSpec: KeyedReduceOperator,
    specs.WindowSpec: create_window_operator,
}


def create(spec: specs.OperatorSpec) -> StreamOperator:
    """Create the operator that a description stands for."""
    factory = _OPERATORS.get(type(spec))
    if factory is None:
        raise UnsupportedOperationError(f"there is no operator for {type(spec).__name__}")
    return factory(spec)

"""Which operator runs which description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import UnsupportedOperationError
from penstock.graph import operator_specs as specs
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.operators.broadcast import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from penstock.runtime.operators.cep import CepOperator, DynamicCepOperator
from penstock.runtime.operators.co_group_window import CoGroupWindowOperator
from penstock.runtime.operators.co_map import CoFlatMapOperator, CoMapOperator
from penstock.runtime.operators.co_process import CoProcessOperator, KeyedCoProcessOperator
from penstock.runtime.operators.dead_letters import create_function_operator
from penstock.runtime.operators.full_window_partition import FullWindowPartitionOperator
from penstock.runtime.operators.interval_join import IntervalJoinOperator
from penstock.runtime.operators.local_aggregate import (
    GlobalAggregateOperator,
    LocalAggregateOperator,
)
from penstock.runtime.operators.reduce import KeyedReduceOperator
from penstock.runtime.operators.sink import SinkOperator
from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from penstock.runtime.operators.window import create_window_operator


def _create_async_wait(spec: specs.AsyncWaitSpec) -> StreamOperator:
    """Import asyncio, which takes 30 ms, only where it is needed."""
    from penstock.runtime.operators.async_io import AsyncWaitOperator

    return AsyncWaitOperator(spec)


_OPERATORS: dict[type[specs.OperatorSpec], Callable[[Any], StreamOperator]] = {
    specs.SourceSpec: SourceOperator,
    specs.SinkSpec: SinkOperator,
    specs.MapSpec: create_function_operator,
    specs.FlatMapSpec: create_function_operator,
    specs.FilterSpec: create_function_operator,
    specs.TimestampsAndWatermarksSpec: TimestampsAndWatermarksOperator,
    specs.ProcessSpec: create_function_operator,
    specs.KeyedProcessSpec: create_function_operator,
    specs.KeyedReduceSpec: KeyedReduceOperator,
    specs.WindowSpec: create_window_operator,
    specs.CepSpec: CepOperator,
    specs.DynamicCepSpec: DynamicCepOperator,
    specs.CoMapSpec: CoMapOperator,
    specs.CoFlatMapSpec: CoFlatMapOperator,
    specs.CoProcessSpec: CoProcessOperator,
    specs.KeyedCoProcessSpec: KeyedCoProcessOperator,
    specs.BroadcastProcessSpec: BroadcastProcessOperator,
    specs.KeyedBroadcastProcessSpec: KeyedBroadcastProcessOperator,
    specs.CoGroupWindowSpec: CoGroupWindowOperator,
    specs.IntervalJoinSpec: IntervalJoinOperator,
    specs.LocalAggregateSpec: LocalAggregateOperator,
    specs.GlobalAggregateSpec: GlobalAggregateOperator,
    specs.FullWindowPartitionSpec: FullWindowPartitionOperator,
    specs.AsyncWaitSpec: _create_async_wait,
}


def create(spec: specs.OperatorSpec) -> StreamOperator:
    """Create the operator that a description stands for."""
    factory = _OPERATORS.get(type(spec))
    if factory is None:
        raise UnsupportedOperationError(f"there is no operator for {type(spec).__name__}")
    return factory(spec)

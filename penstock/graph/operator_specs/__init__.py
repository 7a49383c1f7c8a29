"""Operator specs: frozen descriptions of operators, without behaviour.

The API creates them, the graph carries them, and `penstock.runtime.operators` turns each into the operator that runs
inside a Spark
task. User functions are kept as given: a plain callable, or an object with PyFlink's method for its kind (`map`,
`flat_map`, ...),
optionally with `open` and `close`. If a spec has an `error_tag`, a record on which its function raises goes to that side
output
as a DeadLetter.

See `OperatorSpec` for what a spec declares about its operator.
"""

from __future__ import annotations

from penstock.graph.operator_specs.base import (
    Implementation,
    OperatorSpec,
    OutputTimestamps,
    StateTableDescription,
    TolerantSpec,
    spec_kinds,
)
from penstock.graph.operator_specs.connectors import (
    SinkSpec,
    SourceSpec,
    TimestampsAndWatermarksSpec,
)
from penstock.graph.operator_specs.functions import (
    AsyncWaitSpec,
    FilterSpec,
    FlatMapSpec,
    KeyedProcessSpec,
    KeyedReduceSpec,
    MapSpec,
    ProcessSpec,
)
from penstock.graph.operator_specs.patterns import CepSpec, DynamicCepSpec
from penstock.graph.operator_specs.two_inputs import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    IntervalJoinSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
)
from penstock.graph.operator_specs.windows import (
    CoGroupWindowSpec,
    FullWindowPartitionSpec,
    GlobalAggregateSpec,
    LocalAggregateSpec,
    WindowSpec,
)

__all__ = [
    "AsyncWaitSpec",
    "BroadcastProcessSpec",
    "CepSpec",
    "CoFlatMapSpec",
    "CoGroupWindowSpec",
    "CoMapSpec",
    "CoProcessSpec",
    "DynamicCepSpec",
    "FilterSpec",
    "FlatMapSpec",
    "FullWindowPartitionSpec",
    "GlobalAggregateSpec",
    "Implementation",
    "IntervalJoinSpec",
    "KeyedBroadcastProcessSpec",
    "KeyedCoProcessSpec",
    "KeyedProcessSpec",
    "KeyedReduceSpec",
    "LocalAggregateSpec",
    "MapSpec",
    "OperatorSpec",
    "OutputTimestamps",
    "ProcessSpec",
    "SinkSpec",
    "SourceSpec",
    "StateTableDescription",
    "TimestampsAndWatermarksSpec",
    "TolerantSpec",
    "WindowSpec",
    "spec_kinds",
]

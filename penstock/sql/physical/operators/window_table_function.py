"""Window table functions: TUMBLE, HOP, CUMULATE and SESSION as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.operator_specs.columnar.sessions import SessionTableFunctionSpec
from penstock.graph.operator_specs.columnar.stateless import WindowTableFunctionSpec
from penstock.graph.state_description import Text, text_of
from penstock.sql.logical.nodes import LogicalTableFunctionScan
from penstock.sql.logical.texts import show_window
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.keys import smallest
from penstock.sql.physical.lineage import Lineage, text_of_window
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator, WindowAttributes
from penstock.sql.physical.operators.exchange import exchange

_WINDOW_COLUMNS: Final = ("window_start", "window_end", "window_time")


@dataclass(slots=True)
class WindowInput:
    """Rows as they are before they get windows. `places`: where columns are that the rows with windows have; `window.time` is a column of these rows."""

    node: PhysicalNode
    window: WindowDefinition
    places: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalWindowTableFunction(PhysicalOperator):
    """Appends its windows to each row. Only SESSION has state."""

    spec: WindowTableFunctionSpec | SessionTableFunctionSpec

    def describe(self) -> list[str]:
        """Return the window."""
        return [f"window=[{show_window(self.spec.window, self.input_names)}]"]

    def before_windows(self, zone: str) -> WindowInput:
        """Return the rows of the input."""
        below = self.inputs[0].before_exchange  # sessions are kept by key
        places = {at: at for at in range(len(below.schema))}
        return WindowInput(below, self.spec.window, places)

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return the columns of the input, and those of the window."""
        below = lineage.columns(self.inputs[0])
        window = text_of_window(self.spec.window, below)
        return [*below, *(text_of(f"{name} of ", window) for name in _WINDOW_COLUMNS)]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return the window and the rows that wait for the end of their session."""
        below = self.inputs[0]
        return {
            "window": text_of_window(self.spec.window, lineage.columns(below)),
            "rows": lineage.rows(below),
        }


@implements(LogicalTableFunctionScan)
def implement_window_table(
    node: LogicalTableFunctionScan, context: PhysicalPlanContext
) -> PhysicalNode:
    """Give rows their windows. Sessions are kept per partition."""
    below = context.implement(node.input)
    window = node.window
    session = window.kind == "SESSION"
    if session:
        below = exchange(below, window.partition)
    width = len(below.schema)
    apart = session and bool(window.partition)
    columns = WindowAttributes(
        width,
        width + 1,
        window.zone,
        rowtime=not node.proctime,
        starts_differ=window.kind != "CUMULATE" and not apart,
        ends_differ=not apart,
    )
    schema = (*below.schema, *node.schema[width:])
    # A row is repeated per window, so its upsert keys need the window, too.
    keys = smallest(each for key in below.traits.keys for each in columns.keys(key))
    traits = replace(below.traits, keys=keys, window=columns)
    spec = (SessionTableFunctionSpec if session else WindowTableFunctionSpec)(below.types, window)
    alone = session and not window.partition
    return PhysicalWindowTableFunction.of(spec, (below,), schema, traits, single=alone)

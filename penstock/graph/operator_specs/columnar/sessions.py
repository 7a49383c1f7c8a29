"""SESSION windows as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.graph.operator_specs import OperatorSpec, StateTableDescription
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.graph.operator_specs.columnar.stateless import Types


@dataclass(frozen=True, slots=True)
class SessionTableFunctionSpec(OperatorSpec):
    """Appends window_start, window_end and window_time to each row, when its session has ended: its length is unknown before.

    Sessions are kept per `window.partition`, by which the input is partitioned. Rows whose session has ended already are late: they are dropped, and counted.
    """

    operator = "penstock.runtime.columnar.operators.session_table:SessionTableFunctionOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("rows", internal=True),
    )

    input_types: Types
    window: WindowDefinition

"""The operators that run inside a subtask, one family per module."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.graph.operator_specs import OperatorSpec
    from penstock.runtime.operators.base import StreamOperator


def create_operator(spec: OperatorSpec) -> StreamOperator:
    """Create the operator that a description stands for."""
    # The registry imports every operator, and operators import state and timers, which use this package's base module.
    from penstock.runtime.operators.registry import create

    return create(spec)

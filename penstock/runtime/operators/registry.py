"""Creates operators from their specs, without a list of operators.

A spec names its operator (`OperatorSpec.operator`), so operators of other packages are found like those of this one, and a
process loads only the operators that it runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from penstock.errors import InvalidProgramError, UnsupportedOperationError
from penstock.graph.operator_specs import Implementation, OperatorSpec, spec_kinds
from penstock.runtime.operators.base import StreamOperator

Factory = Callable[[Any], StreamOperator]


def create_operator(spec: OperatorSpec) -> StreamOperator:
    """Create the operator of a spec."""
    return _factory(spec.implementation, type(spec))(spec)


def preload() -> None:
    """Load the operators that most jobs use, in a process that tasks are forked from."""
    for kind in spec_kinds():
        if kind.preloaded:
            _factory(kind.operator, kind)


def _factory(implementation: Implementation, kind: type[OperatorSpec]) -> Factory:
    if isinstance(implementation, str):
        return _load(implementation, kind)
    return implementation


def _load(address: str, kind: type[OperatorSpec]) -> Factory:
    if not address:
        raise UnsupportedOperationError(
            f"no operator for {kind.__name__}",
            hint=f'set its address: `operator = "package.module:name"` in {kind.__name__}',
        )
    module, _, name = address.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidProgramError(
            f"could not load the operator of {kind.__name__}",
            detail=f"'{address}': {error}",
            hint="the address must be `package.module:name`, of a module that can be imported where tasks run",
        ) from error
    if not callable(found):
        raise InvalidProgramError(
            f"the operator of {kind.__name__} is neither a class nor a function",
            detail=f"'{address}'",
        )
    factory: Factory = found
    return factory

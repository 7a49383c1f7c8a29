"""Complex event processing: finds patterns of events in a stream, with Flink's semantics.

`pattern` and `pattern_stream` are the user API, `engine` finds matches in the events of one key, `operator` runs it in a
task. Names
are imported on first use: a task that runs a pattern does not need the DataStream API.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.cep.conditions import IterativeCondition, SimpleCondition
    from penstock.cep.functions import (
        PatternFlatSelectFunction,
        PatternFlatTimeoutFunction,
        PatternProcessFunction,
        PatternSelectFunction,
        PatternTimeoutFunction,
        TimedOutPartialMatchHandler,
    )
    from penstock.cep.pattern import Pattern, WithinType
    from penstock.cep.pattern_stream import CEP, DynamicPatternStream, PatternStream
    from penstock.cep.refusals import MalformedPatternError
    from penstock.runtime.cep.engine.skip import AfterMatchSkipStrategy

_HOMES: Final = {
    "CEP": "penstock.cep.pattern_stream",
    "AfterMatchSkipStrategy": "penstock.runtime.cep.engine.skip",
    "DynamicPatternStream": "penstock.cep.pattern_stream",
    "IterativeCondition": "penstock.cep.conditions",
    "MalformedPatternError": "penstock.cep.refusals",
    "Pattern": "penstock.cep.pattern",
    "PatternFlatSelectFunction": "penstock.cep.functions",
    "PatternFlatTimeoutFunction": "penstock.cep.functions",
    "PatternProcessFunction": "penstock.cep.functions",
    "PatternSelectFunction": "penstock.cep.functions",
    "PatternStream": "penstock.cep.pattern_stream",
    "PatternTimeoutFunction": "penstock.cep.functions",
    "SimpleCondition": "penstock.cep.conditions",
    "TimedOutPartialMatchHandler": "penstock.cep.functions",
    "WithinType": "penstock.cep.pattern",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "DynamicPatternStream",
    "IterativeCondition",
    "MalformedPatternError",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]

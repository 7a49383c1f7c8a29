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
    "CEP": "pattern_stream",
    "AfterMatchSkipStrategy": "engine.skip",
    "DynamicPatternStream": "pattern_stream",
    "IterativeCondition": "conditions",
    "MalformedPatternError": "refusals",
    "Pattern": "pattern",
    "PatternFlatSelectFunction": "functions",
    "PatternFlatTimeoutFunction": "functions",
    "PatternProcessFunction": "functions",
    "PatternSelectFunction": "functions",
    "PatternStream": "pattern_stream",
    "PatternTimeoutFunction": "functions",
    "SimpleCondition": "conditions",
    "TimedOutPartialMatchHandler": "functions",
    "WithinType": "pattern",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
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

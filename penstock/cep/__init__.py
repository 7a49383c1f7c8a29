"""Complex event processing: patterns of events in a stream, with Flink's semantics."""

from __future__ import annotations

from penstock.cep.conditions import IterativeCondition, SimpleCondition
from penstock.cep.engine.skip import AfterMatchSkipStrategy
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

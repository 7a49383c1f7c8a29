"""The CEP engine: patterns as data, the automaton, its state per key.

`plan` describes a pattern, `automaton` compiles it once, `nfa` runs it over events, `runs` is the state per key. Nothing
here depends
on streams, Spark or clocks.
"""

from __future__ import annotations

from penstock.runtime.cep.engine.automaton import Automaton, Edge, compile_pattern
from penstock.runtime.cep.engine.conditions import (
    AllOf,
    AnyOf,
    Condition,
    IsInstance,
    UserCondition,
)
from penstock.runtime.cep.engine.nfa import Match, Nfa, StepResult
from penstock.runtime.cep.engine.plan import Contiguity, PatternNode, PatternPlan
from penstock.runtime.cep.engine.runs import KeyRuns
from penstock.runtime.cep.engine.skip import AfterMatchSkipStrategy, SkipError

__all__ = [
    "AfterMatchSkipStrategy",
    "AllOf",
    "AnyOf",
    "Automaton",
    "Condition",
    "Contiguity",
    "Edge",
    "IsInstance",
    "KeyRuns",
    "Match",
    "Nfa",
    "PatternNode",
    "PatternPlan",
    "SkipError",
    "StepResult",
    "UserCondition",
    "compile_pattern",
]

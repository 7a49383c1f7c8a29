"""Complex event processing without an engine: patterns as data, the automaton, its state per key.

`plan` says what a pattern is, `automaton` compiles it once, `nfa` runs it over events, `runs` is what is kept per key.
Nothing here knows streams, Spark or clocks.
"""

from __future__ import annotations

from penstock.common.cep.automaton import Automaton, Edge, compile_pattern
from penstock.common.cep.conditions import AllOf, AnyOf, Condition, IsInstance, Test
from penstock.common.cep.nfa import Match, Nfa, StepResult
from penstock.common.cep.plan import Contiguity, PatternNode, PatternPlan
from penstock.common.cep.runs import KeyRuns
from penstock.common.cep.skip import AfterMatchSkipStrategy, SkipError

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
    "Test",
    "compile_pattern",
]

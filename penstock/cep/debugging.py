"""Traces what a pattern does with each event."""

from __future__ import annotations

from typing import Any

from penstock.cep.pattern import show
from penstock.errors import ArgumentError
from penstock.runtime.cep.engine import (
    KeyRuns,
    Nfa,
    PatternPlan,
    compile_pattern,
)
from penstock.runtime.cep.engine.runs import PartialMatch


def trace(plan: PatternPlan, events: list[Any], timestamps: list[int] | None = None) -> str:
    """Run a pattern over the events of one key and return a trace as text."""
    if timestamps is None:
        timestamps = list(range(len(events)))
    if len(timestamps) != len(events):
        raise ArgumentError(
            f"got {len(events)} events but {len(timestamps)} timestamps",
            hint="pass one timestamp per event",
        )
    nfa = Nfa(compile_pattern(plan))
    state = KeyRuns()
    lines = [f"pattern {show(plan.nodes)}"]

    def note(what: str, run: PartialMatch) -> None:
        lines.append(f"  {what:<9}{_text(nfa.match_of(run))}")

    nfa.trace = note
    for timestamp, event in sorted(zip(timestamps, events, strict=True), key=lambda pair: pair[0]):
        lines.append(f"{event!r} @{timestamp}")
        before = len(lines)
        result = nfa.step(state, event, timestamp)
        if len(lines) == before:
            lines.append("  -")
        lines += [f"  => match {_text(match)}" for match, _ in result.completed]
        lines += [f"  => match {_text(match)}" for match in result.matches]
    left = [f"  {_text(nfa.match_of(run))}" for run in state.runs]
    held = [f"  {_text(nfa.match_of(run))} (complete, held back)" for run in state.completed]
    lines.append("left at the end" if left or held else "nothing left at the end")
    return "\n".join(lines + left + held)


def _text(match: dict[str, list[Any]]) -> str:
    return " ".join(f"{name}=[{', '.join(map(repr, events))}]" for name, events in match.items())

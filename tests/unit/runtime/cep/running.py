"""Runs the automaton over a list of events."""

from __future__ import annotations

from penstock.runtime.cep.engine import KeyRuns, Nfa, compile_pattern


def run(pattern, events, end=10_000):
    """Return the matches as ((name, event number), ...), in the order they were found, and the timed-out ones."""
    numbered = [(index, event, time) for index, (event, time) in enumerate(events)]
    nfa = Nfa(compile_pattern(pattern.build()))
    number_of = {id(item): item[0] for item in numbered}
    # the automaton sees (number, event) pairs, conditions see the event
    automaton = nfa.automaton
    for place, call in enumerate(automaton.calls):
        if automaton.iterative[place]:
            continue
        automaton.calls[place] = _on_event(call)
    state = KeyRuns()
    matches, timed_out = [], []

    def keep(result):
        matches.extend(flat(each) for each in result.matches)
        matches.extend(flat(each) for each, _ in result.completed)
        timed_out.extend(flat(each) for each, _ in result.timed_out)

    def flat(match):
        pairs = [(name, number_of[id(item)]) for name, items in match.items() for item in items]
        return tuple(sorted(pairs, key=lambda pair: pair[1]))

    for item in numbered:
        keep(nfa.step(state, item, item[2]))
    keep(nfa.expire(state, end))
    return matches, timed_out, state


def _on_event(call):
    return lambda item: call(item[1])

"""Runs an automaton over the events of one key: a pure function of the key's state and the next event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.runtime.cep.engine.automaton import (
    ALWAYS,
    ANY,
    END,
    PENDING,
    RELAXED,
    Automaton,
)
from penstock.runtime.cep.engine.runs import (
    KeyRuns,
    Link,
    PartialMatch,
    chain,
)

Match = dict[str, list[Any]]  # pattern name -> its events, in order
Trace = Callable[[str, "PartialMatch"], None]  # what happened, to which partial match


@dataclass(slots=True)
class StepResult:
    """The result of one step."""

    matches: list[Match] = field(default_factory=list)
    timed_out: list[tuple[Match, int]] = field(default_factory=list)  # with the time of the timeout
    completed: list[tuple[Match, int]] = field(
        default_factory=list
    )  # by a time limit, with that time
    changed: bool = False  # whether the key's state has changed


NOTHING = StepResult()  # of an event that changed nothing; read-only


Take = tuple[int, bool, bool]  # position, whether the match may continue, whether it is complete


class Decision(NamedTuple):
    """The effect of an event on partial matches with certain open edges."""

    still: tuple[int, ...]  # the edges that stay open
    takes: tuple[Take, ...] = ()
    ends: bool = False  # the match is complete without this event
    idle: bool = False  # nothing happens


class ConditionContext:
    """The context of an iterative condition."""

    __slots__ = ("_clock", "_link", "_names", "_timestamp")

    def __init__(
        self, names: list[str], link: Link | None, timestamp: int, clock: Callable[[], int]
    ) -> None:
        self._names = names
        self._link = link
        self._timestamp = timestamp
        self._clock = clock

    def get_events_for_pattern(self, name: str) -> list[Any]:
        """Return the events of the match for a pattern so far, in order."""
        names = self._names
        return [link[2] for link in chain(self._link) if names[link[1]] == name]

    def timestamp(self) -> int:
        """Return the timestamp of the event."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._clock()


class Nfa:
    """A compiled pattern with its clock. One object is used for all keys; the state is passed in."""

    def __init__(self, automaton: Automaton, clock: Callable[[], int] = lambda: 0) -> None:
        self.automaton = automaton
        self.clock = clock
        self.within = automaton.within
        self._has_limits = automaton.has_limits
        self._skip = automaton.plan.skip
        self._per_run = any(automaton.iterative)
        self._table: dict[tuple[int, ...], tuple[int | None, tuple[Decision, ...]]] = {}
        self.trace: Trace | None = None

    # -- one event

    def step(
        self, state: KeyRuns, event: object, timestamp: int, known: dict[Any, Any] | None = None
    ) -> StepResult:
        """Process one event. `known` are results of conditions for this event, by number."""
        runs = state.runs
        result = None
        if runs and (
            self._has_limits
            or (self.within is not None and timestamp - runs[0].start_time >= self.within)
        ):
            result = self.expire(state, timestamp)
            runs = state.runs
        known = {} if known is None else known
        begins = self._decide_shared(self.automaton.start, event, timestamp, known).takes
        decisions: list[Decision] = []
        idle = True
        if self._per_run:
            decide = self._decide
            decisions = [decide(run.edges, event, timestamp, run.link, known) for run in runs]
            idle = all(each.idle for each in decisions)
        elif runs:
            # No condition depends on the partial match: those with the same open edges share a decision.
            shared: dict[tuple[int, ...], Decision] = {}
            last = None
            for run in runs:
                edges = run.edges
                if edges is last or edges in shared:
                    continue
                last = edges
                decision = shared[edges] = self._decide_shared(edges, event, timestamp, known)
                if not decision.idle:
                    idle = False
            if not idle:
                decisions = [shared[run.edges] for run in runs]
        if idle and not begins:
            if self.trace is not None:
                self._trace_skips(runs)
            return NOTHING if result is None else result
        result = StepResult() if result is None else result
        result.changed = True
        self._apply(state, decisions, begins, event, timestamp, result)
        return result

    def _decide_shared(
        self, open_: tuple[int, ...], event: object, timestamp: int, known: dict[Any, Any]
    ) -> Decision:
        """Decide for all partial matches with these open edges. If one condition decides, both outcomes are cached."""
        entry = self._table.get(open_)
        if entry is None:
            entry = self._table[open_] = self._tabulate(open_)
        condition, answers = entry
        if condition is None:
            return self._decide(open_, event, timestamp, None, known)
        if condition == ALWAYS:
            return answers[1]
        truth = known.get(condition)
        if truth is None:
            truth = known[condition] = bool(self.automaton.calls[condition](event))
        return answers[truth]

    def _tabulate(self, open_: tuple[int, ...]) -> tuple[int | None, tuple[Decision, ...]]:
        automaton = self.automaton
        conditions = {
            each
            for number in open_
            for edge in (automaton.edges[number],)
            for each in (
                *edge.take_unless,
                *edge.skip_unless,
                *edge.first_unless,
                *edge.first_skip_unless,
                *edge.stopped_by,
                *edge.closed_by,
                *edge.closed_first,
                *edge.freed_by,
                *(() if edge.condition is None else (edge.condition,)),
            )
            if each != ALWAYS
        }
        if not conditions:
            only = self._decide(open_, None, 0, None, {})
            return ALWAYS, (only, only)
        if len(conditions) > 1 or any(automaton.iterative[each] for each in conditions):
            return None, ()
        condition = conditions.pop()
        return condition, tuple(
            self._decide(open_, None, 0, None, {condition: truth}) for truth in (False, True)
        )

    def _apply(
        self,
        state: KeyRuns,
        decisions: list[Decision],
        begins: tuple[Take, ...],
        event: object,
        timestamp: int,
        result: StepResult,
    ) -> None:
        follow, trace = self.automaton.follow, self.trace
        number = state.number
        found: list[PartialMatch] = []
        runs: list[PartialMatch] = [] if decisions else list(state.runs)  # no decisions: all stay
        for run, decision in zip(state.runs, decisions, strict=False):
            for target, goes_on, accepts in decision.takes:
                taken = (run.link, target, event, timestamp, number)
                longer = PartialMatch(taken, follow[target], run.start_time, run.start_number)
                if goes_on:
                    runs.append(longer)
                if accepts:
                    found.append(longer)
                if trace is not None:
                    trace("take", longer)
            if decision.ends:
                found.append(run)
            if decision.still is run.edges:
                runs.append(run)
            elif decision.still:
                runs.append(run._replace(edges=decision.still))
            if trace is not None:
                _trace_decision(trace, run, decision)
        for target, goes_on, accepts in begins:
            longer = PartialMatch(
                (None, target, event, timestamp, number), follow[target], timestamp, number
            )
            if goes_on:
                runs.append(longer)
            if accepts:
                found.append(longer)
            if trace is not None:
                trace("begin", longer)
        state.runs = runs
        state.number = number + 1
        if found or state.completed:
            self._complete(state, found, result)

    def _trace_skips(self, runs: list[PartialMatch]) -> None:
        assert self.trace is not None
        for run in runs:
            self.trace("skip", run)

    def _decide(
        self,
        open_: tuple[int, ...],
        event: object,
        timestamp: int,
        link: Link | None,
        known: dict[Any, Any],
    ) -> Decision:
        """Offer an event to open edges: return what is taken, and which edges stay open (the same tuple if all do)."""
        automaton, holds = self.automaton, self._holds
        edges = automaton.edges
        still: list[int] = []
        takes: list[Take] = []
        ends = False
        for each in open_:
            edge = edges[each]
            if edge.freed_by and _any(holds, edge.freed_by, event, timestamp, link, known):
                edge = edges[edge.freed]
            if edge.first_unless and _any(holds, edge.first_unless, event, timestamp, link, known):
                continue
            if edge.closed_by and _any(holds, edge.closed_by, event, timestamp, link, known):
                continue
            if edge.closed_first and _any(holds, edge.closed_first, event, timestamp, link, known):
                continue
            stopped = edge.stopped_by and _any(
                holds, edge.stopped_by, event, timestamp, link, known
            )
            target = edge.target
            if target < 0:
                if stopped:
                    continue
                if target == END:
                    ends = True
                else:
                    still.append(edge.later)
                continue
            condition = edge.condition
            fits = condition is None or holds(condition, event, timestamp, link, known)
            if fits and not (
                edge.take_unless and _any(holds, edge.take_unless, event, timestamp, link, known)
            ):
                goes_on = bool(automaton.follow[target]) and not stopped
                takes.append((target, goes_on, automaton.accepts[target]))
            if (
                not stopped
                and (edge.gap == ANY or (edge.gap == RELAXED and not fits))
                and not (
                    edge.skip_unless
                    and _any(holds, edge.skip_unless, event, timestamp, link, known)
                )
                and not (
                    edge.first_skip_unless
                    and _any(holds, edge.first_skip_unless, event, timestamp, link, known)
                )
            ):
                still.append(edge.later)
        kept = tuple(still)
        if kept == open_:
            return Decision(open_, tuple(takes), ends, idle=not takes and not ends)
        return Decision(kept, tuple(takes), ends)

    def _holds(
        self,
        condition: int,
        event: object,
        timestamp: int,
        link: Link | None,
        known: dict[Any, Any],
    ) -> object:
        """Evaluate a condition, at most once per event (and, if it is iterative, per partial match)."""
        if condition == ALWAYS:
            return True
        automaton = self.automaton
        iterative = automaton.iterative[condition]
        slot: Any = (condition, id(link)) if iterative else condition
        result = known.get(slot)
        if result is None:
            call = automaton.calls[condition]
            if iterative:
                context = ConditionContext(automaton.names, link, timestamp, self.clock)
                result = bool(call(event, context))
            else:
                result = bool(call(event))
            known[slot] = result
        return result

    # -- time

    def expire(self, state: KeyRuns, now: int, result: StepResult | None = None) -> StepResult:
        """Drop the partial matches that have timed out at `now`."""
        result = StepResult() if result is None else result
        runs, within = state.runs, self.within
        if self._has_limits:
            self._expire_edges(state, now, result)
        elif within is not None and runs and now - runs[0].start_time >= within:
            count = 0
            for count, run in enumerate(runs):  # noqa: B007 - used after the loop
                if now - run.start_time < within:
                    break
            else:
                count += 1
            state.runs = runs[count:]
            gone = [(run, run.start_time + within) for run in runs[:count]]
            self._report(state, gone, result)
        return result

    def _expire_edges(self, state: KeyRuns, now: int, result: StepResult) -> None:
        gone: list[tuple[PartialMatch, int]] = []
        kept: list[PartialMatch] = []
        for run in state.runs:
            open_ = tuple(each for each in run.edges if self._edge_deadline(run, each) > now)
            if open_ == run.edges:
                kept.append(run)
                continue
            result.changed = True
            closed = [each for each in run.edges if each not in open_]
            pending = [each for each in closed if self.automaton.edges[each].target == PENDING]
            if open_:
                kept.append(run._replace(edges=open_))
            if pending:
                gone.append(
                    (run._replace(edges=tuple(pending)), self._edge_deadline(run, pending[0]))
                )
            elif not open_:
                gone.append((run, max(self._edge_deadline(run, each) for each in closed)))
        state.runs = kept
        if gone:
            self._report(state, gone, result)

    def _edge_deadline(self, run: PartialMatch, edge: int) -> int:
        limit = self.automaton.edges[edge].limit
        times = [FOREVER]
        if self.within is not None:
            times.append(run.start_time + self.within)
        if limit is not None:
            times.append(run.link[3] + limit)
        return min(times)

    def deadline(self, state: KeyRuns) -> int | None:
        """Return when the first partial match times out, if no event arrives; None: never."""
        if not state.runs:
            return None
        if self._has_limits:
            first = min(self._edge_deadline(run, each) for run in state.runs for each in run.edges)
            return None if first == FOREVER else first
        return None if self.within is None else state.runs[0].start_time + self.within

    def _report(
        self, state: KeyRuns, gone: list[tuple[PartialMatch, int]], result: StepResult
    ) -> None:
        result.changed = True
        edges, trace = self.automaton.edges, self.trace
        completed: list[PartialMatch] = []
        times: list[int] = []
        seen: set[Any] = set()

        def is_pending(run: PartialMatch) -> bool:
            return any(edges[each].target == PENDING for each in run.edges)

        # Of several ways to take the same events, a complete one takes precedence over those that wait for more.
        for run, when in sorted(gone, key=lambda each: not is_pending(each[0])):
            if self.automaton.ambiguous and not self._is_new(run, seen):
                continue
            if is_pending(run):
                completed.append(run)
                times.append(when)
            else:
                result.timed_out.append((self.match_of(run), when))
            if trace is not None:
                trace("time out", run)
        if completed or state.completed:
            matches = len(result.matches)
            self._complete(state, completed, result)
            last = max((when for _, when in gone))
            fresh = result.matches[matches:]
            del result.matches[matches:]
            by_time = times if not self._skip.skips else [last] * len(fresh)
            result.completed += list(zip(fresh, by_time, strict=True))

    # -- matches

    def _complete(self, state: KeyRuns, found: list[PartialMatch], result: StepResult) -> None:
        if self.automaton.ambiguous:
            seen: set[Any] = set()
            found = [run for run in found if self._is_new(run, seen)]
        if not self._skip.skips:
            result.matches += [self.match_of(run) for run in found]
            return
        waiting = state.completed + [run._replace(edges=()) for run in found]
        waiting.sort(key=_start_number)
        while waiting and (not state.runs or waiting[0].start_number <= state.runs[0].start_number):
            run = waiting.pop(0)
            result.matches.append(self.match_of(run))
            result.changed = True
            names = self.automaton.names
            first = self._skip.survives_from(
                [(names[link[1]], link[4]) for link in chain(run.link)]
            )
            if first is not None:
                state.runs = [each for each in state.runs if each.start_number >= first]
                waiting = [each for each in waiting if each.start_number >= first]
        if waiting != state.completed:
            result.changed = True
        state.completed = waiting

    def _is_new(self, run: PartialMatch, seen: set[Any]) -> bool:
        names = self.automaton.names
        events = tuple((names[link[1]], link[4]) for link in chain(run.link))
        if events in seen:
            return False
        seen.add(events)
        return True

    def match_of(self, run: PartialMatch) -> Match:
        """Return the events of a (partial) match by pattern name."""
        names = self.automaton.names
        match: Match = {}
        for link in chain(run.link):
            match.setdefault(names[link[1]], []).append(link[2])
        return match


FOREVER = 2**63  # later than any time, including the last watermark


def _trace_decision(trace: Trace, run: PartialMatch, decision: Decision) -> None:
    if decision.ends:
        trace("complete", run)
    if decision.still:
        trace("skip", run)
    elif not decision.takes and not decision.ends:
        trace("drop", run)


def _start_number(run: PartialMatch) -> int:
    return run.start_number


def _any(
    holds: Callable[..., Any],
    conditions: tuple[int, ...],
    event: object,
    timestamp: int,
    link: Link | None,
    known: dict[Any, Any],
) -> bool:
    return any(holds(each, event, timestamp, link, known) for each in conditions)

"""Pattern: describes the events to find in a stream."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from penstock.cep.conditions import to_condition
from penstock.cep.refusals import refuse
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.runtime.cep.engine import (
    AllOf,
    AnyOf,
    Contiguity,
    IsInstance,
    PatternNode,
    PatternPlan,
)
from penstock.runtime.cep.engine.plan import walk
from penstock.runtime.cep.engine.skip import AfterMatchSkipStrategy
from penstock.time.durations import to_millis

_GROUP = "group"


class WithinType(enum.Enum):
    """The events between which the time of `within` is measured."""

    FIRST_AND_LAST = "first and last"
    PREVIOUS_AND_CURRENT = "previous and current"


class Pattern:
    """A sequence of patterns. Patterns are immutable: each method returns a new Pattern.

    >>> from penstock.common import Duration
    >>> ring = (
    ...     Pattern.begin("large").where(lambda payment: payment["amount"] > 5000)
    ...     .followed_by("foreign").where(lambda payment: payment["abroad"])
    ...     .within(Duration.of_minutes(10))
    ... )
    >>> ring
    Pattern(large followed by foreign within 600000 ms)
    """

    __slots__ = ("_nodes", "_skip")

    def __init__(self, nodes: tuple[PatternNode, ...], skip: AfterMatchSkipStrategy) -> None:
        self._nodes = nodes
        self._skip = skip

    # Sequences.

    @staticmethod
    def begin(
        name: str | Pattern, after_match_skip_strategy: AfterMatchSkipStrategy | None = None
    ) -> Pattern:
        """Start with a pattern, or with a group of patterns."""
        skip = after_match_skip_strategy
        if skip is None:
            skip = AfterMatchSkipStrategy.no_skip()
        elif not isinstance(skip, AfterMatchSkipStrategy):
            raise ArgumentTypeError(
                f"a skip strategy is required, got {type(skip).__name__}",
                hint="for example AfterMatchSkipStrategy.skip_past_last_event()",
            )
        return Pattern((), skip).next(name)

    def next(self, name: str | Pattern) -> Pattern:
        """Append a pattern whose event must directly follow."""
        return self._append(name, Contiguity.STRICT)

    def followed_by(self, name: str | Pattern) -> Pattern:
        """Append a pattern; events that do not match it may be in between."""
        return self._append(name, Contiguity.RELAXED)

    def followed_by_any(self, name: str | Pattern) -> Pattern:
        """Append a pattern; any events may be in between, including those that match it."""
        return self._append(name, Contiguity.ANY)

    def not_next(self, name: str) -> Pattern:
        """Require that the directly following event does not match a pattern."""
        return self._append_not(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """Require that no event up to the next pattern, or within the time limit, matches a pattern."""
        return self._append_not(name, Contiguity.NOT_FOLLOW)

    def _append_not(self, name: str, contiguity: Contiguity) -> Pattern:
        given: Any = name
        if isinstance(given, Pattern):
            raise ArgumentTypeError(
                "not_next and not_followed_by do not accept groups",
                hint="pass the name of a single pattern",
            )
        if self._last.optional or _nullable(self._last):
            raise refuse("not after optional", f"'{name}' after '{self._last.name}'")
        return self._append(name, contiguity)

    def _append(self, what: str | Pattern, contiguity: Contiguity) -> Pattern:
        if isinstance(what, Pattern):
            node = self._group_node(what, contiguity)
        elif isinstance(what, str):
            if not what:
                raise ArgumentError("a pattern needs a name")
            node = PatternNode(what, contiguity)
        else:
            raise ArgumentTypeError(
                f"a pattern name or a Pattern is required, got {type(what).__name__}"
            )
        names = {each.name for each in walk(self._nodes) if each.group is None}
        added = [each.name for each in walk((node,)) if each.group is None]
        for name in added:
            if name in names:
                raise refuse("duplicate name", f"'{name}'")
        return Pattern((*self._nodes, node), self._skip)

    def _group_node(self, group: Pattern, contiguity: Contiguity) -> PatternNode:
        if group._skip.skips:
            raise refuse("skip in group")
        last = group._nodes[-1]
        if last.contiguity.negative:
            raise refuse("not last in group", f"'{last.name}'")
        groups = sum(1 for each in walk(self._nodes) if each.group is not None)
        return PatternNode(f"{_GROUP} {groups + 1}", contiguity, group=group._nodes)

    # Conditions.

    def where(self, condition: Any) -> Pattern:
        """Accept only events for which a function of `(event)` or `(event, ctx)` is true; several are combined by and."""
        self._refuse_group()
        added = to_condition(condition, "where")
        before = self._last.condition
        if before is None:
            return self._change(condition=added)
        parts = before.parts if isinstance(before, AllOf) else (before,)
        return self._change(condition=AllOf((*parts, added)))

    def or_(self, condition: object) -> Pattern:
        """Accept also events for which this function is true, regardless of earlier conditions."""
        self._refuse_group()
        added = to_condition(condition, "or_")
        before = self._last.condition
        if before is None:
            raise refuse("or without where", f"'{self._last.name}'")
        parts = before.parts if isinstance(before, AnyOf) else (before,)
        return self._change(condition=AnyOf((*parts, added)))

    def subtype(self, kind: type) -> Pattern:
        """Accept only events of a class."""
        self._refuse_group()
        if not isinstance(kind, type):
            raise ArgumentTypeError(f"subtype() needs a class, got {type(kind).__name__}")
        before = self._last.condition
        added = IsInstance(kind)
        return self._change(condition=added if before is None else AllOf((added, before)))

    def until(self, condition: object) -> Pattern:
        """End the loop at the first event for which a function is true; that event is not part of it.

        A group ends immediately: an incomplete iteration is discarded.
        """
        added = to_condition(condition, "until")
        if self._last.until is not None:
            raise refuse("until twice", f"'{self._last.name}'")
        if not self._last.looping:
            raise refuse("until without loop", f"'{self._last.name}'")
        return self._change(until=added)

    # Quantifiers.

    def times(self, from_times: int, to_times: Any = None, window_time: Any = None) -> Pattern:
        """Take exactly `from_times` events, or between `from_times` and `to_times`.

        `window_time`, which may also be the second argument, limits the time from the previous event to each of them.
        """
        if window_time is None and to_times is not None and not isinstance(to_times, int):
            to_times, window_time = None, to_times
        most = from_times if to_times is None else to_times
        for number in (from_times, most):
            if isinstance(number, bool) or not isinstance(number, int):
                raise ArgumentTypeError(f"times() needs an int, got {type(number).__name__}")
        if from_times < 0 or most < 1 or most < from_times:
            said = f"times({from_times}" + ("" if to_times is None else f", {to_times}") + ")"
            raise refuse("times", said)
        optional = from_times == 0 or self._last.optional
        return self._quantify(max(from_times, 1), most, optional, window_time)

    def times_or_more(self, times: int, window_time: object = None) -> Pattern:
        """Take `times` events or more; `window_time` limits the time from the previous event to each of them."""
        if isinstance(times, bool) or not isinstance(times, int):
            raise ArgumentTypeError(f"times_or_more() needs an int, got {type(times).__name__}")
        if times < 1:
            raise refuse("times", f"times_or_more({times})")
        return self._quantify(times, None, self._last.optional, window_time)

    def one_or_more(self, window_time: object = None) -> Pattern:
        """Take one event or more; `window_time` limits the time from the previous event to each of them."""
        return self._quantify(1, None, self._last.optional, window_time)

    def _quantify(
        self, least: int, most: int | None, optional: bool, window_time: Any = None
    ) -> Pattern:
        last = self._last
        self._refuse_not()
        if last.counted:
            raise refuse("quantifier twice", f"'{last.name}'")
        if (least, most) != (1, 1) and last.group is not None and _empty(last.group):
            raise refuse("repeated group may be empty")
        if optional and not last.optional:
            self._check_optional()
        quantified = self._change(least=least, most=most, counted=True, optional=optional)
        if window_time is None:
            return quantified
        return quantified.within(window_time, WithinType.PREVIOUS_AND_CURRENT)

    def optional(self) -> Pattern:
        """Make the pattern optional."""
        self._refuse_not()
        if self._last.optional:
            raise refuse("optional twice", f"'{self._last.name}'")
        self._check_optional()
        return self._change(optional=True)

    def _check_optional(self) -> None:
        taking = [node for node in self._nodes[:-1] if not node.contiguity.negative]
        if taking and taking[-1].greedy:
            raise refuse("optional after greedy", f"'{self._last.name}'")

    def greedy(self) -> Pattern:
        """Take as many events as possible before continuing."""
        self._refuse_not()
        last = self._last
        if last.group is not None:
            raise refuse("greedy group")
        if not last.counted:
            raise refuse("greedy single", f"'{last.name}'")
        if last.inner is Contiguity.ANY:
            raise refuse("greedy combinations", f"'{last.name}'")
        return self._change(greedy=True)

    def consecutive(self) -> Pattern:
        """Require that the events of this pattern directly follow each other."""
        return self._inner(Contiguity.STRICT)

    def allow_combinations(self) -> Pattern:
        """Allow the events of this pattern to skip matching ones."""
        return self._inner(Contiguity.ANY)

    def _inner(self, contiguity: Contiguity) -> Pattern:
        self._refuse_not()
        last = self._last
        if not last.counted:
            raise refuse("inner contiguity single", f"'{last.name}'")
        if last.inner is not Contiguity.RELAXED:
            raise refuse("inner contiguity twice", f"'{last.name}'")
        if contiguity is Contiguity.ANY and last.greedy:
            raise refuse("greedy combinations", f"'{last.name}'")
        return self._change(inner=contiguity)

    # Time.

    def within(
        self, duration: object, within_type: WithinType = WithinType.FIRST_AND_LAST
    ) -> Pattern:
        """Limit the time of a match, or from the previous event to one of this pattern. The limit is exclusive."""
        millis = to_millis(duration, "the time of within")
        if millis <= 0:
            raise refuse("within not positive", f"{millis} ms")
        if within_type is WithinType.FIRST_AND_LAST:
            return self._change(within=millis)
        if within_type is not WithinType.PREVIOUS_AND_CURRENT:
            raise ArgumentTypeError(
                f"a WithinType is required, got {type(within_type).__name__}",
                hint="WithinType.FIRST_AND_LAST or WithinType.PREVIOUS_AND_CURRENT",
            )
        if self._last.group is not None:
            raise refuse("within previous of group")
        if len(self._nodes) == 1 and not self._last.counted:
            raise refuse("within previous at start", f"'{self._last.name}'")
        return self._change(within_previous=millis)

    # Inspection.

    def build(self) -> PatternPlan:
        """Return the whole pattern as data; raises MalformedPatternError."""
        plan = PatternPlan(self._nodes, self._skip)
        nodes, within = list(walk(self._nodes)), plan.within
        last = self._last
        if (
            last.contiguity is Contiguity.NOT_FOLLOW
            and within is None
            and last.within_previous is None
        ):
            raise refuse("not last without within", f"'{last.name}'")
        for node in nodes:
            between = node.within_previous
            if within is not None and between is not None and between > within:
                raise refuse("within between", f"'{node.name}' has {between} ms of {within} ms")
        wanted = self._skip.pattern_name
        if wanted is not None and wanted not in plan.names():
            raise refuse("skip to unknown", f"'{wanted}' is not one of {', '.join(plan.names())}")
        return plan

    def get_name(self) -> str:
        """Return the name of the last pattern."""
        return self._last.name

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        """Return the after-match skip strategy."""
        return self._skip

    def explain(self, format: str = "dot") -> str:
        """Return a drawing of the pattern's automaton: "dot" for Graphviz, or "svg"."""
        from penstock.drawing.automaton_drawing import to_dot, to_svg
        from penstock.runtime.cep.engine import compile_pattern

        drawers: dict[str, Callable[[Any], str]] = {"dot": to_dot, "svg": to_svg}
        if format not in drawers:
            raise ArgumentError(f"explain() supports the formats 'dot' and 'svg', not {format!r}")
        return drawers[format](compile_pattern(self.build()))

    def debug(self, events: Iterable[Any], *, timestamps: Iterable[int] | None = None) -> str:
        """Run the pattern over some events; return and print the transitions of each event.

        Without timestamps the events are one millisecond apart.
        """
        from penstock.cep.debugging import trace

        text = trace(self.build(), list(events), None if timestamps is None else list(timestamps))
        print(text)
        return text

    def __repr__(self) -> str:
        within = PatternPlan(self._nodes, self._skip).within
        return f"Pattern({show(self._nodes)}" + (f" within {within} ms)" if within else ")")

    @property
    def _last(self) -> PatternNode:
        return self._nodes[-1]

    def _change(self, **changes: Any) -> Pattern:
        return Pattern((*self._nodes[:-1], replace(self._last, **changes)), self._skip)

    def _refuse_group(self) -> None:
        if self._last.group is not None:
            raise refuse("group with condition")

    def _refuse_not(self) -> None:
        if self._last.contiguity.negative:
            raise refuse("not quantified", f"'{self._last.name}'")


_WORDS = {
    Contiguity.STRICT: "next",
    Contiguity.RELAXED: "followed by",
    Contiguity.ANY: "followed by any",
    Contiguity.NOT_NEXT: "not next",
    Contiguity.NOT_FOLLOW: "not followed by",
}


def show(nodes: tuple[PatternNode, ...]) -> str:
    """Return a sequence of patterns in words."""
    parts: list[str] = []
    for index, node in enumerate(nodes):
        name = node.name if node.group is None else f"({show(node.group)})"
        if index:
            parts.append(_WORDS[node.contiguity])
        parts.append(name + node.quantifier())
    return " ".join(parts)


def _nullable(node: PatternNode) -> bool:
    return node.optional or (node.group is not None and _empty(node.group))


def _empty(nodes: tuple[PatternNode, ...]) -> bool:
    """Whether a sequence may take no event at all."""
    return all(_nullable(node) or node.contiguity.negative for node in nodes)

"""Finds matches by trying every choice of events: slow, plain, and made without the automaton.

A pattern is unfolded to flat lists of *slots* (each takes one event), one for each way to repeat its loops and leave out its
optional parts. A choice of events for the slots is a match if every gap between two neighbours is allowed.
"""

from __future__ import annotations

from itertools import combinations

from penstock.runtime.cep.engine import Contiguity

STRICT, RELAXED, ANY = Contiguity.STRICT, Contiguity.RELAXED, Contiguity.ANY


def holds(condition, event):
    return condition is None or bool(condition.compiled()(event))


def unfold(nodes, most, head_gap, after=(), ends=()):
    """All flat lists of items: ("take", node, gap, inner, stop, behind, ends), or "not" or "greedy" with a node.

    `after` and `behind` are what must not come right after the sequence, or the slot, if it ends there. `ends` are the
    conditions that end the groups around.
    """
    lists = [[]]
    for index, node in enumerate(nodes):
        if node.contiguity.negative:
            lists = [[*items, ("not", node)] for items in lists]
            continue
        following = nodes[index + 1] if index + 1 < len(nodes) else None
        gap = head_gap if index == 0 else node.contiguity
        ways = repeat(node, most, gap, following, reachable_nots(nodes[index + 1 :], after), ends)
        lists = [items + way for items in lists for way in ways]
        lists = [items for items in lists if sum(i[0] == "take" for i in items) <= most]
    return lists


def reachable_nots(nodes, after):
    found = []
    for node in nodes:
        if node.contiguity.negative:
            found.append(node)
        elif not may_be_empty(node):
            return tuple(found)
    return (*found, *after)


def may_be_empty(node):
    return node.optional or (node.group is not None and all(map(may_be_empty, node.group)))


def repeat(node, most, gap, following, after, ends):
    greedy = [("greedy", node)] if node.greedy and node.least != node.most else []
    ways = [greedy] if node.optional else []
    limit = most if node.most is None else min(node.most, most)
    stop = following if following and following.contiguity is Contiguity.NOT_FOLLOW else None
    for count in range(node.least, limit + 1):
        if node.group is None:
            slots = []
            for i in range(count):
                behind = after if i + 1 >= node.least else ()
                inner, stopper = (node.inner, stop) if i else (gap, None)
                slots.append(("take", node, inner, i > 0, stopper, behind, ends))
            ways.append(slots + greedy)
        else:
            partial = [[]]
            around = ends if node.until is None else (*ends, node.until)
            for i in range(count):
                behind = after if i + 1 >= node.least else ()
                inside = unfold(node.group, most, node.inner if i else gap, behind, around)
                partial = [p + way for p in partial for way in inside]
                partial = [p for p in partial if sum(x[0] == "take" for x in p) <= most]
            ways.extend(partial)
    return ways


def find_matches(plan, events, end):
    """All matches of a pattern in [(event, timestamp)] as a set of ((name, event number), ...)."""
    found = set()
    for items in unfold(plan.nodes, len(events), STRICT):
        slots = [index for index, item in enumerate(items) if item[0] == "take"]
        if not slots:
            continue
        for chosen in combinations(range(len(events)), len(slots)):
            if is_match(plan, items, slots, chosen, events, end):
                found.add(tuple((items[s][1].name, c) for s, c in zip(slots, chosen, strict=True)))
    return found


def is_match(plan, items, slots, chosen, events, end):
    first_time = events[chosen[0]][1]
    within = plan.within
    if within is not None and events[chosen[-1]][1] - first_time >= within:
        return False
    for position, (slot, number) in enumerate(zip(slots, chosen, strict=True)):
        _, node, gap, inner, stop, _, ends = items[slot]
        event, time = events[number]
        if not holds(node.condition, event):
            return False
        if node.until is not None and holds(node.until, event):
            return False
        start = slots[position - 1] + 1 if position else 0
        between = items[start:slot]
        last = position + 1 == len(slots)
        completes = last and not plan.nodes[-1].contiguity.negative
        if position == 0:
            skipped = []
        else:
            before = chosen[position - 1]
            skipped = [events[i][0] for i in range(before + 1, number)]
            limit = node.within_previous
            if limit is not None and time - events[before][1] >= limit:
                return False
        if skipped and gap is STRICT:
            return False
        if gap is RELAXED and any(holds(node.condition, x) for x in skipped):
            return False
        if inner and node.until is not None and any(holds(node.until, x) for x in skipped):
            return False
        if any(holds(each, x) for each in ends for x in [*skipped, event]):
            return False
        forbidden = [item[1] for item in between if item[0] == "not"]
        if stop is not None:
            forbidden.append(stop)
        behind = items[slots[position - 1]][5] if position else ()
        if inner and node.greedy and node.least != node.most and not skipped:
            behind = ()  # a greedy loop that can go on is not at its end
        for other in behind:
            if other not in forbidden and holds(other.condition, (skipped or [event])[0]):
                return False
        for other in forbidden:
            if other.contiguity is Contiguity.NOT_NEXT:
                if holds(other.condition, (skipped or [event])[0]):
                    return False
            elif any(holds(other.condition, x) for x in skipped) or (
                holds(other.condition, event) and not completes
            ):
                return False
        for item in between:
            if item[0] == "greedy" and not greedy_allows(between, [*skipped, event]):
                return False
    if not plan.nodes[-1].contiguity.negative:
        return True  # complete with its last event, also if optional patterns could follow
    return trailing(items[slots[-1] + 1 :], chosen, events, end, within)


def greedy_allows(items, behind):
    """Whether no event behind a greedy loop could have been taken by it; one that ended the loop lifts the rule.

    Where something must not come next, the loop is over behind the first event.
    """
    greedy = [(at, item[1]) for at, item in enumerate(items) if item[0] == "greedy"]
    if behind and any(g.until is not None and holds(g.until, behind[0]) for _, g in greedy):
        return True
    for at, node in greedy:
        nots = [item[1] for item in items[at:] if item[0] == "not"]
        once = any(each.contiguity is Contiguity.NOT_NEXT for each in nots)
        if any(holds(node.condition, x) for x in (behind[:1] if once else behind)):
            return False
    return True


def trailing(items, chosen, events, end, within):
    """Whether what must not come behind the last taken event does not come."""
    nots = [item[1] for item in items if item[0] == "not"]
    greedy = [item[1] for item in items if item[0] == "greedy"]
    first_time, last_time = events[chosen[0]][1], events[chosen[-1]][1]
    rest = events[chosen[-1] + 1 :]
    pending = nots[-1].contiguity is Contiguity.NOT_FOLLOW
    deadline = float("inf") if within is None else first_time + within
    if pending and nots[-1].within_previous is not None:
        deadline = min(deadline, last_time + nots[-1].within_previous)
    rest = [event for event, time in rest if time < deadline]
    if not pending and not rest:
        return False
    if not pending:
        rest = rest[:1]
    if greedy and not greedy_allows(items, rest):
        return False
    for node in nots:
        if node.contiguity is Contiguity.NOT_FOLLOW and not pending:
            continue  # the next event completes the match, whatever it is besides
        looked_at = rest[:1] if node.contiguity is Contiguity.NOT_NEXT else rest
        if any(holds(node.condition, x) for x in looked_at):
            return False
    return not pending or end >= deadline

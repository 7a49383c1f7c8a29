"""Watermark alignment: how far the slowest source of each group has come (a pure core).

Every slot with sources of a group tells what they have reached, now and then; whoever is far ahead of the slowest waits for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from penstock.runtime.records import MAX_WATERMARK
from penstock.runtime.task.stage_messages import AllowTime


class AlignmentGroups:
    """What the members of each group have reached. A member is a slot that has source subtasks of the group.

    Sources that are idle or have ended do not count. Nobody waits until all members have spoken, as nobody knows who is the slowest.

    >>> groups = AlignmentGroups({"orders": ["slot 0", "slot 1"]})
    >>> groups.on_report("slot 0", {"orders": 500}), groups.on_report("slot 1", {"orders": 90})
    ([], [AllowTime(group='orders', watermark=90)])
    """

    def __init__(self, members: Mapping[str, Iterable[Hashable]]) -> None:
        self._members = {group: frozenset(slots) for group, slots in members.items()}
        self._reached: dict[Hashable, Mapping[str, int]] = {}
        self._told: dict[str, int] = {}

    @classmethod
    def of(cls, sources: Iterable[tuple[Any, Iterable[Hashable]]]) -> AlignmentGroups:
        """Return the groups of sources, each given as its watermark strategy and the slots that it is in."""
        members: dict[str, set[Hashable]] = {}
        for strategy, slots in sources:
            if strategy.alignment is not None:
                members.setdefault(strategy.alignment.group, set()).update(slots)
        return cls(members)

    def on_report(self, member: Hashable, reached: Mapping[str, int]) -> list[AllowTime]:
        """Take what a member's sources have reached, by group; return what all slots must be told."""
        self._reached[member] = dict(reached)
        told = []
        for group, members in self._members.items():
            if member not in members or not members <= self._reached.keys():
                continue
            slowest = min(
                (self._reached[each].get(group, MAX_WATERMARK) for each in members),
                default=MAX_WATERMARK,
            )
            if self._told.get(group) != slowest:
                self._told[group] = slowest
                told.append(AllowTime(group, slowest))
        return told

    def restart(self, members: Iterable[Hashable]) -> None:
        """Forget what members have reached that start again; they and all others are told anew then."""
        for member in members:
            self._reached.pop(member, None)
        self._told.clear()

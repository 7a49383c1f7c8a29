"""Watermark alignment: the minimum watermark of the sources of each group (a pure core).

Watermark alignment is a loop between the slots and the driver, in pipelined mode only:

- `penstock.common.watermark_strategy` has the settings of a source, `penstock.sql.connector.watermark_options` those of a table;
- `penstock.runtime.task.pipelined.pipelined_slot` periodically reports the watermarks of its sources. Which watermark of a source
  counts is in `penstock.runtime.operators.connectors.source_time`;
- `penstock.jobmanager.running.pipelined.driver` passes reports on to this module, and its updates to all slots with sources;
- `penstock.runtime.task.pipelined.source_polling` applies the updates of its group, and
  `penstock.runtime.operators.connectors.source_modes` adds the allowed drift;
- `PipelinedSplitScheduler.next` in `penstock.runtime.operators.connectors.split_schedulers` skips splits beyond that limit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from penstock.runtime.records import MAX_WATERMARK
from penstock.runtime.task.pipelined.slot_messages import AlignmentUpdate


class WatermarkAlignmentGroups:
    """The watermarks of the members of each group. A member is a slot with source subtasks of the group.

    Idle and finished sources are ignored. No source is paused until all members have reported, because the slowest is unknown before.

    >>> groups = WatermarkAlignmentGroups({"orders": ["slot 0", "slot 1"]})
    >>> groups.on_report("slot 0", {"orders": 500}), groups.on_report("slot 1", {"orders": 90})
    ([], [AlignmentUpdate(group='orders', watermark=90)])
    """

    def __init__(self, members: Mapping[str, Iterable[Hashable]]) -> None:
        self._members = {group: frozenset(slots) for group, slots in members.items()}
        self._reached: dict[Hashable, Mapping[str, int]] = {}
        self._announced: dict[str, int] = {}

    @classmethod
    def of(cls, sources: Iterable[tuple[Any, Iterable[Hashable]]]) -> WatermarkAlignmentGroups:
        """Return the groups of sources, each given as its watermark strategy and its slots."""
        members: dict[str, set[Hashable]] = {}
        for strategy, slots in sources:
            if strategy.watermark_alignment is not None:
                members.setdefault(strategy.watermark_alignment.group, set()).update(slots)
        return cls(members)

    def on_report(self, member: Hashable, reached: Mapping[str, int]) -> list[AlignmentUpdate]:
        """Record the watermarks of a member's sources, by group; return the updates to send to all slots."""
        self._reached[member] = dict(reached)
        updates = []
        for group, members in self._members.items():
            if member not in members or not members <= self._reached.keys():
                continue
            slowest = min(
                (self._reached[each].get(group, MAX_WATERMARK) for each in members),
                default=MAX_WATERMARK,
            )
            if self._announced.get(group) != slowest:
                self._announced[group] = slowest
                updates.append(AlignmentUpdate(group, slowest))
        return updates

    def restart(self, members: Iterable[Hashable]) -> None:
        """Discard the watermarks of members that restart; afterwards updates are sent to all slots again."""
        for member in members:
            self._reached.pop(member, None)
        self._announced.clear()

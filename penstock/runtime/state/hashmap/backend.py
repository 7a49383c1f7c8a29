"""The hashmap backend: the keyed state of one operator in one subtask, as objects in memory.

At the barrier the changes since the last one are written as a delta; occasionally a full snapshot is written.
"""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.runtime.state.hashmap.panes import HashMapPaneTable
from penstock.runtime.state.hashmap.table import HashMapTable
from penstock.runtime.state.hashmap.timers import TimerQueue
from penstock.runtime.state.keyed import (
    Deltas,
    KeyedStateBackend,
    Prepared,
    convert_entry,
    database_of,
    owner_of,
)
from penstock.runtime.state.panes import PANE_PREFIX
from penstock.runtime.state.schema import StateSchema, ttl_converter
from penstock.runtime.state.timers import TIMER_PREFIX, Timers


class HashMapKeyedStateBackend(KeyedStateBackend):
    """Tables in memory."""

    in_memory: ClassVar[bool] = True

    def create_table(self, name: str, namespaced: bool) -> HashMapTable:
        """Return a new table."""
        return (HashMapPaneTable if name.startswith(PANE_PREFIX) else HashMapTable)(namespaced)

    def create_timer_queue(self, name: str) -> Timers:
        """Return the queue of the timers `name`: an index over their table."""
        return TimerQueue(self.table(name, namespaced=True))

    def convert_ttl(self, table: HashMapTable, wanted: StateSchema) -> None:
        """Convert restored entries because their TTL was enabled or disabled."""
        convert = ttl_converter(wanted.ttl, self.clock())
        for entry, stored in list(table.items()):
            table.put(entry, convert_entry(wanted.kind, stored, convert))

    def about_entries(self) -> int | None:
        """Return the number of entries at the last barrier, or written since if that is more; timers do not count."""
        tables = self._tables.items()
        found: list[int] = [
            table.about() for name, table in tables if not name.startswith(TIMER_PREFIX)
        ]
        return sum(found)

    def snapshot(self) -> Deltas:
        """End the interval: return the changes of each table."""
        deltas = {}
        for name, table in self._tables.items():
            delta = table.merge()
            if delta.written or delta.removed:
                self.note_classes(name, delta.written.values())
                delta.schema = self.schemas.get(name)
                deltas[name] = delta
        return deltas

    def begin_snapshot(
        self, state_io: Any, chain: Any, name: Any, *, force: bool
    ) -> Prepared | None:
        """End the interval and pickle its changes: objects may be modified as soon as this returns."""
        delta = self.snapshot()
        if not (delta or force):
            return None
        prepared: Prepared = state_io.prepare(chain, name, delta, self.full_snapshot)
        return prepared

    def restore(
        self, state_io: object, chains: tuple[Any, ...], owned: range | None, max_parallelism: int
    ) -> Any:
        """Restore chains of snapshots; return the one that the next snapshot continues, or None."""
        owns = owner_of(owned, max_parallelism)
        for chain in chains:
            others = dict(self.schemas)
            for deltas in self.read_chain(state_io, chain, max_parallelism, owned):
                self.apply(deltas, owns, others)
        if len(chains) != 1 or owned is not None or database_of(chains[0]) is not None:
            return None
        return None if getattr(chains[0], "is_savepoint", False) else chains[0]

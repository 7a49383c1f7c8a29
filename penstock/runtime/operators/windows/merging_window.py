"""Merging windows: sessions, and user-defined merging assigners."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import CheckpointError, InvalidProgramError, PenstockError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.windows.window import MERGING_SET, WindowOperator
from penstock.runtime.operators.windows.window_base import CONTENTS, PANES
from penstock.runtime.state.table import MISSING
from penstock.windowing import MergeCallback
from penstock.windowing.session_assigners import SessionWindows


class _Merges(MergeCallback[Any]):
    """Collects the decisions of `merge_windows`."""

    def __init__(self) -> None:
        self.found: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Record a merge."""
        self.found.append((list(dict.fromkeys(to_be_merged)), merge_result))


class MergingWindowOperator(WindowOperator):
    """Windows that merge.

    For each key the table `merging-window-set` maps each window in flight to its *state window*: the one under which its
    contents are kept. A window that grows keeps its state window, so its contents stay in place; contents are moved only when
    two windows with contents merge.
    """

    merging = True

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        if not self.trigger.can_merge():
            raise InvalidProgramError(
                f"trigger {self.trigger!r} does not work with merging windows",
                detail=f"{spec.assigner!r} merges windows, and the trigger's can_merge() is False",
                hint="use a trigger that can merge, such as EventTimeTrigger or CountTrigger",
            )
        self._plain_sessions = (
            isinstance(spec.assigner, SessionWindows)
            and type(spec.assigner).merge_windows is SessionWindows.merge_windows
        )

    def _bind(self, context: OperatorContext) -> None:
        super()._bind(context)
        self.windows = context.keyed_state.table(MERGING_SET)

    def _refuse_other_kind(self) -> None:
        has_entries = self.backend.has_entries
        if has_entries(PANES) or (has_entries(CONTENTS) and not has_entries(MERGING_SET)):
            raise CheckpointError(
                "the restored state has windows that do not merge, but the program's windows merge",
                hint="give the window operator another uid, or use the former windows again",
            )

    def _adopt_panes(self) -> None:
        """Do nothing: there are no panes to take over."""

    def process_element(self, value: object, timestamp: int, key: object) -> None:
        """Add one record to its windows, merging them with those in flight."""
        watermark = self.timers.watermark
        self.backend.current_key = key
        in_flight: dict[Any, Any] = self.windows.get(key, None) or {}
        skipped = True
        for assigned in self.assign(value, timestamp):
            try:
                window = self._add_window(in_flight, assigned, key)
            except PenstockError:
                raise
            except Exception as error:
                raise self.guard(error, value, known=True) from error
            if self.event_time and self.is_late(window, watermark):
                del in_flight[window]
                continue
            skipped = False
            entry = (key, in_flight[window])
            self.add(entry, self.table.get(entry, MISSING), value)
            if self._quiet_trigger and window.max_timestamp() > watermark:
                self.timers.event.register(window.max_timestamp(), key, window)
            else:
                self.ask_trigger(value, timestamp, key, window, entry)
            self._register_cleanup(key, window)
        self._store(key, in_flight)
        if skipped:
            self.take_skipped(value, timestamp)

    def _store(self, key: object, in_flight: dict[Any, Any]) -> None:
        if in_flight:
            self.windows.put(key, in_flight)
        else:
            self.windows.remove(key)

    def _add_window(self, in_flight: dict[Any, Any], new: Any, key: object) -> Any:
        """Add a window to the set, merge, and return the resulting window."""
        if self._plain_sessions:
            # most elements start a session or belong to one; only some connect two
            touching = [window for window in in_flight if new.intersects(window)]
            if not touching:
                in_flight[new] = new
                return new
            if len(touching) == 1:
                merged = new.cover(touching[0])
                if merged != touching[0]:
                    in_flight[merged] = in_flight.pop(touching[0])
                    self._merge(key, merged, touching, [in_flight[merged]])
                return merged
        merges = _Merges()
        self.assigner.merge_windows([*in_flight, *(() if new in in_flight else (new,))], merges)
        became = new
        for group, merged in merges.found:
            if new in group:
                became = merged
                if new not in in_flight:
                    group.remove(new)
            state_windows = [in_flight.pop(window) for window in group]
            if state_windows:
                in_flight[merged] = state_windows[0]
                if group != [merged]:
                    self._merge(key, merged, group, state_windows)
        in_flight.setdefault(became, became)
        return became

    def _merge(
        self, key: object, merged: object, group: list[Any], state_windows: list[Any]
    ) -> None:
        """Move trigger state, timers and contents of `group` to `merged`."""
        self._check_not_over(merged)
        backend, context, trigger = self.backend, self.trigger_context, self.trigger
        backend.current_namespace = merged
        context.set_merged(group)
        trigger.on_merge(merged, context)
        for window in group:
            if window == merged:
                continue
            backend.current_namespace = window
            trigger.clear(window, context)
            self._cleanup_timers.delete(self.cleanup_time(window), key, window)
        table = self.table
        target = (key, state_windows[0])
        for state_window in state_windows[1:]:
            moved = table.get((key, state_window), MISSING)
            if moved is MISSING:
                continue
            table.remove((key, state_window))
            present = table.get(target, MISSING)
            table.put(target, moved if present is MISSING else self.contents.merge(present, moved))

    def _check_not_over(self, merged: object) -> None:
        now = self.timers.watermark if self.event_time else self.context.clock()
        if self.cleanup_time(merged) <= now:
            raise InvalidProgramError(
                f"windows were merged into {merged!r}, which has already ended",
                detail=f"the time is {now}; a merged window must end after it",
                hint="return a window from merge_windows that covers all windows it was made of",
            )

    def _entry(self, key: object, window: object) -> tuple[Any, Any] | None:
        in_flight = self.windows.get(key)
        state_window = None if in_flight is None else in_flight.get(window)
        return None if state_window is None else (key, state_window)

    def _clear_all(self, key: object, window: object, entry: object) -> None:
        super()._clear_all(key, window, entry)
        in_flight = self.windows.get(key)
        if in_flight is not None and in_flight.pop(window, None) is not None:
            self._store(key, in_flight)

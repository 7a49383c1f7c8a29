"""Settings of windows: assigner, trigger, evictor and allowed lateness."""

from __future__ import annotations

from typing import Any, Self

from penstock.datastream._event_time import check_windows
from penstock.datastream.stream import DataStream
from penstock.datastream.window import Evictor, MergingWindowAssigner, Trigger, WindowAssigner
from penstock.errors import ArgumentError, InvalidProgramError
from penstock.errors.argument_checks import check_instance
from penstock.time.durations import to_millis


class WindowSettings:
    """Windows of one or more streams; base of windowed streams, joins and coGroups.

    In a join or a coGroup the trigger and the evictor get elements as TaggedUnion.
    """

    def __init__(self, window_assigner: WindowAssigner[Any, Any], *streams: DataStream) -> None:
        check_instance(
            window_assigner,
            WindowAssigner,
            "window_assigner",
            hint="use one such as TumblingEventTimeWindows.of(Time.seconds(5))",
        )
        check_windows(window_assigner, [stream.transformation for stream in streams])
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._allowed_lateness = 0

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set when windows fire, instead of the assigner's default trigger."""
        check_instance(
            trigger,
            Trigger,
            "trigger",
            hint="use one such as CountTrigger.of(10) or EventTimeTrigger.create()",
        )
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidProgramError(
                f"{type(trigger).__name__} cannot be used with {type(self._assigner).__name__}",
                detail="windows of this assigner merge, and the trigger does not support merging",
                hint="override Trigger.can_merge and Trigger.on_merge",
            )
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set which elements are removed from a window before or after it is evaluated.

        The window then keeps all its elements, also for `reduce` and `aggregate`, which are computed when it fires.
        """
        check_instance(
            evictor,
            Evictor,
            "evictor",
            hint="use one such as CountEvictor.of(10) or TimeEvictor.of(Time.seconds(5))",
        )
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: object) -> Self:
        """Set how many milliseconds after its end a window still accepts late elements.

        Only for event-time windows; other windows have no late elements.
        """
        millis = to_millis(time_ms, "the allowed lateness")
        if millis < 0:
            raise ArgumentError(f"the allowed lateness must not be negative, got {millis}")
        self._allowed_lateness = millis
        return self

    def _lateness(self) -> int:
        """Return the allowed lateness; Flink ignores that of processing-time windows."""
        return self._allowed_lateness if self._assigner.is_event_time() else 0

"""Timers, as process functions see them."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Time and timers of the current key. Timestamps are epoch milliseconds."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the wall clock."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the operator's watermark; before the first one it is -2**63."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the wall clock reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer if it is pending."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget an event-time timer if it is pending."""

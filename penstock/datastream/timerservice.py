"""Timers of process functions."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TimerService(ABC):
    """Times and timers of the current key. Timestamps are epoch milliseconds."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the current processing time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the operator's watermark; -2**63 before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when processing time reaches `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer, if it exists."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer, if it exists."""

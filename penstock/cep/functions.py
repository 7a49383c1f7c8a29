"""What users do with matches: select, flat select and process functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.datastream.basic_functions import Function

Match = dict[str, list[Any]]


class PatternSelectFunction(Function):
    """Makes one result of each match."""

    @abstractmethod
    def select(self, match: Match) -> Any:
        """Return the result; `match` maps pattern names to lists of events."""


class PatternFlatSelectFunction(Function):
    """Makes any number of results of each match."""

    @abstractmethod
    def flat_select(self, match: Match) -> Iterable[Any] | None:
        """Return or yield the results."""


class PatternTimeoutFunction(Function):
    """Makes one result of each partial match whose time was up."""

    @abstractmethod
    def timeout(self, match: Match, timeout_timestamp: int) -> Any:
        """Return the result."""


class PatternFlatTimeoutFunction(Function):
    """Makes any number of results of each partial match whose time was up."""

    @abstractmethod
    def timeout(self, match: Match, timeout_timestamp: int) -> Iterable[Any] | None:
        """Return or yield the results."""


class PatternProcessFunction(Function):
    """Processes matches, with time and side outputs.

    `process_match` may be a generator, return a list or None; `yield tag, value` goes to a side output.
    """

    class Context(ABC):
        """What is known besides the match."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time of the match: that of its last event, or of the time limit it waited for."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the wall clock in epoch milliseconds."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key; None on a stream without keys."""

        @abstractmethod
        def get_pattern_id(self) -> Any:
            """Return which pattern matched, where patterns come from a stream; else None."""

    @abstractmethod
    def process_match(self, match: Match, ctx: Context) -> Iterable[Any] | None:
        """Process a match; it maps pattern names to lists of events."""


class TimedOutPartialMatchHandler(ABC):
    """To be mixed into a PatternProcessFunction: also processes partial matches whose time was up."""

    @abstractmethod
    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process a partial match; what it yields without a tag goes to the main output."""

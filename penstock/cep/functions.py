"""Functions for matches: select, flat select and process functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.common.user_types import Key, Record
from penstock.datastream.basic_functions import Function

Match = dict[str, list[Any]]


class PatternSelectFunction(Function):
    """Returns one result per match."""

    @abstractmethod
    def select(self, match: Match) -> Record:
        """Return the result; `match` maps pattern names to lists of events."""


class PatternFlatSelectFunction(Function):
    """Returns any number of results per match."""

    @abstractmethod
    def flat_select(self, match: Match) -> Iterable[Any] | None:
        """Return or yield the results."""


class PatternTimeoutFunction(Function):
    """Returns one result per partial match that timed out."""

    @abstractmethod
    def timeout(self, match: Match, timeout_timestamp: int) -> Record:
        """Return the result."""


class PatternFlatTimeoutFunction(Function):
    """Returns any number of results per partial match that timed out."""

    @abstractmethod
    def timeout(self, match: Match, timeout_timestamp: int) -> Iterable[Any] | None:
        """Return or yield the results."""


class PatternProcessFunction(Function):
    """Processes matches, with time and side outputs.

    `process_match` may be a generator, return a list or None; `yield tag, value` goes to a side output.
    """

    class Context(ABC):
        """The context of a match."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time of the match: that of its last event, or of its time limit."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in epoch milliseconds."""

        @abstractmethod
        def get_current_key(self) -> Key:
            """Return the key; None on a stream that is not keyed."""

        @abstractmethod
        def get_pattern_id(self) -> Any:
            """Return the id of the matching pattern, for dynamic patterns; else None."""

    @abstractmethod
    def process_match(self, match: Match, ctx: Context) -> Iterable[Any] | None:
        """Process a match; it maps pattern names to lists of events."""


class TimedOutPartialMatchHandler(ABC):
    """Mix-in for a PatternProcessFunction that also processes partial matches that timed out."""

    @abstractmethod
    def process_timed_out_match(
        self, match: Match, ctx: PatternProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process a partial match; results without a tag go to the main output."""

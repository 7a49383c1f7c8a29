"""User-defined conditions: functions of `(event)` or `(event, ctx)`, or objects with a method `filter`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

from penstock.common.user_types import Record
from penstock.errors import ArgumentTypeError
from penstock.runtime.cep.engine.conditions import Condition, UserCondition


class SimpleCondition(ABC):
    """A condition on the event alone."""

    @abstractmethod
    def filter(self, value: Record) -> bool:
        """Whether the event matches."""


class IterativeCondition(ABC):
    """A condition that also uses the events of the match so far.

    It may have methods `open(runtime_context)` and `close()`.
    """

    class Context(ABC):
        """The context of a condition."""

        @abstractmethod
        def get_events_for_pattern(self, name: str) -> list[Any]:
            """Return the events of the match for a pattern so far, in order."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the timestamp of the event."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in epoch milliseconds."""

    @abstractmethod
    def filter(self, value: Record, ctx: Context) -> bool:
        """Whether the event matches."""


def to_condition(function: Any, method: str) -> Condition:
    """Return a user's function as a condition; reject one that cannot be called with an event."""
    if isinstance(function, type) and issubclass(function, SimpleCondition | IterativeCondition):
        raise ArgumentTypeError(
            f"{method}() needs an object, got the class {function.__name__}",
            hint=f"create an instance: {function.__name__}()",
        )
    target = getattr(function, "filter", None)
    target = target if callable(target) and not isinstance(function, type) else function
    if not callable(target):
        raise ArgumentTypeError(
            f"{method}() needs a function of (event) or (event, ctx), got {type(function).__name__}",
            hint="for example lambda event: event.amount > 100",
        )
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # builtins without a signature
        return UserCondition(function)
    for arguments, takes_context in (("e",), False), (("e", "c"), True):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return UserCondition(function, takes_context)
    raise ArgumentTypeError(
        f"a condition must take (event) or (event, ctx), not {signature}",
        hint="for example lambda event, ctx: event.amount > len(ctx.get_events_for_pattern('a'))",
    )

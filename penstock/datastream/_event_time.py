"""Checks whether the elements of a stream can have timestamps."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from penstock.datastream.window import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from penstock.errors import InvalidProgramError
from penstock.graph.timestamps import listed, steps_without_timestamps
from penstock.graph.transformations import Transformation

_log = logging.getLogger(__name__)


def check_windows(assigner: WindowAssigner[Any, Any], inputs: Sequence[Transformation]) -> None:
    """Reject event-time windows, or warn of them, if no element of any input can have a timestamp.

    A custom assigner is not checked. Session windows run without timestamps, as in Flink.
    """
    name, method = type(assigner).__name__, type(assigner).assign_windows
    if method is TumblingEventTimeWindows.assign_windows:
        check_timestamps(inputs, name)
    elif method is EventTimeSessionWindows.assign_windows:
        names = steps_without_timestamps(inputs)
        if names:
            _log.warning(
                "records of %s have no timestamps: %s puts all of them into one session per key",
                listed(names),
                name,
            )


def check_timestamps(inputs: Sequence[Transformation], what: str) -> None:
    """Reject an event-time operation if no element of any of its inputs can have a timestamp.

    If some can, the job runs, and fails at the first element without one.
    """
    names = steps_without_timestamps(inputs)
    if names:
        raise InvalidProgramError(
            f"{what} needs timestamps, and no step before it assigns them",
            detail=f"records of {listed(names)} have no timestamps",
            hint="call assign_timestamps_and_watermarks(...) before, with a strategy that has a timestamp assigner; "
            "or pass such a strategy to from_source; or use processing-time windows",
        )

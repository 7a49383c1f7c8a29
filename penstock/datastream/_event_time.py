"""Whether the elements of a stream can have timestamps."""

from __future__ import annotations

from penstock.errors import InvalidProgramError
from penstock.graph.transformations import OperatorTransformation, Transformation


def can_have_timestamps(transformation: Transformation) -> bool:
    """Whether any step before assigns timestamps, or reads a source that may bring them."""
    seen: set[int] = set()
    stack = [transformation]
    while stack:
        step = stack.pop()
        if step.id in seen:
            continue
        seen.add(step.id)
        if isinstance(step, OperatorTransformation) and step.spec.assigns_timestamps:
            return True
        stack.extend(step.inputs)
    return False


def check_timestamps(transformation: Transformation, what: str) -> None:
    """Refuse an event-time operation on a stream whose elements have no timestamps."""
    if not can_have_timestamps(transformation):
        raise InvalidProgramError(
            f"{what} needs timestamps, and no step before it assigns them",
            hint="call assign_timestamps_and_watermarks(...) before, give from_source a watermark strategy with a "
            "timestamp assigner, or use processing-time windows",
        )

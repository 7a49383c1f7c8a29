"""Whether the elements of a stream can have timestamps."""

from __future__ import annotations

from penstock.errors import InvalidProgramError
from penstock.graph.transformations import (
    OperatorTransformation,
    Transformation,
    UnionTransformation,
)

_NOWHERE = "no step before it assigns them"


def check_timestamps(transformation: Transformation, what: str) -> None:
    """Refuse an event-time operation on a stream whose elements have no timestamps.

    Some step before it must assign them, or read a source that may bring them; before a union, in each of its inputs.
    """
    missing = _missing(transformation, {})
    if missing is not None:
        raise InvalidProgramError(
            f"{what} needs timestamps, and {missing}",
            hint="call assign_timestamps_and_watermarks(...) before, give from_source a watermark strategy with a "
            "timestamp assigner, or use processing-time windows",
        )


def _missing(step: Transformation, known: dict[int, str | None]) -> str | None:
    """Return where timestamps are missing, as a message says it; None if they can be there."""
    while len(step.inputs) == 1 and not _assigns(step):
        (step,) = step.inputs
    if _assigns(step):
        return None
    if step.id not in known:
        found = [_missing(each, known) for each in step.inputs]
        known[step.id] = _of_inputs(step, found)
    return known[step.id]


def _assigns(step: Transformation) -> bool:
    return isinstance(step, OperatorTransformation) and step.spec.assigns_timestamps


def _of_inputs(step: Transformation, found: list[str | None]) -> str | None:
    """Return what is missing before a step with many inputs, or with none."""
    if isinstance(step, UnionTransformation) and not all(found):
        at = next((at for at, missing in enumerate(found) if missing is not None), None)
        if at is None:
            return None
        if found[at] != _NOWHERE:
            return found[at]
        name = _operator(step.inputs[at]).name
        return f"input {at + 1} of a union before it, '{name}', has none while other inputs do"
    # What an operator with two inputs emits may all be of the one that has timestamps.
    return _NOWHERE if all(found) else None


def _operator(step: Transformation) -> Transformation:
    """Return the operator that a stream is of: what partitions it has no name of its own."""
    while step.inputs and not isinstance(step, OperatorTransformation):
        step = step.inputs[0]
    return step

"""Windowed aggregation in two stages: `local_global=True` of WindowedStream.aggregate and reduce."""

from __future__ import annotations

import dis
import inspect
from typing import Self

from penstock.common.typeinfo import TypeInformation
from penstock.common.user_types import Key, Record
from penstock.datastream.basic_functions import KeySelector
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.stream import DataStream
from penstock.errors import InvalidProgramError
from penstock.graph.operator_specs import GlobalAggregateSpec, LocalAggregateSpec, WindowSpec
from penstock.graph.transformations import OperatorTransformation
from penstock.windowing import EventTimeTrigger, SlidingEventTimeWindows, TumblingEventTimeWindows


class PartialKey(KeySelector):
    """The key of an accumulator that is sent to the second stage."""

    def get_key(self, value: Record) -> Key:
        """Return the first of (key, window start, accumulator)."""
        return value[0]


class TwoStageStream(DataStream):
    """The result of the second stage; a uid is applied to both."""

    def __init__(self, stream: DataStream, local: DataStream) -> None:
        super().__init__(stream.get_execution_environment(), stream.transformation)
        self._local = local

    def uid(self, uid: str) -> Self:
        """Set the id by which savepoints find the operator's state."""
        super().uid(uid)
        self._local.uid(f"{uid}/local")
        return self


def two_stages(
    stream: DataStream, window: WindowSpec, output_type: TypeInformation | None, description: str
) -> DataStream:
    """Add both stages to a keyed stream."""
    name = type(window.assigner).__name__
    check_two_stages(stream, window)
    assert isinstance(stream, KeyedStream)
    origin = stream.origin_stream
    local = origin.transform(
        f"Local {name}",
        LocalAggregateSpec(window, stream.key_selector),
        None,
        description=f"Local{description}",
    )
    before, step = origin.transformation, local.transformation
    if isinstance(before, OperatorTransformation):  # chained to it, instead of after an exchange
        step.parallelism, step.max_parallelism = before.parallelism, before.max_parallelism
    result = local.key_by(PartialKey()).transform(
        name, GlobalAggregateSpec(window), output_type, description=f"Global{description}"
    )
    return TwoStageStream(result, local)


def check_two_stages(stream: DataStream, window: WindowSpec) -> None:
    """Reject windows that would have other results in two stages."""
    if not isinstance(stream, KeyedStream) or not window.keyed:
        raise _refused(
            "non-keyed windows have only one stage", "call key_by(...) before window(...)"
        )
    if type(window.assigner) not in {TumblingEventTimeWindows, SlidingEventTimeWindows}:
        raise _refused(
            f"{type(window.assigner).__name__} is not a tumbling or sliding event-time window",
            "use TumblingEventTimeWindows or SlidingEventTimeWindows",
        )
    if window.trigger is not None and type(window.trigger) is not EventTimeTrigger:
        raise _refused(
            f"{type(window.trigger).__name__} needs single records", "remove the trigger"
        )
    if window.evictor is not None:
        raise _refused("an evictor needs single records", "remove the evictor")
    if window.allowed_lateness:
        raise _refused(
            "within the allowed lateness every late record fires its window again, but the second stage "
            "does not receive single records",
            "remove allowed_lateness",
        )
    if window.late_tag is not None:
        raise _refused(
            "only the second stage knows which records are late, but it does not receive them",
            "remove side_output_late_data; late records are dropped",
        )
    function = window.aggregate_function
    if function is not None and not _has_merge(function):
        raise _refused(
            f"{type(function).__name__}.merge() is not implemented",
            "implement merge(acc_a, acc_b) to combine two accumulators",
        )


def _refused(detail: str, hint: str) -> InvalidProgramError:
    return InvalidProgramError(
        "this window cannot be aggregated in two stages",
        detail=detail,
        hint=f"{hint}, or remove local_global",
    )


def _has_merge(function: object) -> bool:
    """Whether `merge` is implemented: many programs have an empty one, because only session windows needed it.

    A body that uses no argument and returns None, or raises NotImplementedError, counts as empty.
    """
    merge = getattr(function, "merge", None)
    if not callable(merge):
        return False
    code = getattr(inspect.unwrap(merge), "__code__", None)
    if code is None:
        return True
    steps = list(dis.get_instructions(code))
    if any(step.opname.startswith("LOAD_FAST") for step in steps):
        return True
    if code.co_names:
        return bool(code.co_names != ("NotImplementedError",))
    constants = [step.argval for step in steps if step.opname.endswith("_CONST")]
    return any(constant is not None for constant in constants)

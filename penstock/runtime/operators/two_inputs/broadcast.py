"""BroadcastProcessFunction and KeyedBroadcastProcessFunction.

Input 1 is broadcast: every subtask gets all of its records and changes its copy of the broadcast state in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from penstock.errors import InvalidProgramError
from penstock.graph.keys import for_user
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.functions.process import KeyedProcessOperator, ProcessOperator
from penstock.runtime.records import RowBatch
from penstock.runtime.time.timers import KeyedTimerService
from penstock.runtime.user_code import method_of
from penstock.time.time_domain import TimeDomain


class _NoKey:
    """Placeholder for a missing key: access to state or timers with it is rejected."""

    def __hash__(self) -> NoReturn:
        raise InvalidProgramError(
            "keyed state and timers are not available for elements of the broadcast side: they have no key",
            hint="use ctx.apply_to_keyed_state(descriptor, function) to access the state of all keys",
        )

    def __repr__(self) -> str:
        return "no key"


_NO_KEY = _NoKey()


class BroadcastContext:
    """The context of `process_broadcast_element`."""

    def __init__(self, operator: BroadcastProcessOperator) -> None:
        self._operator = operator
        self._timestamp: int | None = None
        backend = operator.context.operator_state
        self._states: dict[str, Any] = {
            descriptor.name: backend.get_broadcast_state(descriptor)
            for descriptor in operator.spec.states
        }

    def timestamp(self) -> int | None:
        """Return the timestamp of the record or the timer."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._operator.context.clock()

    def current_watermark(self) -> int:
        """Return the operator's watermark."""
        return self._operator.watermark

    def get_broadcast_state(self, state_descriptor: Any) -> object:
        """Return the broadcast state of a descriptor."""
        name = getattr(state_descriptor, "name", state_descriptor)
        state = self._states.get(name)
        if state is None:
            known = ", ".join(f"'{known}'" for known in self._states)
            raise InvalidProgramError(
                f"unknown broadcast state '{name}'",
                detail=f"the stream was broadcast with {known}",
                hint="pass its descriptor to broadcast(...)",
            )
        return state


class ReadOnlyContext(BroadcastContext):
    """The context of `process_element`."""

    def __init__(self, operator: BroadcastProcessOperator) -> None:
        super().__init__(operator)
        self._states = {name: state.read_only() for name, state in self._states.items()}


class KeyedBroadcastContext(BroadcastContext):
    """The context of `process_broadcast_element` of a keyed stream."""

    def apply_to_keyed_state(self, state_descriptor: Any, function: object) -> None:
        """Call `function(key, state)`, or its method `process`, for every key that has this state."""
        backend = self._operator.context.keyed_state
        state = backend.get_state(state_descriptor)
        call = method_of(function, "process")
        try:
            for key in backend.keys(f"state/{state_descriptor.name}"):
                backend.current_key = key
                call(key, state)
        finally:
            backend.current_key = _NO_KEY


class KeyedReadOnlyContext(ReadOnlyContext):
    """The context of `process_element` and `on_timer` of a keyed stream."""

    def __init__(self, operator: KeyedBroadcastProcessOperator) -> None:
        super().__init__(operator)
        self._backend = operator.backend
        self._service = KeyedTimerService(operator.timers, operator.context.clock)
        self._domain: TimeDomain | None = None

    def timer_service(self) -> object:
        """Return the timer service."""
        return self._service

    def get_current_key(self) -> object:
        """Return the current key."""
        return for_user(self._backend.current_key)

    def time_domain(self) -> TimeDomain | None:
        """Return the time domain of the firing timer."""
        return self._domain


class BroadcastProcessOperator(ProcessOperator):
    """Calls `process_element` for input 0 and `process_broadcast_element` for input 1."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.broadcast_context = self.create_broadcast_context()
        # In BATCH mode the broadcast side comes first, as in Flink: the other one waits for its end.
        self._waiting: list[RowBatch] | None = [] if context.batch_mode else None

    def create_user_context(self) -> Any:
        """Create the context of the non-broadcast side."""
        return ReadOnlyContext(self)

    def create_broadcast_context(self) -> BroadcastContext:
        """Create the context of the broadcast side."""
        return BroadcastContext(self)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Process all records of one input."""
        if input_index == 1:
            call: Callable[..., Any] = self.function.process_broadcast_element
            ProcessOperator.run_batch(self, call, self.broadcast_context, batch)
        elif self._waiting is not None:
            self._waiting.append(batch)
        else:
            self.run_batch(self.function.process_element, self.user_context, batch)

    def process_watermark(self, watermark: int) -> None:
        """Process the elements that waited for the broadcast side, then advance event time."""
        if self._waiting is not None:
            for batch in self._waiting:
                self.run_batch(self.function.process_element, self.user_context, batch)
            self._waiting.clear()
        super().process_watermark(watermark)


class KeyedBroadcastProcessOperator(BroadcastProcessOperator, KeyedProcessOperator):
    """The same with a current key, keyed state and timers on input 0."""

    def create_user_context(self) -> Any:
        """Create the context of the keyed side."""
        return KeyedReadOnlyContext(self)

    def create_broadcast_context(self) -> BroadcastContext:
        """Create the context of the broadcast side."""
        return KeyedBroadcastContext(self)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Process all records of one input."""
        if input_index == 1:
            self.backend.current_key = _NO_KEY
        super().process(batch, input_index)

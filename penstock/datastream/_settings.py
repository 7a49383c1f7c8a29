"""Common settings of streams and sinks: name, uid, parallelism, chaining, slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from penstock.datastream._checks import check_max_parallelism, check_parallelism
from penstock.datastream._unexecuted import renamed
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError
from penstock.errors.argument_checks import check_int, check_text
from penstock.graph.operator_ids import check_uid_hash
from penstock.graph.transformations import (
    OperatorTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment


class OperatorSettings:
    """Base of streams and sinks: changes the settings of their operator."""

    def __init__(
        self, environment: StreamExecutionEnvironment, transformation: Transformation
    ) -> None:
        self._environment = environment
        self._transformation = transformation

    @property
    def transformation(self) -> Transformation:
        """The transformation of this stream or sink."""
        return self._transformation

    def _physical(self, what: str) -> OperatorTransformation:
        """Return the operator, or reject `what` on a stream without one."""
        transformation = self._transformation
        if isinstance(transformation, OperatorTransformation):
            return transformation
        if isinstance(transformation, UnionTransformation):
            stream = "a union of streams"
        elif isinstance(transformation, SideOutputTransformation):
            stream = "a side output"
        else:
            stream = "a partitioned stream"
        raise InvalidProgramError(
            f"{what} is not available for {stream}",
            hint="call it on the operator before or after: " + stream + " is not an operator",
        )

    def get_name(self) -> str:
        """Return the name of the operator."""
        return self._physical("a name").name

    def name(self, name: str) -> Self:
        """Set the name of the operator, for plans, logs and metrics."""
        operator = self._physical("a name")
        operator.name = check_text(name, "the name of an operator")
        renamed(operator)
        return self

    def uid(self, uid: str) -> Self:
        """Set the id by which savepoints find the operator's state. It must be unique in the program."""
        operator = self._physical("a uid")
        check_text(uid, "uid")
        if operator.uid_hash is not None:
            raise InvalidProgramError(
                f"operator '{operator.name}' already has a uid hash",
                hint="set either a uid or a uid hash",
            )
        operator.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the operator id itself: 32 hexadecimal digits."""
        operator = self._physical("a uid hash")
        if not isinstance(uid_hash, str):
            raise ArgumentTypeError(f"uid_hash must be a str, got {type(uid_hash).__name__}")
        if operator.uid is not None:
            raise InvalidProgramError(
                f"operator '{operator.name}' already has a uid",
                hint="set either a uid or a uid hash",
            )
        operator.uid_hash = check_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks."""
        operator = self._physical("a parallelism")
        check_parallelism(parallelism, operator.max_parallelism)
        if operator.parallelism_fixed and parallelism != 1:
            raise InvalidProgramError(
                f"operator '{operator.name}' is not parallel, its parallelism must be 1",
                hint="set the parallelism of the operator after it",
            )
        operator.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, the bound for later rescaling."""
        operator = self._physical("a max parallelism")
        check_max_parallelism(max_parallelism, operator.parallelism)
        if operator.parallelism_fixed and max_parallelism != 1:
            raise InvalidProgramError(
                f"operator '{operator.name}' is not parallel, its max parallelism must be 1"
            )
        operator.max_parallelism = max_parallelism
        return self

    def force_non_parallel(self) -> Self:
        """Run the operator in one subtask; its parallelism cannot be changed any more."""
        operator = self._physical("a parallelism")
        operator.parallelism = 1
        operator.max_parallelism = 1
        operator.parallelism_fixed = True
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set how long elements may be buffered; -1 is the environment's setting."""
        operator = self._physical("a buffer timeout")
        check_int(timeout_millis, "timeout_millis", minimum=-1)
        operator.buffer_timeout = None if timeout_millis == -1 else timeout_millis
        return self

    def set_description(self, description: str) -> Self:
        """Set the long description of the operator in plans."""
        if not isinstance(description, str):
            raise ArgumentTypeError(f"description must be a str, got {type(description).__name__}")
        self._physical("a description").description = description
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator to the one before it."""
        self._physical("chaining").chaining = "HEAD"
        return self

    def disable_chaining(self) -> Self:
        """Do not chain the operator with any other."""
        self._physical("chaining").chaining = "NEVER"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Set the slot sharing group of the operator; later operators inherit it."""
        operator = self._physical("a slot sharing group")
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._environment.register_slot_sharing_group(slot_sharing_group)
            operator.slot_sharing_group = slot_sharing_group.get_name()
        elif isinstance(slot_sharing_group, str):
            if not slot_sharing_group:
                raise ArgumentError("the name of a slot sharing group must not be empty")
            operator.slot_sharing_group = slot_sharing_group
        else:
            raise ArgumentTypeError(
                "slot_sharing_group must be a str or a SlotSharingGroup, got "
                f"{type(slot_sharing_group).__name__}"
            )
        return self

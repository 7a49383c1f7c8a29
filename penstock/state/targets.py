"""Where a SavepointWriter puts entries, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.key_groups import key_group_of
from penstock.common.state import StateDescriptor
from penstock.common.type_information import TypeInformation, shorten
from penstock.errors import ArgumentError, ArgumentTypeError, PenstockError
from penstock.runtime.state.schema import StateSchema
from penstock.state.edits import check_kind

if TYPE_CHECKING:
    from penstock.state.writer import OperatorEdit

State = str | StateDescriptor


class Target:
    """Where entries are put."""

    def __init__(
        self,
        edit: OperatorEdit,
        table: str,
        namespaced: bool,
        schema: StateSchema | None,
        type_info: TypeInformation | None,
        kind: str,
        what: str,
    ) -> None:
        self.edit = edit
        self.table = table
        self.namespaced = namespaced
        self.schema = schema
        self.type_info = type_info
        self.kind = kind
        self.what = what

    def checked(self, value: Any, kind: TypeInformation | None, number: int) -> Any:
        """Return a value as its declared type holds it."""
        if kind is None or value is None:
            return value
        try:
            return kind.validate(value)
        except PenstockError as error:
            raise ArgumentError(
                f"row {number}: {error.message}", detail=error.detail, hint=error.hint
            ) from error


def name_of(state: State, kind: str, what: str) -> str:
    """Return the name of a state that is given as a name or a descriptor."""
    if isinstance(state, StateDescriptor):
        if state.kind != kind:
            raise ArgumentError(
                f"{what} needs a descriptor of {kind} state, got {type(state).__name__}"
            )
        return state.name
    if not isinstance(state, str) or not state:
        raise ArgumentTypeError(
            f"a state is named by a text or its descriptor, not by {state!r}",
        )
    return state


def with_ttl(schema: StateSchema, ttl: bool) -> StateSchema:
    """Return a schema with another time to live."""
    return StateSchema(schema.kind, schema.shape, schema.text, ttl, schema.version)


def refuse_twice(written: dict[Any, Any], entry: Any, target: Target, number: int) -> None:
    """Refuse a second value for a key."""
    if entry in written:
        raise ArgumentError(
            f"row {number}: key {shorten(entry)} occurs twice",
            detail=f"{target.what} has one value per key",
            hint="aggregate the rows first, or use put_list",
        )


def as_whole(value: Any, wanted: type, target: Target, number: int) -> Any:
    """Return a whole list or dictionary, or refuse what is none."""
    if isinstance(value, tuple) and wanted is list:
        value = list(value)
    if isinstance(value, list) and wanted is dict and all(_is_pair(item) for item in value):
        value = dict(value)  # as Arrow gives maps
    try:
        check_kind(value, target.kind, target.what)
    except ArgumentError as error:
        raise ArgumentError(f"row {number}: {error.message}") from None
    return value


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def check_hashable(key: Any, what: str, number: int) -> None:
    """Refuse what cannot be a key of a dictionary."""
    try:
        hash(key)
    except TypeError as error:
        raise ArgumentTypeError(
            f"row {number}: {what} cannot be {shorten(key)}",
            detail=str(error),
            hint="a key is a number, text, a date or a tuple of these: key=lambda row: (row['a'], row['b'])",
        ) from None


def check_key(key: Any, number: int, max_parallelism: int) -> None:
    """Refuse what cannot be a key of state."""
    check_hashable(key, "the key", number)
    try:
        key_group_of(key, max_parallelism)
    except PenstockError as error:
        raise ArgumentTypeError(
            f"row {number}: {error.message}", detail=error.detail, hint=error.hint
        ) from None

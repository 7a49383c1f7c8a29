"""Tags of side outputs."""

from __future__ import annotations

from typing import Any

from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.datastream._not_implemented import not_implemented
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_instance, describe


class OutputTag:
    """The tag of a side output, with the type of its elements. Tags are equal if their names are.

    >>> late = OutputTag("late", Types.STRING())
    >>> late.tag_id, late == OutputTag("late")
    ('late', True)

    An operator emits to it with `yield late, value`; `stream.get_side_output(late)` is the stream of these elements.
    """

    is_output_tag = True  # how operators recognize a tag

    get_java_output_tag = not_implemented("there is no JVM object behind an OutputTag")

    def __init__(
        self, tag_id: str, type_info: TypeInformation | list[TypeInformation] | None = None
    ) -> None:
        if not tag_id:
            raise ArgumentError("tag_id cannot be None or empty")
        check_instance(tag_id, str, "tag_id")
        if type_info is None:
            type_info = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, list):
            type_info = RowTypeInfo(type_info)
        elif not isinstance(type_info, TypeInformation):
            raise ArgumentTypeError(
                f"type_info must be a TypeInformation, a list of them or None, got {describe(type_info)}",
                hint="use Types.STRING() or another member of Types",
            )
        self.tag_id = tag_id
        self.type_info: Any = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info})"

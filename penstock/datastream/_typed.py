"""Declared types in the API.

Values are converted to their declared type when an operator emits them, for whole batches: see
`penstock.runtime.task.shared.typed_output`.
"""

from __future__ import annotations

from typing import Any

from penstock.common.typeinfo import RowTypeInfo
from penstock.common.typeinfo import check_type as check_type_information


def check_type(type_info: Any, what: str = "output_type") -> Any:
    """Return a declared type, a row type for a list of types, or None if nothing is declared."""
    if type_info is None:
        return None
    if isinstance(type_info, list):
        return RowTypeInfo(type_info)
    return check_type_information(type_info, what)

"""Predicates for retry strategies, under PyFlink's module path."""

from __future__ import annotations

from typing import Any


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Whether there is no result.

    >>> empty_result_predicate([]), empty_result_predicate([1])
    (True, False)
    """
    return not result


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether there is an exception, of any type."""
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException]
) -> bool:
    """Whether the exception is of a type.

    >>> exception_type_predicate(TimeoutError(), OSError)
    True
    """
    return isinstance(error, expected_error_type)

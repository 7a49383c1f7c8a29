"""A marker for methods of PyFlink that Penstock does not have yet."""

from __future__ import annotations

from penstock.errors.not_implemented import missing_methods, not_implemented

__all__ = ["missing_methods", "not_implemented"]

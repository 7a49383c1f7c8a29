"""State that belongs to an operator's subtask rather than to a key."""

from __future__ import annotations

from typing import Any


class OperatorStateBackend:
    """Named values of one operator in one subtask. Small: they are part of every checkpoint in full."""

    def __init__(self, restored: dict[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(restored or {})

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value."""
        return self._values.get(name, default)

    def put(self, name: str, value: Any) -> None:
        """Set a value; it must pickle."""
        self._values[name] = value

    def snapshot(self) -> dict[str, Any]:
        """Return all values."""
        return dict(self._values)

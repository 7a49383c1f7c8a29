"""Adapters between operators and user functions with another signature."""

from __future__ import annotations

from typing import Any


class FunctionAdapter:
    """Base of objects that operators call instead of a user function: forwards open, close and checkpoints."""

    def __init__(self, function: Any) -> None:
        self.function = function
        for method in ("initialize_state", "snapshot_state"):
            if callable(getattr(function, method, None)):
                setattr(self, method, getattr(function, method))

    def open(self, runtime_context: Any) -> None:
        """Open the user function if it has an open method."""
        opener = getattr(self.function, "open", None)
        if callable(opener):
            opener(runtime_context)

    def close(self) -> None:
        """Close the user function if it has a close method."""
        closer = getattr(self.function, "close", None)
        if callable(closer):
            closer()

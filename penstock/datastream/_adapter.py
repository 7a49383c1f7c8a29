"""What stands between an operator and a user's function whose shape the operator does not know."""

from __future__ import annotations

from typing import Any


class FunctionAdapter:
    """Base of objects that operators call in place of a user's function: forwards its life and its checkpoints."""

    def __init__(self, function: Any) -> None:
        self.function = function
        for method in ("initialize_state", "snapshot_state"):
            if callable(getattr(function, method, None)):
                setattr(self, method, getattr(function, method))

    def open(self, runtime_context: Any) -> None:
        """Open the user's function if it can be opened."""
        opener = getattr(self.function, "open", None)
        if callable(opener):
            opener(runtime_context)

    def close(self) -> None:
        """Close the user's function if it can be closed."""
        closer = getattr(self.function, "close", None)
        if callable(closer):
            closer()

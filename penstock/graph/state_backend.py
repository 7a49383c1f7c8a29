"""Settings of the state backend of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class StateBackendSettings:
    """The name of a backend, as in `state.backend.type`. Backends with more settings derive from it."""

    name: str = "hashmap"

    def in_directory(self, directory: str) -> Self:
        """Return the settings for a job whose local files all go to one directory; this backend has none."""
        return self

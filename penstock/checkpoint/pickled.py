"""Pickled values inside a manifest, kept as bytes until they are needed."""

from __future__ import annotations

import base64
import pickle
from dataclasses import dataclass
from typing import Any

from penstock.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Pickled:
    """A pickled value. A manifest can be listed, copied and cleaned up without the classes of the job."""

    data: bytes

    @classmethod
    def of(cls, value: Any, what: str = "a value") -> Pickled:
        """Pickle a value; `what` names it in the error."""
        try:
            return cls(pickle.dumps(value, protocol=5))
        except Exception:  # noqa: BLE001  pickling runs the user's code; cloudpickle may still manage
            from penstock.pickling import cloudpickling

            try:
                return cls(cloudpickling.dumps(value, protocol=5))
            except Exception as error:
                raise CheckpointError(
                    f"{what} cannot be pickled into a checkpoint",
                    detail=f"{type(error).__name__}: {error}",
                    hint="return plain data without open files, connections, locks or generators",
                ) from error

    def load(self, what: str = "a value") -> Any:
        """Return the value; `what` names it in the error."""
        try:
            return pickle.loads(self.data)
        except Exception as error:
            raise CheckpointError(
                f"could not unpickle {what} of the checkpoint",
                detail=f"{type(error).__name__}: {error}",
                hint="run the job with the classes and library versions that wrote the checkpoint",
            ) from error

    def to_json(self) -> str:
        """Return base64 text."""
        return base64.b64encode(self.data).decode()

    @classmethod
    def from_json(cls, value: str) -> Pickled:
        """Read what `to_json` returned."""
        return cls(base64.b64decode(value, validate=True))

"""Lenient unpickling for values whose structure matters, not their classes, which may be missing or changed."""

from __future__ import annotations

import io
import pickle
from typing import Any, Final, Self

# Metadata of savepoints may contain nested pickles that are opened only with their container.
INNER: Final = frozenset({("pickle", "loads"), ("_pickle", "loads")})

# Modules whose classes do not depend on the job.
_TRUSTED: Final = frozenset(
    {"builtins", "collections", "copyreg", "datetime", "decimal", "fractions", "uuid", "zoneinfo"}
)


def load_leniently(data: bytes) -> Any:
    """Unpickle a value for its structure: objects of unknown classes become Opaque ones."""
    try:
        return _LenientUnpickler(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 - the class exists but rejects the old state
        return _SafeUnpickler(io.BytesIO(data)).load()


class OpaqueObject:
    """Placeholder for an object whose class cannot be imported. Supports only equality."""

    _parts: list[Any]

    def __new__(cls, *args: object, **named: object) -> Self:
        """Set up the instance here: unpickling does not always call __init__."""
        made = super().__new__(cls)
        made._parts = [args, named] if named else [args]
        return made

    def __setstate__(self, state: object) -> None:
        self._parts.append(state)

    def append(self, item: Any) -> None:
        """Append an item, for a former list."""
        self._parts.append(item)

    def extend(self, items: Any) -> None:
        """Append items, for a former list."""
        self._parts.extend(items)

    def add(self, item: Any) -> None:
        """Add an item, for a former set."""
        self._parts.append(item)

    def __setitem__(self, key: object, value: object) -> None:
        self._parts.append((key, value))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OpaqueObject)
            and type(self).__qualname__ == type(other).__qualname__
            and self._parts == other._parts
        )

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__} {self._parts!r}>"


def _opaque(module: str, name: str) -> type[OpaqueObject]:
    return type(name, (OpaqueObject,), {"__module__": module, "__qualname__": f"{module}.{name}"})


class _LenientUnpickler(pickle.Unpickler):
    """Replaces classes that cannot be imported."""

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in INNER:
            return load_leniently
        try:
            return super().find_class(module, name)
        except Exception:  # noqa: BLE001 - importing runs the user's code
            return _opaque(module, name)


class _SafeUnpickler(_LenientUnpickler):
    """Replaces all classes of the job."""

    def find_class(self, module: str, name: str) -> object:
        ours = module in _TRUSTED or module.partition(".")[0] == "penstock"
        if ours or (module, name) in INNER:
            return super().find_class(module, name)
        return _opaque(module, name)

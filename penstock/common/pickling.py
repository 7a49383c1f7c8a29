"""Pickles that any worker can read, also those of classes that only the user's script has."""

from __future__ import annotations

import pickle
from typing import Any


def dumps(value: Any) -> bytes:
    """Pickle a value.

    A class of the user's script is known to a worker only as a copy, which plain pickle does not find under its name:
    then it travels by value, as cloudpickle does it, and whoever reads it gets the same class back.
    """
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(value, 5)
        return pickled

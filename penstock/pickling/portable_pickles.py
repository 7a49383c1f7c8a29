"""Pickles that any worker can read, also those of classes that only the user's script has."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError

_thread = threading.local()


class NotPicklableError(PenstockError, TypeError):
    """A value of the user cannot be pickled: it cannot be sent to another task or stored in a checkpoint."""


def dumps(value: object) -> bytes:
    """Pickle a value; raises NotPicklableError.

    A class of the user's script is known to a worker only as a copy, which plain pickle does not find under its name:
    then it is pickled by value, as cloudpickle does, and unpickling returns an equal class.
    """
    try:
        try:
            return pickle.dumps(value, 5)
        except (pickle.PicklingError, AttributeError, TypeError):
            from penstock.pickling import cloudpickling

            pickled: bytes = cloudpickling.dumps(value, 5)
            return pickled
    except Exception as error:
        raise NotPicklableError(f"{type(error).__name__}: {error}") from error


def is_picklable(value: object) -> bool:
    """Whether a value can be pickled."""
    try:
        dumps(value)
    except NotPicklableError:
        return False
    return True


@contextmanager
def for_a_driver() -> Iterator[None]:
    """Let what this thread pickles meanwhile be for another driver: parts that tasks do without go along."""
    before = is_for_a_driver()
    _thread.for_a_driver = True
    try:
        yield
    finally:
        _thread.for_a_driver = before


def is_for_a_driver() -> bool:
    """Whether what is pickled is for another driver, and not for tasks."""
    return getattr(_thread, "for_a_driver", False)

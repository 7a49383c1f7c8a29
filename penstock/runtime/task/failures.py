"""What the driver is told when a subtask fails."""

from __future__ import annotations

import pickle
import traceback

from penstock.common.pickling import dumps
from penstock.errors import PenstockError, suppresses_restarts
from penstock.runtime.network.messages import TaskFailure
from penstock.runtime.task.subtask import Subtask
from penstock.runtime.time.pace import SlotTrace
from penstock.runtime.user_code import UserCodeError, user_traceback


def ended_itself(ending: SystemExit) -> UserCodeError:
    """Return the failure that a call of `sys.exit` in user code is: it would end the worker, and nobody were told why."""
    error = UserCodeError("a function of the program called sys.exit()")
    error.__cause__ = ending
    return error


def describe(error: PenstockError, subtask: Subtask | None, trace: SlotTrace | None) -> TaskFailure:
    """Return what the driver is told about a failure."""
    # Of the user's exception the operator and record are told besides; an error of ours says all by itself.
    wrapped = isinstance(error, UserCodeError) and error.__cause__ is not None
    cause = error.__cause__ if wrapped and error.__cause__ is not None else error
    try:
        pickled = dumps(cause)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001 - exceptions of users may refuse to pickle in any way
        pickled = None
    return TaskFailure(
        task=None if subtask is None else subtask.id,
        message=error.message,
        detail=error.detail if wrapped else None,
        traceback=user_traceback(cause),
        error=pickled,
        operator=getattr(error, "operator_id", None),
        trace=trace,
        all_frames="".join(traceback.format_exception(error)),
        permanent=suppresses_restarts(error),
    )

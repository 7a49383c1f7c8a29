"""Describes failures of subtasks for the driver."""

from __future__ import annotations

import pickle
import traceback

from penstock.errors import PenstockError, suppresses_restarts
from penstock.errors.panics import error_of_panic, is_panic
from penstock.errors.user_errors import FunctionFailedError, UserCodeError, forget_call
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.network.messages import TaskFailure
from penstock.runtime.operators.base import StreamOperator
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.time.decisions import SlotTrace
from penstock.runtime.user_code import user_traceback


def _ended_itself(ending: SystemExit) -> UserCodeError:
    """Return the failure for a call of `sys.exit` in user code, which would otherwise end the worker without a report."""
    error = UserCodeError("user code called sys.exit()")
    error.__cause__ = ending
    return error.with_traceback(ending.__traceback__)


def as_failure(raised: BaseException) -> PenstockError | None:
    """Return the error that fails a subtask; None for exceptions that do not concern the job."""
    if isinstance(raised, PenstockError):
        return raised
    if isinstance(raised, SystemExit):
        return _ended_itself(raised)
    return error_of_panic(raised) if is_panic(raised) else None


def locate(error: BaseException) -> None:
    """Add the operator to a failure of user code, if it is not known yet.

    The caller of a query's function (an expression, an aggregate, a condition) does not know its operator: the stack
    frames do.
    """
    if not isinstance(error, UserCodeError) or error.operator_id is not None:
        return
    if isinstance(error, FunctionFailedError):
        forget_call(error)
    operator = _operator_at_work(error)
    if operator is None:
        return
    where = _name(operator)
    error.detail = f"{error.detail}, {where}" if error.detail else f"in {where}"
    error.operator_id = operator.context.operator_id


def _name(operator: StreamOperator) -> str:
    context = operator.context
    return f"operator '{context.operator_name}', subtask {context.subtask + 1} of {context.parallelism}"


def _operator_at_work(error: BaseException) -> StreamOperator | None:
    found: StreamOperator | None = None
    frame = error.__traceback__
    while frame is not None:
        owner = frame.tb_frame.f_locals.get("self")
        if isinstance(owner, StreamOperator) and hasattr(owner, "context"):
            found = owner  # the innermost one: operators of a chain call each other
        frame = frame.tb_next
    return found


def describe(error: PenstockError, subtask: Subtask | None, trace: SlotTrace | None) -> TaskFailure:
    """Return the description of a failure for the driver."""
    # For exceptions of user code the operator and record are added; Penstock's own errors already contain them.
    wrapped = isinstance(error, UserCodeError) and error.__cause__ is not None
    cause = error.__cause__ if wrapped and error.__cause__ is not None else error
    detail, operator = error.detail if wrapped else None, getattr(error, "operator_id", None)
    if not wrapped and (at_work := _operator_at_work(error)) is not None:
        operator = at_work.context.operator_id
        if f"operator '{at_work.context.operator_name}'" not in str(error):
            detail = f"in {_name(at_work)}"
    try:
        pickled = dumps(cause)
        pickle.loads(pickled)
    except Exception:  # noqa: BLE001 - pickling a user exception may raise anything
        pickled = None
    return TaskFailure(
        task=None if subtask is None else subtask.id,
        message=error.message,
        detail=detail,
        traceback=user_traceback(cause),
        error=pickled,
        operator=operator,
        trace=trace,
        all_frames="".join(traceback.format_exception(error)),
        permanent=suppresses_restarts(error),
    )

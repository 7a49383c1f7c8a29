"""Checkpoints that fail although the job is well: when storage fails, or time runs out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.checkpoint.handles import DamagedStateError
from penstock.errors import CheckpointError, suppresses_restarts


class CheckpointExpiredError(CheckpointError):
    """A checkpoint was not complete in time."""

    @classmethod
    def of(cls, timeout_ms: int) -> CheckpointExpiredError:
        """Return the error of a checkpoint that had so much time."""
        return cls(
            f"the checkpoint was not complete after {timeout_ms} ms",
            hint="raise execution.checkpointing.timeout, or give the job more parallelism",
        )

    @classmethod
    @contextmanager
    def after(cls, timeout_ms: int | None, give_up: Callable[[], None]) -> Iterator[None]:
        """Call `give_up` when the time is over, and raise if the body has not ended before; None: never."""
        if timeout_ms is None:
            yield
            return
        started = time.monotonic()
        timer = threading.Timer(timeout_ms / 1000, give_up)
        timer.daemon = True
        timer.start()
        failure: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 - told apart below
            failure = error
        finally:
            timer.cancel()
        if time.monotonic() - started >= timeout_ms / 1000:
            raise cls.of(timeout_ms) from failure
        if failure is not None:
            raise failure


class CheckpointFailures:
    """Counts failed checkpoints in a row against execution.checkpointing.tolerable-failed-checkpoints.

    In epochs the JobMaster counts: a failure that is tolerated means that the epoch is run again, and the restart strategy is not
    asked. Where tasks stay they go on, and `Checkpoints` counts: to it one that is not tolerated is a failure of the job.
    """

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._in_a_row = 0

    def on_success(self) -> None:
        """Take note of a completed checkpoint."""
        self._in_a_row = 0

    def tolerates(self, cause: BaseException) -> bool:
        """Take note of a failure; return whether the job is to go on as if nothing had happened.

        Only failures of the checkpoint itself are tolerated. What an epoch had processed is processed again in any case: output
        becomes visible with the checkpoint.
        """
        if (
            not isinstance(cause, CheckpointError)
            or isinstance(cause, DamagedStateError)
            or suppresses_restarts(cause)
        ):
            return False
        self._in_a_row += 1
        if self._in_a_row <= self._tolerable:
            return True
        self._in_a_row = 0  # the job restarts, and begins to count anew
        return False

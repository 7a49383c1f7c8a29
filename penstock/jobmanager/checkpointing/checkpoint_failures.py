"""Checkpoints that fail while the tasks are healthy: storage errors and timeouts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.checkpoint.handles import DamagedStateError
from penstock.errors import CheckpointError, suppresses_restarts


class CheckpointExpiredError(CheckpointError):
    """A checkpoint expired before completing."""

    @classmethod
    def of(cls, timeout_ms: int) -> CheckpointExpiredError:
        """Return the error for a checkpoint with this timeout."""
        return cls(
            f"checkpoint expired before completing: timeout of {timeout_ms} ms",
            hint="increase execution.checkpointing.timeout or the parallelism of the job",
        )

    @classmethod
    @contextmanager
    def after(cls, timeout_ms: int | None, give_up: Callable[[], None]) -> Iterator[None]:
        """Call `give_up` after the timeout, and raise if the body has not ended before; None: no timeout."""
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
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        finally:
            timer.cancel()
        if time.monotonic() - started >= timeout_ms / 1000:
            raise cls.of(timeout_ms) from failure
        if failure is not None:
            raise failure


class CheckpointFailures:
    """Counts failed checkpoints in a row against execution.checkpointing.tolerable-failed-checkpoints.

    In epoch mode the JobMaster counts: after a tolerated failure the epoch runs again, without the restart strategy. In pipelined
    mode `Checkpoints` counts: after a tolerated failure tasks continue, any other is a failure of the job.
    """

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._in_a_row = 0

    def on_success(self) -> None:
        """Reset the count after a completed checkpoint."""
        self._in_a_row = 0

    def tolerates(self, cause: BaseException) -> bool:
        """Count a failure; return whether it is tolerated.

        Only failures of the checkpoint itself are tolerated. An epoch's records are processed again in any case: output becomes
        visible with the checkpoint.
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
        self._in_a_row = 0  # the job restarts, and the count starts again
        return False

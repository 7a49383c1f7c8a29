"""Every error that Penstock raises on purpose: a message, a detail, a hint."""

from __future__ import annotations


class PenstockError(Exception):
    """Base of all Penstock errors.

    The message is short, lower case and without a full stop; the detail tells the circumstances; the
    hint tells what to do.
    """

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"detail: {self.detail}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.detail, self.hint)


def _rebuild(
    kind: type[PenstockError], message: str, detail: str | None, hint: str | None
) -> PenstockError:
    return kind(message, detail=detail, hint=hint)


class ArgumentError(PenstockError, ValueError):
    """An argument has a value that cannot work."""


class ArgumentTypeError(PenstockError, TypeError):
    """An argument is of the wrong kind."""


class InvalidProgramError(PenstockError, RuntimeError):
    """The parts of a program do not fit together."""


class UnsupportedOperationError(PenstockError, NotImplementedError):
    """Penstock does not have this feature (yet)."""


class ConfigurationError(PenstockError, ValueError):
    """An option is unknown or has a value that cannot be read."""


class RecordError(PenstockError, RuntimeError):
    """A record could not be read, converted or written."""


class CheckpointError(PenstockError, RuntimeError):
    """A checkpoint could not be written, read or restored."""


class RestoreRefusedError(CheckpointError):
    """A checkpoint or savepoint does not fit the program: trying again would not help."""


class FencedError(CheckpointError):
    """Another driver runs the job, so this one may not work on it. Starting again does not help."""


class JobExecutionError(PenstockError, RuntimeError):
    """A job failed for good. `__cause__` is the user's own exception where it could be carried over."""


class JobInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a job, cleanly. A script that does not catch it ends with the message instead of a traceback."""


class JobCancelledError(PenstockError, RuntimeError):
    """A job was cancelled before it finished."""


class JobRequestError(PenstockError, RuntimeError):
    """A running job could not be reached, or it refused what was asked of it."""

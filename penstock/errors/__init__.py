"""Every error that Penstock raises on purpose: a message, a detail, a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Self

# Polars raises an error of an expression again: an error of the same class, whose text ends with this line and the expression.
POLARS_CONTEXT: Final = "\n\nThis error occurred in the following expression"

_variant_of: Callable[[type[PenstockError]], type[PenstockError]] | None = None


def set_variants(variant_of: Callable[[type[PenstockError]], type[PenstockError]] | None) -> None:
    """Create errors as the subclass that `variant_of` returns for their class, so that they have further base classes (None: stop)."""
    global _variant_of
    _variant_of = variant_of


class PenstockError(Exception):
    """Base of all Penstock errors.

    The message is short, lower case and without a full stop; the detail describes the
    circumstances; the hint says what to do.
    """

    variant_of: type[PenstockError] | None = None  # the class that this variant replaces

    def __new__(cls, *args: object, **_: object) -> Self:
        """Create an error of this class, or of its variant if variants are set."""
        kind: Any = cls
        if _variant_of is not None and cls.variant_of is None:
            kind = _variant_of(cls)
        return super().__new__(kind, *args)  # type: ignore[no-any-return]

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        Exception.__init__(self, message)
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
        kind = type(self)
        return _rebuild, (kind.variant_of or kind, self.message, self.detail, self.hint)


def _rebuild(
    kind: type[PenstockError], message: str, detail: str | None, hint: str | None
) -> PenstockError:
    return kind(message, detail=detail, hint=hint)


class SuppressRestartsError(PenstockError):
    """An error that a restart cannot fix: the job fails at once, whatever its restart strategy. User functions may raise it, too."""


def suppresses_restarts(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, is one that a restart cannot fix.

    >>> suppresses_restarts(ConfigurationError("unknown option")), suppresses_restarts(ValueError("7"))
    (True, False)
    """
    return any(isinstance(each, SuppressRestartsError) for each in causes(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Iterate over an error and its causes. `raise error from error` makes a cycle, so each error is yielded once.

    >>> error = ValueError("7")
    >>> error.__cause__ = error
    >>> list(causes(error))
    [ValueError('7')]
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


class ArgumentError(PenstockError, ValueError):
    """An argument has an invalid value."""


class ArgumentTypeError(PenstockError, TypeError):
    """An argument has the wrong type."""


class InvalidProgramError(SuppressRestartsError, RuntimeError):
    """The parts of a program do not fit together."""


class UnsupportedOperationError(SuppressRestartsError, NotImplementedError):
    """Penstock does not support this feature (yet)."""


class ConfigurationError(SuppressRestartsError, ValueError):
    """An option is unknown or has an invalid value."""


class RecordError(PenstockError, RuntimeError):
    r"""A record could not be read, converted or written.

    An error that Polars raised again gets its own message, detail and hint back.

    >>> error = RecordError("no number\nhint: write one\n\nThis error occurred in the following expression:\n\tcol(0)")
    >>> error.message, error.hint
    ('no number', 'write one')
    """

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        own, behind, _ = message.partition(POLARS_CONTEXT)
        if behind:
            own, _, hint = own.partition("\nhint: ")
            own, _, detail = own.partition("\ndetail: ")
            message, detail, hint = own, detail or None, hint or None
        super().__init__(message, detail=detail, hint=hint)


class MissingTimestampError(RecordError):
    """A record without a timestamp reached an operation that uses event time."""


class FileError(PenstockError, OSError):
    """A file could not be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """A file does not exist."""


class ConnectionFailedError(PenstockError, ConnectionError):
    """An external system cannot be reached, or stopped answering."""


class AccessRefusedError(ConnectionFailedError, SuppressRestartsError):
    """An external system rejects the job: wrong credentials, missing permissions, or an address that belongs to another system."""


class CheckpointError(PenstockError, RuntimeError):
    """A checkpoint could not be written, read or restored."""


class RestoreRefusedError(CheckpointError, SuppressRestartsError):
    """A checkpoint or savepoint does not fit the program; a retry would not help."""


class FencedError(CheckpointError):
    """Another driver runs the job, so this one must not write to its checkpoint directory. A restart does not help."""


class JobExecutionError(PenstockError, RuntimeError):
    """A job failed, and no restart is left. `__cause__` is the user's own exception if it could be pickled.

    `all_frames` is its traceback with Penstock's frames, which the message leaves out.
    """

    all_frames = ""


class JobInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped a job, cleanly. A script that does not catch it ends with the message instead of a traceback."""


class JobCancelledError(PenstockError, RuntimeError):
    """A job was cancelled before it finished."""


class JobSuspendedError(PenstockError, RuntimeError):
    """A job was suspended because this JobManager lost leadership. It continues on the new leader."""


class JobRequestError(PenstockError, RuntimeError):
    """A running job could not be reached, or it rejected a request."""

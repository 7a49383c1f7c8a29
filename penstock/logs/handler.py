"""Creates lines from log records and printed output, in the JobManager and in the processes of tasks.

Neither needs a handler of its own: a program that sets up logging as it likes keeps what it has set up. Its formatters may say
`%(job_id)s`, `%(vertex)s` and `%(subtask)s`.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, TextIO

from penstock.logs.lines import JSON, TEXT, LogLine
from penstock.logs.scope import LogScope, current_scope

Take = Callable[[LogLine], None]

_SCOPE: Final = "penstock_scope"
_inside = threading.local()
# For `extra`: a line for the log only, because the terminal shows the information in another form.
OFF_TERMINAL: Final = {"penstock_off_terminal": True}


class LogRecordFactory:
    """Creates log records with the previous factory, adds their scope, and passes each to all receivers."""

    def __init__(self, before: Callable[..., logging.LogRecord]) -> None:
        self.before = before
        self.takers: dict[str, Take] = {}

    def __call__(self, *arguments: object, **named: object) -> logging.LogRecord:
        """Create a record."""
        record = self.before(*arguments, **named)
        if not arguments or arguments[0] is None:  # of a record that came from elsewhere
            return record
        scope = current_scope()
        setattr(record, _SCOPE, scope)
        record.job_id, record.vertex, record.subtask = scope.job_id, scope.vertex, scope.subtask
        if not getattr(_inside, "yes", False):  # taking a line must not make another
            _inside.yes = True
            try:
                line = LogLine.of(record, scope)
                for take in list(self.takers.values()):
                    take(line)
            except Exception:  # noqa: BLE001 - logging must not fail because a receiver does
                """The error cannot be logged."""
            finally:
                _inside.yes = False
        return record


_installing = threading.Lock()


def take_records(name: str, take: Take) -> None:
    """Hand every record of this process to `take`, from now on; in the place of who took them under this name before.

    Records are taken where they are made: a handler would keep the user's `logging.basicConfig` from working, and warnings from being
    shown without it.
    """
    with _installing:
        factory = logging.getLogRecordFactory()
        if not isinstance(factory, LogRecordFactory):
            factory = LogRecordFactory(factory)
            logging.setLogRecordFactory(factory)
        factory.takers = {**factory.takers, name: take}


class LineFormatter(logging.Formatter):
    """Writes records as lines, as text or as JSON."""

    def __init__(self, form: str = TEXT) -> None:
        super().__init__()
        self.form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        scope: LogScope = getattr(record, _SCOPE, None) or current_scope()
        return LogLine.of(record, scope).in_format(self.form)


class StderrHandler(logging.Handler):
    """Writes lines to what is the standard error stream at the moment."""

    def __init__(self, form: str, level: int | str) -> None:
        super().__init__(level)
        self.setFormatter(LineFormatter(form))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, at once and whole."""
        if getattr(record, "penstock_off_terminal", False):
            return
        stream = getattr(sys.stderr, "beneath", sys.stderr)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the terminal is gone
            stream.write(self.format(record) + "\n")
            stream.flush()


def show_lines(form: str, level: int | str = logging.WARNING) -> None:
    """Show records of a program that sets up no logging as lines; Python would show them without what they are about."""
    logging.lastResort = StderrHandler(form, level)


class PrintedLines(io.TextIOBase):
    """A stream that passes on what is written to it, and makes lines of it."""

    def __init__(self, beneath: TextIO, name: str, take: Take, form: str = TEXT) -> None:
        self.beneath = beneath
        self._name = name
        self.take = take
        self.form = form
        self._begun = ""

    def write(self, text: str) -> int:
        """Write text."""
        if self.form != JSON:
            self.beneath.write(text)
        *whole, self._begun = (self._begun + text).split("\n")
        for each in whole:
            now_ms = int(time.time() * 1000)
            line = LogLine(now_ms, "INFO", self._name, each, current_scope(), self._name)
            self.take(line)
            if self.form == JSON:
                self.beneath.write(line.in_format(JSON) + "\n")
        return len(text)

    def flush(self) -> None:
        """Pass on everything."""
        self.beneath.flush()

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def fileno(self) -> int:
        """Return the number of the file beneath."""
        return self.beneath.fileno()

    def isatty(self) -> bool:
        """Whether the stream beneath is a terminal."""
        return self.beneath.isatty()

    def __getattr__(self, name: str) -> object:
        return getattr(self.beneath, name)


def take_prints(take: Take, form: str) -> None:
    """Make lines of what this process prints, from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, PrintedLines):
            stream.take, stream.form = take, form
        elif stream is not None:
            setattr(sys, name, PrintedLines(stream, name, take, form))

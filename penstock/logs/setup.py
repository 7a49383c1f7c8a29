"""Sets up logging: in the JobManager, and in the processes of tasks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from penstock.logs.handler import show_lines, take_prints, take_records
from penstock.logs.lines import TEXT, LogLine
from penstock.logs.log_buffer import log_book
from penstock.logs.scope import LogScope, set_process_scope
from penstock.logs.sending import LineSender, LogAddress

_FILE_BYTES: Final = 50_000_000
_FILES: Final = 5
# Logs every call between Python and the JVM at INFO, thousands of lines per job.
_PY4J: Final = "py4j"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log settings of a job's tasks. Lines are sent to `address`; without one they stay in the task's process.

    The cluster sets the address if lines are to be `collected`.
    """

    level: str | None = (
        None  # of all loggers; None: INFO for lines that are sent, WARNING for the terminal
    )
    overrides: dict[str, str] = field(default_factory=dict)  # of single loggers, by name
    form: str = TEXT
    collected: bool = True
    address: LogAddress | None = None


class _Worker:
    """The logging of a task's process, which works for one job after another."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sender: LineSender | None = None

    def take(self, line: LogLine) -> None:
        with self.lock:
            if self.sender is not None:
                self.sender.send(line)


_worker = _Worker()


def log_in_task(settings: LogSettings, scope: LogScope, about: Mapping[str, Any]) -> None:
    """Set up the logging of a task's process. `about` describes the process for the JobManager."""
    set_process_scope(scope)
    quieten_py4j()
    with _worker.lock:
        sender = _worker.sender
        if sender is not None and sender.address != settings.address:
            sender.close()
            sender = None
        if sender is None and settings.address is not None:
            sender = LineSender(settings.address, about)
        _worker.sender = sender
    if settings.address is not None:
        take_records("task", _worker.take)
        take_prints(_worker.take, settings.form)
    show_lines(settings.form, settings.level or logging.WARNING)
    usual = "WARNING" if settings.address is None else "INFO"
    logging.getLogger().setLevel(settings.level or usual)
    for name, level in settings.overrides.items():
        logging.getLogger(name).setLevel(level.upper())


def log_in_jobmanager(
    form: str = TEXT, directory: str | None = None, level: int = logging.WARNING
) -> None:
    """Keep the lines of this process in its book, show those of a level with what they are about, write all to files if wanted."""
    quieten_py4j()
    take_records("jobmanager", take_line)
    show_lines(form, level)
    if directory is not None:
        _files.open(directory, form)


def quieten_py4j() -> None:
    """Show only warnings of Py4J, also if all loggers are at INFO. A level that the program has set for Py4J stays.

    A program may also set the level later: this is not done again, once there is a level.
    """
    py4j = logging.getLogger(_PY4J)
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)


def take_line(line: LogLine) -> None:
    """Keep a line, of this process or of a task."""
    log_book().add(line)
    _files.write(line)


class _Files:
    """One file for the JobManager and for every taskmanager; rotated when it grows large."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._directory: Path | None = None
        self._form = TEXT
        self._open: dict[str, RotatingFileHandler] = {}

    def open(self, directory: str, form: str) -> None:
        """Write to this directory from now on."""
        with self._lock:
            self._form = form
            if self._directory != Path(directory):
                self._directory = Path(directory)
                self._directory.mkdir(parents=True, exist_ok=True)
                self._close()

    def write(self, line: LogLine) -> None:
        """Write a line, if there is a directory."""
        with self._lock:
            if self._directory is None:
                return
            place = line.scope.taskmanager
            name = "jobmanager" if place is None else f"taskmanager-{_as_file_name(place)}"
            file = self._open.get(name)
            if file is None:
                file = self._open[name] = RotatingFileHandler(
                    self._directory / f"{name}.log", maxBytes=_FILE_BYTES, backupCount=_FILES
                )
            text = line.in_format(self._form)
        file.handle(logging.makeLogRecord({"msg": "%s", "args": (text,)}))

    def _close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()


def _as_file_name(text: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "_" for each in text)


_files = _Files()

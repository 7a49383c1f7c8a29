"""One line of a log, with the job, the vertex and the subtask that it is about: as text and as JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.logs.scope import LogScope

LONGEST_TEXT: Final = 16_384  # of a message or a traceback, in characters: what is longer is cut
TEXT, JSON = "text", "json"
FORMATS: Final = (TEXT, JSON)
_NO_SCOPE: Final = LogScope()


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log line. `stream` is its origin: a logger, or printed output ("stdout", "stderr")."""

    time_ms: int
    level: str
    logger: str
    message: str
    scope: LogScope = _NO_SCOPE
    stream: str = "log"
    thread: str = ""
    exception: str | None = None

    @classmethod
    def of(cls, record: logging.LogRecord, scope: LogScope) -> LogLine:
        """Create a line from a log record."""
        exception = None
        if record.exc_info and record.exc_info[1] is not None:
            exception = "".join(traceback.format_exception(record.exc_info[1]))
        return cls(
            time_ms=int(record.created * 1000),
            level=record.levelname,
            logger=record.name,
            message=_shortened(_message(record)),
            scope=scope,
            thread=record.threadName or "",
            exception=None if exception is None else _shortened(exception.rstrip()),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the line as JSON values, without what is not known."""
        moment = dt.datetime.fromtimestamp(self.time_ms / 1000, dt.UTC)
        known = {
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": self.level,
            "logger": self.logger,
            "message": self.message,
            **self.scope.to_json(),
            "stream": None if self.stream == "log" else self.stream,
            "thread": self.thread or None,
            "exception": self.exception,
        }
        return {name: value for name, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogLine:
        """Return the line that became these JSON values; raises ValueError or KeyError if they are of no line."""
        moment = dt.datetime.fromisoformat(str(data["timestamp"]))
        return cls(
            time_ms=round(moment.timestamp() * 1000),
            level=str(data["level"]),
            logger=str(data["logger"]),
            message=_shortened(str(data["message"])),
            scope=LogScope.from_json(data),
            stream=str(data.get("stream") or "log"),
            thread=str(data.get("thread") or ""),
            exception=None if data.get("exception") is None else _shortened(data["exception"]),
        )

    def in_format(self, form: str) -> str:
        """Return the line as it is shown: one JSON object, or text, which has more lines if the message has."""
        if form == JSON:
            return json.dumps(self.to_json(), ensure_ascii=False)
        moment = dt.datetime.fromtimestamp(self.time_ms / 1000).astimezone()
        stamp = f"{moment:%Y-%m-%d %H:%M:%S},{self.time_ms % 1000:03}"
        where = str(self.scope)
        head = f"{stamp} {self.level:<7} {self.logger}{f' [{where}]' if where else ''} - "
        return head + self.message + (f"\n{self.exception}" if self.exception else "")

    def at(self, taskmanager: str, process: int) -> LogLine:
        """Return the line with the place that it came from."""
        scope = dataclasses.replace(self.scope, taskmanager=taskmanager, process=process)
        return dataclasses.replace(self, scope=scope)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - whatever a value's text raises, the line must not be lost
        return f"{record.msg!r} % {len(record.args or ())} values"


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({len(text) - LONGEST_TEXT} characters left out)"

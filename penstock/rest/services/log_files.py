"""The log lines of this process and of its tasks, as the log files of Flink's REST API."""

from __future__ import annotations

from typing import Final

from penstock.logs.lines import TEXT
from penstock.logs.log_buffer import LogEntry, log_book
from penstock.rest.flink_json.taskmanagers import LogInfo, LogList
from penstock.rest.messages import Response

_LONGEST: Final = 5_000_000  # the last characters of a log that are sent


def lines_of(source: str, *, printed: bool = False) -> list[LogEntry]:
    """Return the lines that a process has logged, or printed."""
    return log_book().entries(
        lambda entry: entry.source == source and (entry.line.stream != "log") is printed
    )


def log_text(source: str, *, printed: bool = False) -> Response:
    """Return the last lines of a log, as text."""
    text = "".join(f"{entry.line.in_format(TEXT)}\n" for entry in lines_of(source, printed=printed))
    if len(text) > _LONGEST:
        text = text[text.index("\n", len(text) - _LONGEST) + 1 :]
    return Response(text, media_type="text/plain; charset=UTF-8")


def log_list(source: str, log: str, printed: str) -> LogList:
    """Return the names, sizes and modification times of the logs of a process."""
    found = []
    for name, is_printed in ((log, False), (printed, True)):
        entries = lines_of(source, printed=is_printed)
        size = sum(len(entry.line.in_format(TEXT)) + 1 for entry in entries)
        changed = entries[-1].line.time_ms if entries else 0
        found.append(LogInfo(name, size, changed))
    return LogList(found)

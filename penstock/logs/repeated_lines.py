"""Log lines that come again and again: the first one is logged, then how many there were, now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

EVERY_S: Final = 60.0
_KINDS: Final = 1000


@dataclass(frozen=True, slots=True)
class LogLineKind:
    """The content of a log line: lines of the same kind are equal, and one may represent several."""

    kind: Hashable
    text: str
    level: int
    times: int = 1


def read_line(record: logging.LogRecord) -> LogLineKind:
    """Return a line as it is."""
    text = record.getMessage()
    return LogLineKind(text, text, record.levelno)


class RepeatedLineFilter(logging.Filter):
    """Lets a line through if none of its kind was logged for `every_s` seconds, with the number of those that were left out.

    It is a filter of one logger, not of those below it.
    """

    def __init__(
        self,
        read: Callable[[logging.LogRecord], LogLineKind] = read_line,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._read = read
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        # by kind: when a line was logged, and how many were left out since then
        self._logged: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a line, which then includes the number of suppressed ones."""
        line, now = self._read(record), self._clock()
        with self._lock:
            logged_at, left_out = self._logged.get(line.kind, (None, 0))
            left_out += line.times
            if logged_at is not None and now < logged_at + self._every_s:
                self._logged[line.kind] = (logged_at, left_out)
                return False
            self._logged.pop(line.kind, None)  # the others are older
            self._logged[line.kind] = (now, 0)
            if len(self._logged) > _KINDS:
                del self._logged[next(iter(self._logged))]
        record.levelno, record.levelname = line.level, logging.getLevelName(line.level)
        record.msg, record.args = "%s", (line.text,)
        if logged_at is not None and left_out > 1:
            record.msg = "%s (%d times in the last %.0f s)"
            record.args = (line.text, left_out, now - logged_at)
        return True

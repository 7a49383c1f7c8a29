"""The order in which a subtask that stays was called: what it took from which channel, and what happened in between.

Records come in batches whose borders depend on time, so a call with records notes how many there were: whoever calls again cuts the
sender's records in the same places. Watermarks and statuses are noted with what they said. Nothing else of the input is noted.

A call costs 0.2 µs to note. What was noted is packed beside the processing, with the rest of a checkpoint.
"""

from __future__ import annotations

import enum
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

MAX_CALLS: Final = (
    1_000_000  # of one subtask between two checkpoints: 16 MB; what comes after them is not noted
)
_KINDS: Final = 16  # kinds of calls, and the factor of the channel in a code


class Call(enum.IntEnum):
    """What a subtask was called for. Its value is the lower part of a noted code."""

    RECORDS = 0  # so many of a channel
    WATERMARK = 1  # of a channel
    STATUS = 2  # of a channel: 1 is idle
    END = 3  # of a channel
    TIME = 4  # advance_processing_time, so many times in a row
    POLL = 5  # of its source, so many times in a row
    WAKEUP = 6  # of the operator at this position
    QUIET = 7  # so many times in a row
    SPLITS = 8  # more of them for its source: the number of a value that is kept beside
    FINISH = 9
    BARRIER = 10  # of the checkpoint with this number
    COMPLETED = 11  # of the checkpoint with this number
    DRAIN = 12


_REPEATED: Final = (Call.TIME, Call.POLL, Call.QUIET)


class Noted(NamedTuple):
    """One call. `channel` is the number of an input channel, in the order of the gates; 0 where it has no meaning."""

    call: Call
    channel: int
    value: int


@dataclass(frozen=True, slots=True)
class PackedCalls:
    """Calls in few bytes, and the values that do not fit a number. `cut` says that more of them came unnoted."""

    data: bytes = b""
    values: tuple[Any, ...] = ()
    cut: bool = False

    def __iter__(self) -> Iterator[Noted]:
        if not self.data:
            return
        flat = array("q", zlib.decompress(self.data))
        for code, value in zip(flat[::2], flat[1::2], strict=True):
            yield Noted(Call(code % _KINDS), code // _KINDS, value)


class CallLog:
    """Notes the calls of one subtask."""

    __slots__ = ("_last", "_noted", "_values", "cut")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._noted: array[int] = array("q")
        self._values: list[Any] = []
        self._last = -1  # the code of the last call, if it may be repeated
        self.cut = False

    def note(self, call: Call, value: int = 1, channel: int = 0) -> None:
        """Note a call that comes now. Calls that say nothing but that they were made are counted."""
        code = call + _KINDS * channel
        if code == self._last:
            self._noted[-1] += value
            return
        if len(self._noted) >= 2 * MAX_CALLS:
            self.cut = True
            return
        self._last = code if call in _REPEATED else -1
        self._noted.extend((code, value))

    def records(self, channel: int, count: int) -> None:
        """Note that records of a channel are taken now."""
        noted = self._noted
        if len(noted) >= 2 * MAX_CALLS:
            self.cut = True
            return
        self._last = -1
        noted.append(_KINDS * channel)
        noted.append(count)

    def keep(self, call: Call, value: Any) -> None:
        """Note a call with a value that is no number."""
        self.note(call, len(self._values))
        self._values.append(value)

    def take(self) -> CallLog:
        """Return what was noted so far, and begin anew."""
        taken = CallLog()
        taken._noted, taken._values, taken.cut = self._noted, self._values, self.cut
        self._begin()
        return taken

    def pack(self) -> PackedCalls:
        """Return what was noted; at any time, by any thread, of a log that was taken."""
        data = zlib.compress(self._noted.tobytes(), 1) if self._noted else b""
        return PackedCalls(data, tuple(self._values), self.cut)


def joined(parts: Sequence[PackedCalls]) -> list[tuple[Noted, Any]]:
    """Return the calls of several logs, one after the other, each with its value if that is no number."""
    return [
        (noted, part.values[noted.value] if noted.call is Call.SPLITS else None)
        for part in parts
        for noted in part
    ]

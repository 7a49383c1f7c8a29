"""What travels between two slots: messages of one frame of headers and one frame for each content.

A message begins with the sending slot, the number of the message on this connection, and a checksum of all headers. A header
has the channel, the kind, the length and checksum of the content, and how many records that is. A credit is a header without content: it has
the limits in place of the length and the records, and the window in place of the checksum. Messages of a connection are numbered without a gap, so what is lost is known with the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from penstock.errors import PenstockError
from penstock.runtime.network.channels import ChannelId

_MAGIC: Final = 0x50_53_4B_31
_MESSAGE: Final = Struct("<IIQI")  # magic, slot, number, checksum of the headers
# channel, kind, flags, checksum or window, length or limit, records or their limit
_HEADER: Final = Struct("<16sHHIQQ")
_CHANNEL: Final = Struct("<IIII")

CREDIT: Final = 0xFF  # a kind that only the network knows
OVERTAKES: Final = 1  # a flag: it goes before all that waits at the receiving end


class ChannelError(PenstockError, RuntimeError):
    """What arrived over a connection is not what was sent, or the connection is lost: the task cannot go on."""


class Entry(NamedTuple):
    """One header of a message, and its content; a credit has none."""

    channel: bytes
    kind: int
    overtakes: bool
    content: bytes
    records: int = 0  # in the content; of a credit the limit
    limit: int = 0  # of a credit, in bytes
    window: int = 0  # of a credit, in records


def channel_key(channel: ChannelId) -> bytes:
    """Return a channel as headers have it."""
    return _CHANNEL.pack(*channel)


def channel_of(key: bytes) -> ChannelId:
    """Return the channel that a header names."""
    return ChannelId(*_CHANNEL.unpack(key))


def item_header(key: bytes, kind: int, content: bytes, flags: int = 0, records: int = 0) -> bytes:
    """Return the header of records or a control message."""
    return _HEADER.pack(key, kind, flags, crc32(content), len(content), records)


def credit_header(key: bytes, limit: int, records: int, window: int) -> bytes:
    """Return the header that tells a channel's sender how many bytes and records it may have sent, and the window in records."""
    return _HEADER.pack(key, CREDIT, 0, window, limit, records)


def message(
    slot: int, number: int, headers: Sequence[bytes], contents: Sequence[bytes]
) -> list[bytes]:
    """Return the frames of a message."""
    body = b"".join(headers)
    return [_MESSAGE.pack(_MAGIC, slot, number, crc32(body)) + body, *contents]


def read_origin(frame: bytes) -> tuple[int, int]:
    """Check a message's first frame; return the slot that sent it, and the message's number."""
    if len(frame) < _MESSAGE.size or (len(frame) - _MESSAGE.size) % _HEADER.size:
        raise _damaged("the headers have an impossible length", len(frame))
    magic, slot, number, checksum = _MESSAGE.unpack_from(frame)
    if magic != _MAGIC:
        raise _damaged("it does not begin as messages do", magic)
    if crc32(memoryview(frame)[_MESSAGE.size :]) != checksum:
        raise _damaged("the checksum of the headers is wrong", checksum)
    return slot, number


def read_entries(frames: Sequence[bytes]) -> Iterator[Entry]:
    """Yield the entries of a message whose first frame was checked; each content is checked, too."""
    contents = iter(frames[1:])
    headers = _HEADER.iter_unpack(frames[0][_MESSAGE.size :])
    for key, kind, flags, checksum, length, records in headers:
        if kind == CREDIT:
            yield Entry(key, kind, False, b"", records, length, checksum)
            continue
        content = next(contents, None)
        if content is None or len(content) != length:
            raise _damaged("a content does not have its length", length)
        if crc32(content) != checksum:
            raise _damaged(f"the checksum of a content is wrong, {channel_of(key)}", checksum)
        yield Entry(key, kind, bool(flags & OVERTAKES), content, records)
    if next(contents, None) is not None:
        raise _damaged("it has a content without a header", len(frames))


def _damaged(why: str, value: int) -> ChannelError:
    return ChannelError("a message between slots is damaged", detail=f"{why} ({value})")

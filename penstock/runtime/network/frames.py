"""The wire format between two slots: messages with one frame of headers and one frame per content.

A message begins with the sending slot, the number of the message on this connection, and a checksum of all headers. A
header has the channel, the kind, the length and checksum of the content, and its number of records. A credit is a header
without content: it has the limits in place of the length and the records, and the window in place of the checksum.
Messages of a connection are numbered consecutively, so a lost message is detected with the next one.
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

CREDIT: Final = 0xFF  # a kind used by the network only
OVERTAKES: Final = 1  # a flag: it overtakes everything queued at the receiver


class TransportError(PenstockError, RuntimeError):
    """Data from a connection is corrupt or the connection was lost: the task cannot continue."""


class FrameEntry(NamedTuple):
    """One header of a message, and its content; a credit has none."""

    channel: bytes
    kind: int
    overtakes: bool
    content: bytes
    records: int = 0  # in the content; of a credit the limit
    limit: int = 0  # of a credit, in bytes
    window: int = 0  # of a credit, in records


def channel_key(channel: ChannelId) -> bytes:
    """Return the key of a channel in headers."""
    return _CHANNEL.pack(*channel)


def channel_of(key: bytes) -> ChannelId:
    """Return the channel of a header key."""
    return ChannelId(*_CHANNEL.unpack(key))


def item_header(key: bytes, kind: int, content: bytes, flags: int = 0, records: int = 0) -> bytes:
    """Return the header of records or a control message."""
    return _HEADER.pack(key, kind, flags, crc32(content), len(content), records)


def credit_header(key: bytes, limit: int, records: int, window: int) -> bytes:
    """Return the header that grants credit to a channel's sender: its limits in bytes and records, and the window in records."""
    return _HEADER.pack(key, CREDIT, 0, window, limit, records)


def message(
    slot: int, number: int, headers: Sequence[bytes], contents: Sequence[bytes]
) -> list[bytes]:
    """Return the frames of a message."""
    body = b"".join(headers)
    return [_MESSAGE.pack(_MAGIC, slot, number, crc32(body)) + body, *contents]


def read_origin(frame: bytes) -> tuple[int, int]:
    """Verify a message's first frame; return the sending slot and the message number."""
    if len(frame) < _MESSAGE.size or (len(frame) - _MESSAGE.size) % _HEADER.size:
        raise _damaged("invalid length of the headers", len(frame))
    magic, slot, number, checksum = _MESSAGE.unpack_from(frame)
    if magic != _MAGIC:
        raise _damaged("invalid magic number", magic)
    if crc32(memoryview(frame)[_MESSAGE.size :]) != checksum:
        raise _damaged("wrong checksum of the headers", checksum)
    return slot, number


def read_entries(frames: Sequence[bytes]) -> Iterator[FrameEntry]:
    """Yield the entries of a message whose first frame was verified; each content is verified, too."""
    contents = iter(frames[1:])
    headers = _HEADER.iter_unpack(frames[0][_MESSAGE.size :])
    for key, kind, flags, checksum, length, records in headers:
        if kind == CREDIT:
            yield FrameEntry(key, kind, False, b"", records, length, checksum)
            continue
        content = next(contents, None)
        if content is None or len(content) != length:
            raise _damaged("wrong length of a content", length)
        if crc32(content) != checksum:
            raise _damaged(f"wrong checksum of a content, {channel_of(key)}", checksum)
        yield FrameEntry(key, kind, bool(flags & OVERTAKES), content, records)
    if next(contents, None) is not None:
        raise _damaged("content without a header", len(frames))


def _damaged(why: str, value: int) -> TransportError:
    return TransportError("received a corrupt message from another slot", detail=f"{why} ({value})")

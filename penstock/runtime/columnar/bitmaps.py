"""Bitmaps, as columns hold them: sets of integers of 32 bits in the portable format of RoaringBitmap.

Columns hold a canonical encoding, so that bitmaps are equal if their bytes are. Numbers are unsigned in a bitmap: -1 is 4294967295.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pyroaring import BitMap

from penstock.errors import RecordError

_WITH_RUNS = b";0"
_WITHOUT_RUNS = b":0\0\0"
_LONGEST_ARRAY = 4096  # a container of more numbers is a field of 65536 bits
_FIELD = 8192
_WITHOUT_OFFSETS = 4  # with fewer containers, some of them runs, there is no offset table
_UNSIGNED = 0xFFFFFFFF


def read(data: bytes) -> Any:
    """Return the bitmap of a column's value."""
    return BitMap.deserialize(data)


def written(bitmap: Any) -> bytes:
    """Return a bitmap as a column's value.

    >>> written(BitMap(range(1, 4))) == written(BitMap([3, 1, 2]))
    True
    """
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return _settled(data) if data.startswith(_WITH_RUNS) else data


def normal(data: bytes) -> bytes:
    """Return bytes from any source in canonical form; RecordError if they are not a bitmap."""
    try:
        bitmap = BitMap.deserialize(bytes(data))
    except (ValueError, IndexError) as error:
        raise RecordError(
            "not a serialized bitmap",
            detail=f"{len(data)} bytes: {error}",
            hint="use the portable RoaringBitmap format with 32-bit values",
        ) from None
    return written(bitmap)


def of_numbers(numbers: Iterable[int | None]) -> object:
    """Return the bitmap of integers; NULLs are left out."""
    return BitMap([each & _UNSIGNED for each in numbers if each is not None])


def numbers_of(data: bytes) -> list[int]:
    """Return the integers of a bitmap, signed, in the order of the unsigned ones.

    >>> numbers_of(written(of_numbers([-1, 5])))
    [5, -1]
    """
    return [each - 2**32 if each >= 2**31 else each for each in read(data)]


def text_of(data: bytes) -> str:
    """Return a bitmap as text.

    >>> text_of(written(of_numbers([-1, 5])))
    '{5,4294967295}'
    """
    return f"{{{','.join(map(str, read(data)))}}}"


def _settled(data: bytes) -> bytes:
    """Return the bytes of containers, each in the smallest form. If an array and runs have the same size, the array is chosen, so that the encoding is canonical."""
    containers = list(_containers(data))
    return _assembled(containers) if any(each.changed for each in containers) else data


class _Container(NamedTuple):
    key: int  # the upper half of its numbers
    size: int  # how many numbers it has
    runs: bool
    body: bytes
    changed: bool = False


def _containers(data: bytes) -> Iterator[_Container]:
    count = struct.unpack_from("<H", data, 2)[0] + 1
    flags = int.from_bytes(data[4 : 4 + (count + 7) // 8], "little")
    place = 4 + (count + 7) // 8
    heads = struct.unpack_from(f"<{2 * count}H", data, place)
    place += 4 * count * (1 if count < _WITHOUT_OFFSETS else 2)
    for index in range(count):
        key, size = heads[2 * index], heads[2 * index + 1] + 1
        runs = bool(flags >> index & 1)
        if runs:
            length = 2 + 4 * struct.unpack_from("<H", data, place)[0]
        else:
            length = 2 * size if size <= _LONGEST_ARRAY else _FIELD
        body = data[place : place + length]
        place += length
        if runs and length == 2 * size:
            yield _Container(key, size, False, _expanded(body), changed=True)
        else:
            yield _Container(key, size, runs, body)


def _expanded(runs: bytes) -> bytes:
    pairs = struct.unpack_from(f"<{(len(runs) - 2) // 2}H", runs, 2)
    numbers = [
        number
        for start, more in zip(pairs[::2], pairs[1::2], strict=True)
        for number in range(start, start + more + 1)
    ]
    return struct.pack(f"<{len(numbers)}H", *numbers)


def _assembled(containers: Sequence[_Container]) -> bytes:
    count = len(containers)
    flags = sum(1 << at for at, each in enumerate(containers) if each.runs)
    if flags:
        head = (
            _WITH_RUNS + struct.pack("<H", count - 1) + flags.to_bytes((count + 7) // 8, "little")
        )
    else:
        head = _WITHOUT_RUNS + struct.pack("<I", count)
    for each in containers:
        head += struct.pack("<HH", each.key, each.size - 1)
    if not flags or count >= _WITHOUT_OFFSETS:
        place = len(head) + 4 * count
        for each in containers:
            head += struct.pack("<I", place)
            place += len(each.body)
    return head + b"".join(each.body for each in containers)

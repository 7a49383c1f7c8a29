"""Operator ids: the names of operators in checkpoints.

A `uid` determines the id directly. Without one the id is derived from the operator's position: its kind, the outputs it reads,
and its number among otherwise equal operators. Names, parallelism, partitioning and chaining do not matter, so renaming,
rescaling and re-chaining keep the state. The names of spec classes do: renaming one breaks checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from penstock.errors import ArgumentError

_UID_HASH = re.compile(r"[0-9a-fA-F]{32}")


def _digest(*parts: object) -> str:
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def id_of_uid(uid: str) -> str:
    """Return the operator id of a user's uid: 32 hexadecimal digits.

    >>> id_of_uid("totals") == id_of_uid("totals") != id_of_uid("counts")
    True
    """
    return _digest("uid", uid)


def check_uid_hash(uid_hash: str) -> str:
    """Return a uid hash unchanged; reject it if it is not 32 hexadecimal digits."""
    if not _UID_HASH.fullmatch(uid_hash):
        raise ArgumentError(
            f"invalid uid hash {uid_hash!r}: it must have 32 hexadecimal digits",
            hint="use uid() for names of your own; uid hashes are copied from logs and checkpoints",
        )
    return uid_hash


class PositionIds:
    """Assigns ids by position. Call it in the order in which the program is traversed."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def next_id(self, kind: str, spec: str, inputs: Iterable[tuple[int, str, str | None]]) -> str:
        """Return the id of the next operator.

        `inputs` are (input index, operator id of the producer, side tag). The counter distinguishes siblings: two maps of
        one stream are
        the first and the second.
        """
        position = _digest("position", kind, spec, [list(entry) for entry in inputs])
        index = self._seen.get(position, 0)
        self._seen[position] = index + 1
        return _digest("operator", position, index)

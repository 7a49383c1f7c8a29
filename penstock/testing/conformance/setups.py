"""What the kit has to know of a connector: how to make it, how to feed it, how to see what it shows."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from penstock.common.user_types import Record
from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Source


class Guarantee(enum.Enum):
    """What a sink promises.

    AT_LEAST_ONCE: nothing is lost. EXACTLY_ONCE: what is shown is, at every moment, what checkpoints have committed, each record once.
    IDEMPOTENT: what comes twice changes nothing (an upsert by key), but it may show before the checkpoint.
    """

    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"
    IDEMPOTENT = "idempotent"


class Setup(ABC):  # noqa: B024 - the two kinds have different ones
    """Base of both kinds. Each rule gets a new one, with nothing in it."""

    # The connector's system is in the memory of this process, so no other process can resume with it.
    in_process = False
    # How long anything may take.
    wait_s = 60.0

    def record(self, number: int) -> Any:
        """Return the record of this number. All are different; the same number is the same record."""
        return f"record {number}"

    def big_record(self) -> Any:
        """Return a record of about a megabyte, or None if there are none."""
        return "x" * 1_000_000

    def identity(self, record: Record) -> Hashable:
        """Return the identity of a record, if records cannot be compared directly."""
        return record if isinstance(record, Hashable) else repr(record)

    def wrong_arguments(self) -> Sequence[Callable[[], Any]]:
        """Return calls that must be refused at once, each with a ValueError or TypeError."""
        return ()

    def close(self) -> None:
        """Release resources."""


class SourceSetup(Setup):
    """How to make a source over given records.

    `bounded`: the source ends by itself. `appends`: records may be added while it is read.
    """

    bounded = True
    appends = False
    # Whether it can be made over no records at all.
    may_be_empty = True

    @abstractmethod
    def create(self) -> Source:
        """Make the source; it reads everything that was added, from the beginning."""

    @abstractmethod
    def add(self, records: Sequence[Any]) -> None:
        """Put records where the source reads; over several splits, if it can have several."""

    def add_malformed(self) -> str:
        """Add a malformed record; return a part of the expected error message.

        Leave this out if there are none.
        """
        raise NotImplementedError


class SinkSetup(Setup):
    """How to make a sink, and how to see what it shows to others."""

    guarantee = Guarantee.EXACTLY_ONCE

    @abstractmethod
    def create(self) -> Sink:
        """Make the sink. It is called more than once: all write to the same place."""

    def create_for_other_job(self) -> Sink:
        """Create a sink of another job that writes to the same place, if it needs another identity besides its job."""
        return self.create()

    @abstractmethod
    def shown(self) -> Sequence[Any]:
        """Return all records that a reader sees now, from the beginning: a reader of its own, not the sink's memory."""

    def left_over(self) -> Sequence[Any]:
        """Return what lies about and is not shown: hidden files, open or prepared transactions."""
        return ()

    def unwritable(self) -> Any:
        """Return a value that the sink cannot write; None if it can write everything."""
        return None

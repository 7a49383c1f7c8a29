"""Connectors with a tap: every call of the contract goes through it, may be counted, and fails on command.

A tapped connector is pickled to tasks; its tap is found again by its name in the same process.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.common.user_types import Position
from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.base.source import (
    NonBlockingReadLimits,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)

_PAUSE_S = 0.002
_AT_ONCE_S = 0.005  # an empty split is read after 10 ms if its reader announces nothing
_ATTRIBUTES = frozenset(
    {"backlog_unit", "reserved_slots"}
)  # of the contracts; the rest are methods
_taps: dict[str, Tap] = {}
_AT_THE_START = frozenset(
    {
        "source.create_enumerator",
        "enumerator.snapshot",
        "sink.create_committer",
        "committer.clean_up",
    }
)


class InjectedError(RuntimeError):
    """Raised by a tap in place of the connector."""


@dataclass
class Tap:
    """Counts calls, by what they are called on and their name: "reader.read", "committer.commit".

    `strikes` has, for "before reader.read" or "after committer.commit", the numbers of the calls that fail. `allowance` is how many
    records readers may give altogether, and `pause_s` passes before each batch of up to `batch_size`.
    """

    name: str
    strikes: Mapping[str, frozenset[int]] = field(default_factory=dict)
    allowance: float = float("inf")
    pause_s: float = 0.0
    batch_size: int | None = None
    calls: Counter[str] = field(default_factory=Counter)
    struck: list[str] = field(default_factory=list)
    given: int = 0
    #: By split: how often in a row its reader has announced records for the next milliseconds, and had none.
    announced: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        _taps[self.name] = self

    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Return what the connector returns, or fail before or after it has done it."""
        number = self.count(what)
        self.strike(f"before {what}", number)
        result = function()
        self.strike(f"after {what}", number)
        return result

    def count(self, what: str) -> int:
        """Return the number of this call."""
        with self._lock:
            self.calls[what] += 1
            return self.calls[what]

    def strike(self, moment: str, number: int) -> None:
        """Fail if the moment has come."""
        if number in self.strikes.get(moment, ()):
            with self._lock:
                self.struck.append(f"{moment}, call {number}")
            raise InjectedError(f"injected {moment}, call {number}")

    def take(self, count: int) -> bool:
        """Take records out of the allowance, if there are any left."""
        with self._lock:
            if self.given >= self.allowance:
                return False
            self.given += count
            return True

    def close(self) -> None:
        """Forget the tap."""
        _taps.pop(self.name, None)


def injected_failures(call: str) -> dict[str, frozenset[int]]:
    """Return failures before and after some calls.

    What the driver calls when a program starts is not tried again: the user sees it. Of such calls those after a restart fail.
    """
    if call in _AT_THE_START:
        restarts = frozenset({3, 5, 7, 9})
        more = {"before reader.batch": restarts, "before writer.write": restarts}
        return {f"before {call}": frozenset({4}), f"after {call}": frozenset({6}), **more}
    return {f"before {call}": frozenset({1, 4}), f"after {call}": frozenset({2, 6})}


class _Tapped:
    """The half of a tapped object that is not the contract: what it stands for, and its tap."""

    role = ""

    def __init__(self, inner: Any, tap: str) -> None:
        self._inner = inner
        self._tap = tap
        for name in _ATTRIBUTES & set(dir(inner)):
            setattr(self, name, getattr(inner, name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def _call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        method = getattr(self._inner, name)
        # An enumerator that takes over from another one knows its own kind.
        arguments = tuple(map(_bare, arguments))
        tap = _taps.get(self._tap)
        if tap is None:  # a task that outlives its rule
            return method(*arguments, **options)
        return tap.call(f"{self.role}.{name}", lambda: method(*arguments, **options))


def _bare(value: Any) -> Any:
    return value._inner if isinstance(value, _Tapped) else value  # noqa: SLF001 - our own class


def _contract(base: type, role: str, **own: Any) -> Any:
    """Make the class that passes on every method of a contract, also those that it gets one day."""
    names = [
        name
        for name in dir(base)
        if not name.startswith("_") and name not in {"get_java_function", *_ATTRIBUTES}
    ]
    methods = {
        name: _passing_on(name) if callable(getattr(base, name)) else _attribute(name)
        for name in names
    }
    return type(f"Tapped{base.__name__}", (_Tapped, base), {**methods, "role": role, **own})


def _passing_on(name: str) -> Callable[..., Any]:
    def method(self: _Tapped, *arguments: Any, **options: Any) -> Any:
        return self._call(name, arguments, options)

    method.__name__ = name
    return method


def _attribute(name: str) -> Any:
    return property(lambda self: getattr(self._inner, name))


def _read(
    self: _Tapped, split: SourceSplit, position: Position, limits: ReadLimits
) -> Iterator[SourceBatch]:
    tap = _taps.get(self._tap)
    if tap is None:
        yield from self._inner.read(split, position, limits)
        return
    tap.strike("before reader.read", tap.count("reader.read"))
    if tap.batch_size is not None:
        small = tap.batch_size
        looks = isinstance(limits, NonBlockingReadLimits)
        limits = NonBlockingReadLimits(small) if looks else ReadLimits(limits.deadline, small)
    for batch in self._inner.read(split, position, limits):
        if tap.pause_s:
            time.sleep(tap.pause_s)
        while not tap.take(len(batch.records)):
            time.sleep(_PAUSE_S)
            yield SourceBatch([], position)  # not yet
        number = tap.count("reader.batch")
        if len(batch.records):
            tap.announced[split.split_id] = 0
        tap.strike("before reader.batch", number)
        yield batch
        position = batch.position
        tap.strike("after reader.batch", number)
    tap.strike("after reader.read", tap.calls["reader.read"])


def _next_ready(self: _Tapped, split: SourceSplit, position: Position) -> float | None:
    ready: float | None = self._call("next_ready", (split, position), {})
    tap = _taps.get(self._tap)
    if tap is not None:
        at_once = ready is not None and ready < _AT_ONCE_S
        tap.announced[split.split_id] = tap.announced[split.split_id] + 1 if at_once else 0
    return ready


# Pickled by name: each is called what its class is called.
TappedSourceReader = _contract(SourceReader, "reader", read=_read, next_ready=_next_ready)
TappedSplitEnumerator = _contract(SplitEnumerator, "enumerator")
TappedSinkWriter = _contract(SinkWriter, "writer")
TappedCommitter = _contract(Committer, "committer")


def _create(name: str, kind: Any) -> Callable[..., Any]:
    def create(self: _Tapped, *arguments: Any, **options: Any) -> Any:
        made = self._call(name, arguments, options)
        return None if made is None else kind(made, self._tap)

    return create


def _tapped(sink: Sink, tap: str) -> Any:
    return TappedSink(sink, tap)


TappedSource = _contract(
    Source,
    "source",
    create_reader=_create("create_reader", TappedSourceReader),
    create_enumerator=_create("create_enumerator", TappedSplitEnumerator),
)
TappedSink = _contract(
    Sink,
    "sink",
    create_writer=_create("create_writer", TappedSinkWriter),
    create_committer=_create("create_committer", TappedCommitter),
    for_type=_create("for_type", _tapped),
)


def tapped_source(source: Source, tap: Tap) -> Source:
    """Return a source all of whose calls go through a tap."""
    return cast("Source", TappedSource(source, tap.name))


def tapped_sink(sink: Sink, tap: Tap) -> Sink:
    """Return a sink all of whose calls go through a tap."""
    return cast("Sink", TappedSink(sink, tap.name))

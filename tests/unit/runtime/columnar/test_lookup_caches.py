"""Tables that are looked up: read whole, or remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from penstock.connectors.base.frames import FrameSource
from penstock.errors import ConfigurationError
from penstock.graph.operator_specs.columnar.joins import LookupJoinSpec
from penstock.sql.connector.lookups import (
    CACHE_OPTIONS,
    CachedLookup,
    LoadedLookup,
    remembered,
)
from penstock.sql.connector.options import checked
from penstock.sql.expr.nodes import InputRef
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.join_cases import Stopped

TYPES = (DataTypes.BIGINT(), DataTypes.STRING())


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _loaded(clock: Clock, reload_ms: int | None = None) -> LoadedLookup:
    frame = pl.DataFrame({"k": [1, 2, 2, None], "v": ["one", "two", "zwei", "none"]})
    return LoadedLookup(FrameSource(frame, 2), ["k", "v"], TYPES, [0], reload_ms, clock)


def test_a_table_that_was_read_whole_answers_by_key_and_in_columns() -> None:
    lookup = _loaded(Clock())
    lookup.open(None)
    assert list(lookup.lookup([(2,), (9,)])) == [[(2, "two"), (2, "zwei")], ()]
    running = Stopped(
        LookupJoinSpec(
            "LEFT",
            (DataTypes.INT(),),
            TYPES,
            _loaded(Clock()),
            ((InputRef(DataTypes.INT(), 0), 0),),
        ),
        "hashmap",
    )
    running.send([(2,), (None,), (9,), (1,)], (DataTypes.INT(),))
    assert [row for _, row in running.changes()] == [
        (2, 2, "two"),
        (2, 2, "zwei"),
        (None, None, None),
        (9, None, None),
        (1, 1, "one"),
    ]


def test_a_table_is_read_again_after_some_time() -> None:
    clock = Clock()
    lookup = _loaded(clock, reload_ms=1000)
    lookup.open(None)
    first = lookup.frame()
    clock.now = 0.9
    assert lookup.frame() is first
    clock.now = 1.0
    assert lookup.frame() is not first


class Reloaded:
    """A table that is read whole, and is another one later."""

    def open(self, context: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, *rows: tuple[int, str]) -> None:
        self._frame = pl.DataFrame(
            list(rows), schema={"c0": pl.Int64, "c1": pl.String}, orient="row"
        )

    def frame(self) -> pl.DataFrame:
        return self._frame


def test_rows_are_joined_with_the_table_that_was_read_last() -> None:
    table, types = Reloaded(), (DataTypes.BIGINT(),)
    keys = ((InputRef(DataTypes.BIGINT(), 0), 0),)
    table.read((1, "one"), (2, "two"))
    running = Stopped(LookupJoinSpec("LEFT", types, TYPES, table, keys), "hashmap")
    running.send([(1,), (2,), (3,)], types)
    table.read((3, "drei"), (2, "zwei"))
    running.send([(1,), (2,), (3,)], types)
    assert [row[2] for _, row in running.changes()] == ["one", "two", None, None, "zwei", "drei"]


class Asked:
    """A table that says what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def open(self, context: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def lookup(self, keys: Sequence[Any]) -> list[Any]:
        self.asked += [key[0] for key in keys]
        return [[] if key[0] == 0 else [(key[0], "x")] * key[0] for key in keys]


# what is asked for at which second, and what reaches the table
REMEMBERED = [
    ({"max_rows": 10}, [(0, 1), (0, 1), (5, 1)], [1]),
    ({"max_rows": 3}, [(0, 1), (0, 2), (0, 1), (0, 3), (0, 1)], [1, 2, 3, 1]),
    ({"expire_after_write_ms": 1000}, [(0, 1), (0.9, 1), (1.0, 1)], [1, 1]),
    ({"expire_after_access_ms": 1000}, [(0, 1), (0.9, 1), (1.8, 1), (3.0, 1)], [1, 1]),
    ({"max_rows": 10}, [(0, 0), (0, 0)], [0]),
    ({"max_rows": 10, "cache_missing_key": False}, [(0, 0), (0, 0)], [0, 0]),
]


@pytest.mark.parametrize(("options", "questions", "expected"), REMEMBERED, ids=str)
def test_answers_are_remembered_as_long_as_the_options_say(
    options: Any, questions: Any, expected: Any
) -> None:
    table, clock = Asked(), Clock()
    lookup = CachedLookup(table, clock=clock, **options)
    for now, key in questions:
        clock.now = now
        assert [list(rows) for rows in lookup.lookup([(key,)])] == [[(key, "x")] * key]
    assert table.asked == expected


def test_the_partial_cache_needs_a_bound() -> None:
    options = checked({"lookup.cache": "PARTIAL"}, CACHE_OPTIONS, "t")
    with pytest.raises(ConfigurationError, match="needs a size or time limit"):
        remembered(Asked(), options, "t")
    given = {"lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "5"}
    assert isinstance(remembered(Asked(), checked(given, CACHE_OPTIONS, "t"), "t"), CachedLookup)
    table = Asked()
    assert remembered(table, checked({}, CACHE_OPTIONS, "t"), "t") is table

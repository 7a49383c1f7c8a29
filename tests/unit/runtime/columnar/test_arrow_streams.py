"""Frames as bytes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pytest

from penstock.runtime.columnar.arrow_streams import decode_frame, encode_frame

TAG = 0x43
ALL_TYPES = pl.DataFrame(
    {
        "tiny": pl.Series([1, None], dtype=pl.Int8),
        "long": [2**62, -1],
        "double": [1.5, float("nan")],
        "float": pl.Series([1.5, None], dtype=pl.Float32),
        "truth": [True, None],
        "text": ["a", None],
        "bytes": [b"x" * 100, None],
        "date": [dt.date(2020, 1, 1), None],
        "time": [dt.time(1, 2, 3, 4), None],
        "millis": pl.Series([1, None], dtype=pl.Datetime("ms")),
        "nanos": pl.Series([1, None], dtype=pl.Datetime("ns")),
        "instant": pl.Series([1, None], dtype=pl.Datetime("us", "UTC")),
        "interval": pl.Series([1, None], dtype=pl.Duration("ms")),
        "decimal": pl.Series([Decimal("1.50"), None], dtype=pl.Decimal(20, 2)),
        "wide": pl.Series([Decimal(10) ** 19, None], dtype=pl.Decimal(38, 18)),
        "array": [["a", None], None],
        "row": [{"a": 1, "b": ["x"]}, None],
        "map": [[{"key": 1, "value": "x"}], []],
        "nothing": [None, None],
    }
)
FRAMES = {
    "all types": ALL_TYPES,
    "no rows": ALL_TYPES.head(0),
    "a slice": ALL_TYPES.slice(1),
    "several chunks": pl.concat([ALL_TYPES, ALL_TYPES], rechunk=False),
    "no type of Arrow": ALL_TYPES.with_columns(pl.Series("huge", [2**100, 1], dtype=pl.Int128)),
    "none within": pl.DataFrame({"huge": [[2**100]]}, schema={"huge": pl.List(pl.Int128)}),
}


@pytest.mark.parametrize("which", FRAMES)
def test_a_frame_is_the_same_again(which: str) -> None:
    frame = FRAMES[which]
    payload = encode_frame(frame, TAG)
    assert payload[0] == TAG
    found = decode_frame(payload)
    assert found.schema == frame.schema
    assert found.equals(frame)


def test_the_texts_of_other_rows_do_not_go_along() -> None:
    texts = pl.DataFrame({"text": [f"{number:0100}" for number in range(10_000)]})
    part = texts.filter(pl.int_range(pl.len()) % 100 == 7)
    payload = encode_frame(part, TAG)
    assert len(payload) < 2 * part.height * 100
    assert decode_frame(payload).equals(part)

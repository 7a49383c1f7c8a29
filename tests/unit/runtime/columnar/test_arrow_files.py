"""Arrow files: written once, read from any row on."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import RecordError
from penstock.runtime.columnar import arrow_files
from penstock.runtime.columnar.arrow_files import ArrowFile, read_arrow_file, write_arrow_file


def batches_of(sizes: list[int]) -> list[pa.RecordBatch]:
    """Batches of consecutive numbers."""
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    return [
        pa.record_batch([pa.array(range(end - size, end), pa.int64())], ["n"])
        for size, end in zip(sizes, ends, strict=True)
    ]


def numbers(file: ArrowFile, position: int = 0, rows: int = 1000) -> list[int]:
    return [n for batch, _ in read_arrow_file(file, position, rows) for n in batch[0].to_pylist()]


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12), st.integers(1, 7), st.data())
def test_rows_are_read_from_any_position(tmp_path_factory, sizes, joined, rows, data):
    path = str(tmp_path_factory.mktemp("files") / "rows.arrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_files, "ROWS_PER_BATCH", joined)
        file = write_arrow_file(path, iter(batches_of(sizes)))
    if not sum(sizes):
        assert file is None
        return
    assert file is not None
    assert file.rows == sum(sizes)
    position = data.draw(st.integers(0, file.rows))
    parts = list(read_arrow_file(file, position, rows))
    assert [n for batch, _ in parts for n in batch[0].to_pylist()] == [*range(position, file.rows)]
    assert all(0 < batch.num_rows <= rows for batch, _ in parts)
    assert [following for _, following in parts] == [
        position + sum(batch.num_rows for batch, _ in parts[: at + 1]) for at in range(len(parts))
    ]


def test_small_batches_become_large_ones(tmp_path):
    file = write_arrow_file(str(tmp_path / "rows.arrow"), batches_of([10_000] * 10))
    assert file is not None
    assert file.ends == (70_000, 100_000)
    assert file.size == (tmp_path / "rows.arrow").stat().st_size
    assert numbers(file, 69_999, 100_000)[:2] == [69_999, 70_000]


def test_without_rows_there_is_no_file(tmp_path):
    assert write_arrow_file(str(tmp_path / "rows.arrow"), batches_of([0, 0])) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_deleted_is_named(tmp_path):
    file = write_arrow_file(str(tmp_path / "rows.arrow"), batches_of([3]))
    assert file is not None
    gone = dataclasses.replace(file, path=str(tmp_path / "gone.arrow"))
    with pytest.raises(RecordError, match="no longer exist") as missing:
        numbers(gone)
    assert str(tmp_path / "gone.arrow") in str(missing.value.detail)

"""Cutting files into lines: every line exactly once, wherever the parts begin and end."""

from __future__ import annotations

import bz2
import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.filesystem.source import FileSource
from penstock.errors import ArgumentError, RecordError
from penstock.formats.base.file_formats import StreamFormat
from penstock.formats.base.lines import read_chunks, split_text
from tests.builders.connector_helpers import read_all, read_resuming
from tests.builders.examples import examples

contents = st.lists(
    st.tuples(
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12),
        st.sampled_from(["\n", "\r\n"]),
    ),
    max_size=30,
).flatmap(
    lambda lines: st.sampled_from([lines, [*lines[:-1], (lines[-1][0], "")]] if lines else [lines])
)


def expected_lines(text: str) -> list[str]:
    """The definition, the slow way: split at line feeds, drop one carriage return at the end of each."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def lines_of_part(data: bytes, start: int, end: int | None, lines: int, block: int) -> list[str]:
    chunks = read_chunks(io.BytesIO(data), start, end, lines, block_bytes=block)
    return [line for chunk in chunks for line in split_text(chunk.data.decode())]


@settings(max_examples=examples(400), deadline=None)
@given(contents, st.integers(1, 40), st.integers(1, 50), st.integers(1, 20))
def test_all_parts_together_give_every_line_once(content, part_size, block, lines):
    text = "".join(line + end for line, end in content)
    data = text.encode()
    parts = [
        lines_of_part(data, start, min(start + part_size, len(data)), lines, block)
        for start in range(0, len(data), part_size)
    ]
    assert [line for part in parts for line in part] == expected_lines(text)


@settings(max_examples=examples(200), deadline=None)
@given(contents, st.integers(1, 50), st.integers(1, 5))
def test_reading_can_resume_after_every_chunk(content, block, lines):
    text = "".join(line + end for line, end in content)
    data = text.encode()
    found, position = [], 0
    while chunk := next(
        read_chunks(io.BytesIO(data), position, len(data), lines, block_bytes=block), None
    ):
        assert chunk.start == position
        found += split_text(chunk.data.decode())
        position = chunk.end
    assert position == len(data)
    assert found == expected_lines(text)


@settings(max_examples=examples(100), deadline=None)
@given(contents, st.integers(1, 10))
def test_an_open_end_means_the_end_of_the_stream(content, lines):
    text = "".join(line + end for line, end in content)
    assert lines_of_part(text.encode(), 0, None, lines, 7) == expected_lines(text)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("\n", [""], id="one empty line"),
        pytest.param("\r\n", [""], id="one empty line, CRLF"),
        pytest.param("a", ["a"], id="no line feed at the end"),
        pytest.param("a\r", ["a"], id="carriage return at the end"),
        pytest.param("\r", [""], id="a carriage return alone"),
        pytest.param("x\n\r", ["x", ""], id="a carriage return alone at the end"),
        pytest.param("a\r\r\n", ["a\r"], id="only one carriage return is dropped"),
        pytest.param("a\rb\n", ["a\rb"], id="a carriage return within a line stays"),
        pytest.param(
            "a\x0bb\x85c\u2028d\n", ["a\x0bb\x85c\u2028d"], id="other separators are text"
        ),
    ],
)
def test_line_boundaries(text, lines):
    assert split_text(text) == lines
    assert expected_lines(text) == lines


def test_a_file_that_became_shorter_is_an_error():
    with pytest.raises(RecordError, match="became shorter"):
        list(read_chunks(io.BytesIO(b"ab\ncd"), 0, 100, 10, path="f"))


@pytest.mark.parametrize(
    "charset", ["utf-8", "latin-1", "utf-16", "utf-32-le", "shift_jis", "utf-8-sig"]
)
@pytest.mark.parametrize("parts", [7, 1 << 20])
def test_files_of_any_charset_are_read(tmp_path, charset, parts):
    words = ["abc", "", "x y", "long " * 10] + ([] if charset == "latin-1" else ["かな"])
    path = tmp_path / "words.txt"
    path.write_bytes("\n".join(words).encode(charset))
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), path)
        .set_split_size(parts)
        .build()
    )
    assert [line for part in read_all(source) for line in part] == words
    assert read_resuming(source, batch_size=1) == words


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_files_are_one_split_and_can_be_resumed(tmp_path, suffix, compress):
    lines = [f"line {number}" for number in range(1000)]
    path = tmp_path / f"lines.txt{suffix}"
    path.write_bytes(compress("\n".join(lines).encode()))
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
        .set_split_size(10)
        .build()
    )
    assert read_all(source) == [lines]
    assert read_resuming(source, batch_size=100) == lines


def source_of_bad_text(tmp_path, data=b"good\nb\xffad\r\nalso good\n", **options):
    path = tmp_path / "bad.txt"
    path.write_bytes(data)
    return FileSource.for_record_stream_format(
        StreamFormat.text_line_format(**options), path
    ).build()


def test_line_with_invalid_bytes_is_named_in_the_error(tmp_path):
    with pytest.raises(RecordError, match="not valid utf-8: invalid start byte") as caught:
        read_all(source_of_bad_text(tmp_path))
    assert f"file {tmp_path}/bad.txt, offset 5" in caught.value.message
    assert "b'b\\xffad'" in caught.value.detail
    assert "text_line_format('ISO-8859-1')" in caught.value.hint
    assert "on_error='replace'" in caught.value.hint


def test_a_file_whose_charset_has_no_bytes_for_line_feeds_is_named(tmp_path):
    data = "good\n".encode("utf-16") + b"\x00\xd8\x00\x00"  # half of a surrogate pair
    with pytest.raises(RecordError, match="not valid utf-16") as caught:
        read_all(source_of_bad_text(tmp_path, data, charset_name="UTF-16"))
    assert f"{tmp_path}/bad.txt" in caught.value.detail
    replaced = source_of_bad_text(tmp_path, data, charset_name="UTF-16", on_error="replace")
    assert read_all(replaced)[0][0] == "good"


def test_invalid_bytes_become_replacement_characters_on_request(tmp_path):
    source = source_of_bad_text(tmp_path, on_error="replace")
    assert read_all(source) == [["good", "b\ufffdad", "also good"]]


def test_lines_with_invalid_bytes_are_skipped_on_request(tmp_path):
    source = source_of_bad_text(tmp_path, on_error="skip")
    assert read_all(source) == [["good", "also good"]]


def test_a_file_in_another_charset_is_read_by_its_name(tmp_path):
    source = source_of_bad_text(tmp_path, charset_name="ISO-8859-1")
    assert read_all(source) == [["good", "b\xffad", "also good"]]


def test_a_policy_for_bad_text_that_does_not_exist_is_refused():
    with pytest.raises(ArgumentError, match="policy"):
        StreamFormat.text_line_format(on_error="ignore")


def test_a_charset_that_does_not_exist_is_refused():
    with pytest.raises(ArgumentError, match="unknown charset"):
        StreamFormat.text_line_format("utf-9")


def test_batches_have_about_the_size_that_was_asked_for(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {n:06d}\n" for n in range(50_000)))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).build()
    (split,) = source.create_enumerator(1).discover()
    from penstock.connectors.base.source import ReadLimits

    sizes = [
        len(batch.records)
        for batch in source.create_reader().read(split, None, ReadLimits(batch_size=1000))
    ]
    assert sum(sizes) == 50_000
    assert 900 <= max(sizes) <= 1100

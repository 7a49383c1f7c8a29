"""Tables as Parquet files: what is written is read back, some key groups alone too, and damage is noticed."""

from __future__ import annotations

import io
import json
import pickle

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint.handles import DamagedStateError, StateChain, StateHandle
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.runtime.state.schema import StateSchema
from penstock.savepoint import table_files
from penstock.savepoint.metadata import chain_of
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.savepoint.table_files import (
    TableHeader,
    open_table,
    read_named,
    write_table,
)
from penstock.windowing import TimeWindow
from tests.builders.examples import examples
from tests.builders.values import Point, exact, hashable, values

GROUPS = 16
PLAIN = TableHeader(
    "state/count", False, StateSchema("value", ("Row", ("a", None)), "Row(a)", True)
)
WINDOWS = TableHeader("window/total", True)
TIMERS = TableHeader("timers/event", True)


@pytest.fixture(params=["local", "arrow"])
def storage(request, tmp_path):
    """A local directory, and a file system of pyarrow (in memory)."""
    return CheckpointFileSystem(str(tmp_path) if request.param == "local" else "mock:///base")


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(table_files, "ROWS_PER_GROUP", 4)


def read_table(storage, handle, owned=None):
    for _, delta in read_named(storage, handle, owned):
        yield delta


def read_all(storage, handles, owned=None):
    found = {}
    for handle in handles:
        for delta in read_table(storage, handle, owned):
            assert not delta.removed
            found.update(delta.written)
    return found


def same(one, other):
    return {exact(key): exact(value) for key, value in one.items()} == {
        exact(key): exact(value) for key, value in other.items()
    }


@pytest.mark.parametrize(
    ("header", "entries"),
    [
        pytest.param(PLAIN, {"a": (1, 5), "b": (2, 6)}, id="plain"),
        pytest.param(PLAIN, {n: [Point(n)] for n in range(50)}, id="many"),
        pytest.param(PLAIN, {1: None, 2.0: "b", (1, "a"): {}}, id="mixed"),
        pytest.param(
            WINDOWS, {("a", TimeWindow(0, 5)): 1.5, ("a", TimeWindow(5, 9)): 0.0}, id="windows"
        ),
        pytest.param(TIMERS, {("a", (None, 17)): True, ("b", (None, 17)): True}, id="timers"),
        pytest.param(TIMERS, {("a", (TimeWindow(0, 5), 2**70)): True}, id="timer after all time"),
    ],
)
def test_a_table_is_read_back(storage, header, entries, small_groups):
    handles = write_table(storage, "state/op/table-0", header, entries.items(), GROUPS)
    assert same(read_all(storage, handles), entries)
    for handle in handles:
        with open_table(storage, handle) as table:
            assert table.header == header
        assert next(read_table(storage, handle)).schema == header.schema


@given(
    st.one_of(
        st.tuples(st.just(PLAIN), st.dictionaries(hashable, values, max_size=12)),
        st.tuples(
            st.just(WINDOWS),
            st.dictionaries(st.tuples(st.text(max_size=3), hashable), values, max_size=12),
        ),
    )
)
@settings(max_examples=examples(100), deadline=None)
def test_any_table_is_read_back_by_its_key_groups(tmp_path_factory, table):
    header, entries = table
    keys = [key[0] if header.namespaced else key for key in entries]
    if any(isinstance(key, float) and key != key for key in keys):
        return  # such a key equals nothing, not even itself
    storage = CheckpointFileSystem(str(tmp_path_factory.mktemp("table")), sync=False)
    handles = write_table(storage, "table", header, entries.items(), GROUPS)
    parts = [
        read_all(storage, handles, key_group_range(subtask, 3, GROUPS)) for subtask in range(3)
    ]
    for subtask, part in enumerate(parts):
        owned = key_group_range(subtask, 3, GROUPS)
        keys = [key[0] if header.namespaced else key for key in part]
        assert all(key_group_of(key, GROUPS) in owned for key in keys)
    assert sum(map(len, parts)) == len(entries)
    assert same(parts[0] | parts[1] | parts[2], entries)


def test_an_empty_table_has_no_file(storage):
    assert write_table(storage, "table", PLAIN, [], GROUPS) == []
    assert storage.list() == []


def test_the_first_file_is_full_and_all_are_parquet(storage, small_groups):
    entries = [(n, n if n < 30 else str(n)) for n in range(60)]
    handles = write_table(storage, "t", PLAIN, sorted(entries, key=lambda e: type(e[1]) is str), 1)
    assert [handle.kind for handle in handles] == ["full", "delta"]
    assert {handle.format for handle in handles} == {"parquet"}
    assert [handle.name for handle in handles] == ["t-0.parquet", "t-1.parquet"] == storage.list()
    assert same(read_all(storage, handles), dict(entries))


def test_values_that_come_and_go_in_type_make_few_files(storage, small_groups):
    entries = [(n, n if n // 4 % 2 else str(n)) for n in range(200)]
    handles = write_table(storage, "t", PLAIN, entries, 1)
    assert len(handles) == 2
    assert same(read_all(storage, handles), dict(entries))


def test_nothing_but_none_is_followed_by_a_file_with_values(storage, small_groups):
    entries = [(n, None if n < 8 else [n]) for n in range(16)]
    handles = write_table(storage, "t", PLAIN, entries, 1)
    with open_table(storage, handles[1]) as table:
        assert table.codecs["value"].to_json() == {"type": "list", "element": {"type": "int"}}
        assert table.rows == 8


def test_a_chain_of_several_tables_is_one_full_snapshot_and_deltas(storage):
    handles = write_table(storage, "a", PLAIN, [("a", 1)], GROUPS)
    handles += write_table(storage, "b", TIMERS, [(("a", (None, 1)), True)], GROUPS)
    chain = chain_of(handles)
    assert [handle.kind for handle in chain] == ["full", "delta"]
    assert StateChain.from_json(chain.to_json()) == chain
    assert chain.is_savepoint


def test_the_format_is_in_the_json_of_a_handle_only_if_it_is_parquet():
    pickled = StateHandle("full", 1, 2, (0, 4), data=b"x")
    assert "format" not in pickled.to_json()
    assert StateHandle.from_json(pickled.to_json()) == pickled
    parquet = StateHandle("full", 1, 2, (0, 4), name="x", format="parquet")
    assert parquet.to_json()["format"] == "parquet"
    assert StateHandle.from_json(parquet.to_json()) == parquet


def test_rows_are_sorted_by_key_group_and_row_groups_are_passed_by(tmp_path, small_groups):
    storage = CheckpointFileSystem(str(tmp_path))
    entries = [(f"key {n}", n) for n in range(40)]
    (handle,) = write_table(storage, "t", PLAIN, entries, GROUPS)
    file = pq.ParquetFile(tmp_path / "t-0.parquet")
    groups = file.read().column("key_group").to_pylist()
    assert groups == sorted(groups)
    assert handle.key_groups == (min(groups), max(groups) + 1)
    assert file.num_row_groups == 10
    with open_table(storage, handle) as table:
        read = []
        read_row_group = table._file.read_row_group
        table._file.read_row_group = lambda i: read.append(i) or read_row_group(i)
        owned = range(3, 5)
        found = [key for delta in table.deltas(owned) for key in delta.written]
    assert sorted(found) == sorted(k for k, _ in entries if key_group_of(k, GROUPS) in owned)
    assert 0 < len(read) < 5


def test_a_file_without_the_key_groups_is_not_opened(storage):
    (handle,) = write_table(storage, "t", PLAIN, [("a", 1)], GROUPS)
    group = key_group_of("a", GROUPS)
    storage.delete("t-0.parquet")
    assert list(read_table(storage, handle, range(group + 1, GROUPS))) == []
    with pytest.raises(DamagedStateError):
        list(read_table(storage, handle, range(group, group + 1)))


def test_a_file_alone_can_be_read_with_plain_pyarrow(tmp_path):
    storage = CheckpointFileSystem(str(tmp_path))
    entries = [(("ann", TimeWindow(0, 5)), {"views": [1, 2]})]
    write_table(storage, "t", WINDOWS, entries, GROUPS)
    table = pq.read_table(tmp_path / "t-0.parquet")
    assert table.to_pylist() == [
        {
            "key_group": key_group_of("ann", GROUPS),
            "key": "ann",
            "namespace": {"start": 0, "end": 5},
            "value": [("views", [1, 2])],
        }
    ]
    described = json.loads(table.schema.metadata[b"penstock"])
    assert described["table"] == {"name": "window/total", "namespaced": True, "state": None}
    assert described["max_parallelism"] == GROUPS
    assert described["columns"]["namespace"] == {"type": "time window"}


def test_timers_have_no_value(tmp_path):
    storage = CheckpointFileSystem(str(tmp_path))
    write_table(storage, "t", TIMERS, [(("ann", (None, 17)), True)], GROUPS)
    columns = pq.read_table(tmp_path / "t-0.parquet").column_names
    assert columns == ["key_group", "key", "namespace", "timestamp"]


# Damage


def _flip(data):
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1], id="truncated"),
        pytest.param(lambda data: data + b"x", id="longer"),
        pytest.param(_flip, id="altered"),
        pytest.param(lambda data: b"", id="empty"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path, damage):
    storage = CheckpointFileSystem(str(tmp_path))
    (handle,) = write_table(storage, "t", PLAIN, [(n, n) for n in range(100)], GROUPS)
    file = tmp_path / "t-0.parquet"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DamagedStateError, match=r"t-0\.parquet' is damaged") as raised:
        list(read_table(storage, handle))
    assert raised.value.hint


def test_a_file_that_is_gone_is_damage(storage):
    (handle,) = write_table(storage, "t", PLAIN, [(1, 1)], GROUPS)
    storage.delete("t-0.parquet")
    with pytest.raises(DamagedStateError, match="does not exist"):
        list(read_table(storage, handle))


def test_foreign_parquet_file_is_rejected(tmp_path):
    import zlib

    import pyarrow as pa

    data = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), data)
    found = data.getvalue()
    handle = StateHandle(
        "full", len(found), zlib.crc32(found), (0, 16), data=found, format="parquet"
    )
    with pytest.raises(DamagedStateError, match="could not read state file"):
        list(read_table(CheckpointFileSystem(str(tmp_path)), handle))


def test_a_file_of_a_later_format_is_refused(tmp_path, monkeypatch):
    storage = CheckpointFileSystem(str(tmp_path))
    monkeypatch.setattr(table_files, "VERSION", 2)
    (handle,) = write_table(storage, "t", PLAIN, [(1, 1)], GROUPS)
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match="has format version 2, but this version of Penstock reads 1"
    ):
        list(read_table(storage, handle))


def test_a_file_is_written_once(storage):
    write_table(storage, "t", PLAIN, [(1, 1)], GROUPS)
    with pytest.raises(CheckpointError, match="exists already"):
        write_table(storage, "t", PLAIN, [(1, 2)], GROUPS)


def test_an_error_while_reading_entries_leaves_no_temporary_file(tmp_path, monkeypatch):
    import tempfile

    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))

    def entries():
        yield from ((n, n) for n in range(200_000))
        raise RuntimeError("as planned")

    with pytest.raises(RuntimeError, match="as planned"):
        write_table(CheckpointFileSystem(str(tmp_path)), "t", PLAIN, entries(), GROUPS)
    assert list(place.iterdir()) == []


# Reading chains


def test_state_io_reads_chains_of_either_format(storage, tmp_path):
    handles = write_table(storage, "a", PLAIN, [(n, n) for n in range(40)], GROUPS)
    handles += write_table(storage, "b", TIMERS, [((7, (None, 1)), True)], GROUPS)
    io_ = pickle.loads(pickle.dumps(SnapshotStateIO(str(tmp_path))))
    chain = chain_of(handles)
    if "://" in storage.base:
        return  # every storage of this kind has files of its own
    found = {}
    for tables in io_.load(chain):
        for name, delta in tables.items():
            found.setdefault(name, {}).update(delta.written)
    assert found == {
        "state/count": {n: n for n in range(40)},
        "timers/event": {(7, (None, 1)): True},
    }
    some = [key for tables in io_.load(chain, range(4)) for key in tables["state/count"].written]
    assert some
    assert all(key_group_of(key, GROUPS) < 4 for key in some)

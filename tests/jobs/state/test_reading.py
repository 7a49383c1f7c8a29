"""Checkpoints of either backend as tables."""

from __future__ import annotations

import pytest

from penstock import state
from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import Manifest, OperatorSnapshot
from penstock.common import Row
from penstock.datastream import TimeWindow
from penstock.errors import ArgumentError, ArgumentTypeError, CheckpointError
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.state.table import TableDelta
from penstock.savepoint.writer import write_savepoint
from tests.jobs.state.jobs import checkpoint


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("total", ("key", "value"), [("ann", 4), ("bob", 2)]),
        ("visit", ("key", "value"), [("ann", Row(page="p3", count=2)), ("bob", Row(page="p2", count=1))]),
        ("seen", ("key", "value"), [("ann", [1, 3]), ("bob", [2])]),
        ("parity", ("key", "value"), [("ann", {"odd": 3}), ("bob", {"even": 2})]),
        ("best", ("key", "value"), [("ann", 3), ("bob", 2)]),
        ("mean", ("key", "value"), [("ann", (4, 2)), ("bob", (2, 1))]),
        ("state/total", ("key", "value"), [("ann", 4), ("bob", 2)]),
    ],
)  # fmt: skip
def test_keyed_state_has_a_row_per_key(everything, name, columns, rows):
    table = everything.state("all", name)
    assert table.columns == columns
    assert sorted(table) == rows


@pytest.mark.parametrize(
    ("name", "columns", "rows"),
    [
        ("seen", ("key", "position", "value"), [("ann", 0, 1), ("ann", 1, 3), ("bob", 0, 2)]),
        ("parity", ("key", "map_key", "value"), [("ann", "odd", 3), ("bob", "even", 2)]),
    ],
)
def test_exploded_state_has_a_row_per_element(everything, name, columns, rows):
    table = everything.state("all", name, explode=True)
    assert table.columns == columns
    assert sorted(table) == rows


@pytest.mark.parametrize(
    ("name", "explode", "rows"),
    [
        ("kept", False, [("ann", 3), ("bob", 2)]),
        ("kept list", False, [("ann", [1, 3]), ("bob", [2])]),
        ("kept list", True, [("ann", 0, 1), ("ann", 1, 3), ("bob", 0, 2)]),
        ("kept map", False, [("ann", {1: 3}), ("bob", {0: 2})]),
        ("kept map", True, [("ann", 1, 3), ("bob", 0, 2)]),
    ],
)
def test_state_with_ttl_has_a_last_access_column(everything, name, explode, rows):
    table = everything.state("all", name, explode=explode)
    assert table.columns[-1] == "last_access"
    found = sorted(table)
    assert [row[:-1] for row in found] == rows
    created = everything.manifest.created_ms
    assert all(created - 60_000 < row.last_access <= created for row in found)


def test_a_job_directory_means_the_latest_checkpoint(ran):
    latest = state.read(checkpoint(ran))
    assert latest.checkpoint_id > 3
    assert dict(latest.state("all", "total")) == {"ann": 18, "bob": 2, "cid": 12}


def test_operators_list_their_states(everything):
    operator = everything.operator("all")
    assert (operator.uid, operator.name) == ("all", "everything")
    assert (operator.parallelism, operator.max_parallelism) == (2, 128)
    assert operator.size > 0
    states = {each.name: each for each in operator.states if not each.internal}
    assert {name: (s.kind, s.ttl, s.entries) for name, s in states.items()} == {
        "total": ("value", False, 2),
        "visit": ("value", False, 2),
        "seen": ("list", False, 2),
        "parity": ("map", False, 2),
        "best": ("reducing", False, 2),
        "mean": ("aggregating", False, 2),
        "kept": ("value", True, 2),
        "kept list": ("list", True, 2),
        "kept map": ("map", True, 2),
        "timers/event": ("timers", False, 3),
    }
    assert states["visit"].type == "RowTypeInfo(page: String, count: Integer)"


def test_a_map_is_one_entry_per_key(ran):
    snapshot = state.read(checkpoint(ran, 3))
    assert snapshot.state("all", "parity", explode=True).count() == 4
    counts = {each.name: each.entries for each in snapshot.operator("all").states}
    assert (counts["parity"], counts["kept map"]) == (3, 3)


def test_a_snapshot_prints_an_overview(everything):
    lines = str(everything).splitlines()
    assert lines[0].startswith("checkpoint 2 of job 'DataStream Collect' (")
    assert "  seen             list of Integer, 2 entries" in lines
    assert "  parity           map of String, Integer, 2 entries" in lines
    assert "  kept             value of Integer, expires, 2 entries" in lines
    assert "  offsets of 1 split, 0 finished" in lines


@pytest.mark.parametrize("name", ["all", "everything", "id", "beginning"])
def test_operators_are_found_by_uid_name_and_id(everything, name):
    known = everything.operator("all")
    wanted = {"id": known.id, "beginning": known.id[:10]}.get(name, name)
    assert everything.operator(wanted) is known


@pytest.mark.parametrize(
    ("ask", "message", "hint"),
    [
        (lambda s: s.state("al", "total"), "has no operator 'al'", "did you mean 'all'"),
        (lambda s: s.state("all", "totel"), "operator 'all' has no state 'totel'", "did you mean 'total'"),
        (lambda s: s.state("all", "mine"), "has no state 'mine'", "use one of 'best'"),
        (lambda s: s.state("all", "watermark"), "has no state 'watermark'", "use .operator_state('all'"),
        (lambda s: s.operator_state("all", "total"), "has no state 'total'", "use .state('all'"),
        (lambda s: s.state("all", "total", explode=True), "cannot be exploded", "explode=True is for"),
        (lambda s: s.offsets("all"), "has no source 'all'", "use one of 'numbers'"),
        (lambda s: s.operator(""), "by its uid, name or id", "'all'"),
    ],
)  # fmt: skip
def test_unknown_name_is_rejected_with_the_known_ones(everything, ask, message, hint):
    with pytest.raises(ArgumentError) as raised:
        ask(everything)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_a_name_that_two_operators_have_is_refused(windows):
    with pytest.raises(ArgumentError, match="is ambiguous: it matches 2 operators") as raised:
        windows.operator("TumblingEventTimeWindows")
    assert "uid tumbling" in raised.value.detail


def test_timers_have_key_namespace_time_and_domain(everything):
    table = everything.timers("all")
    assert table.columns == ("key", "namespace", "timestamp", "domain")
    assert sorted(table) == [
        ("ann", None, 101, "event"),
        ("ann", None, 103, "event"),
        ("bob", None, 102, "event"),
    ]
    assert sorted(everything.state("all", "timers/event")) == sorted(table)


def test_timers_of_windows_tell_the_window(windows):
    window = TimeWindow(0, 10)
    assert min(windows.timers("elements")) == ("ann", window, 9, "event")


def test_sources_and_offsets(everything):
    (row,) = everything.offsets("numbers")
    assert (row.operator, row.split, row.position) == ("numbers", "split-0", ("split-0", 2))
    assert (row.watermark, row.finished) == (2, False)
    assert list(everything.offsets()) == [row]
    assert list(everything.sources()) == [("numbers", 1, 0, 2)]


def test_watermarks_by_subtask(everything):
    found = {(row.operators, row.subtask): row.watermark for row in everything.watermarks()}
    assert found["everything", 0] == found["everything", 1] == 2


def test_the_rows_of_one_key(everything):
    assert everything.state("all", "seen", explode=True).get("ann") == [
        ("ann", 0, 1),
        ("ann", 1, 3),
    ]
    assert everything.state("all", "total").get("nobody") == []


def test_only_the_subtask_of_the_key_is_read(everything, monkeypatch):
    table = everything.state("all", "total")
    assert len(table.parts) == 2
    read = []
    original = type(table.parts[0]).rows
    monkeypatch.setattr(
        type(table.parts[0]), "rows", lambda part, dbs: read.append(part) or original(part, dbs)
    )
    assert table.get("ann") == [("ann", 4)]
    assert len(read) == 1


@pytest.mark.parametrize(
    ("operator", "rows"),
    [
        ("tumbling", [("ann", TimeWindow(0, 10), ("ann", 4)), ("bob", TimeWindow(0, 10), ("bob", 2))]),
        ("sessions", [("ann", TimeWindow(1, 8), ("ann", 4)), ("bob", TimeWindow(2, 7), ("bob", 2))]),
        ("elements", [("ann", TimeWindow(0, 10), [("ann", 1), ("ann", 3)]), ("bob", TimeWindow(0, 10), [("bob", 2)])]),
    ],
)  # fmt: skip
def test_contents_of_windows(windows, operator, rows):
    table = windows.windows(operator)
    assert table.columns == ("key", "window", "value")
    assert sorted(table) == rows


def test_elements_of_windows_can_be_exploded(windows):
    window = TimeWindow(0, 10)
    assert sorted(windows.windows("elements", explode=True)) == [
        ("ann", window, 0, ("ann", 1)),
        ("ann", window, 1, ("ann", 3)),
        ("bob", window, 0, ("bob", 2)),
    ]


def test_state_of_windows_has_the_window(windows):
    assert list(windows.state("elements", "fired")) == [("ann", TimeWindow(0, 10), 2)]


def test_internal_operator_state_can_be_read(windows):
    assert sorted(windows.state("reduced", "reduced")) == [
        ("ann", ("ann", 4)),
        ("bob", ("bob", 2)),
    ]
    left = windows.state("join", "interval-join-left", explode=True)
    assert left.columns == ("key", "timestamp", "position", "value")
    assert sorted(left) == [
        ("ann", 1, 0, ("ann", 1)),
        ("ann", 3, 0, ("ann", 3)),
        ("bob", 2, 0, ("bob", 2)),
    ]


def test_every_table_can_be_read_and_internal_ones_say_so(windows):
    internal = set()
    for operator in windows.operators:
        for each in operator.states:
            ask = windows.state if each.is_keyed else windows.operator_state
            count = ask(operator.id, each.table).count()
            assert count == each.entries, each
            if each.internal:
                internal.add(each.name)
    assert "merging-window-set" in internal
    assert "window-contents" not in internal


def test_files_that_were_fetched_go_with_the_snapshot(ran, backend):
    snapshot = state.read(checkpoint(ran))
    assert snapshot.state("all", "total").count() == 3
    root = snapshot.databases._root
    if backend == "hashmap":
        assert root is None
        return
    assert root.exists()
    assert not snapshot.databases._opened
    del snapshot
    assert not root.exists()


def test_two_tables_of_one_database_can_be_read_side_by_side(everything):
    pairs = zip(everything.state("all", "total"), everything.state("all", "best"), strict=True)
    assert sorted((one.key, one.value, other.value) for one, other in pairs) == [
        ("ann", 4, 3),
        ("bob", 2, 2),
    ]


def test_a_path_without_snapshot_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        state.read(str(tmp_path))
    with pytest.raises(ArgumentTypeError, match="path must be a str"):
        state.read(7)


class TwoSubtasks:
    """Reads state that one subtask has used since it expires, and the other one has not."""

    tables = {
        "new": TableDelta(False, {"ann": (1, 50)}, [], StateSchema("value", ("Long",), "Long", True)),
        "old": TableDelta(False, {"bob": 2}, [], StateSchema("value", ("Integer",), "Integer", False)),
    }  # fmt: skip

    def load(self, chain, owned=None):
        yield {"state/total": self.tables[chain.handles[0].name]}

    def savepoint(self, directory, *names):
        chains = [
            StateChain((StateHandle("full", 0, 0, (0, 128), name=name, format="parquet"),))
            for name in names
        ]
        operator = OperatorSnapshot("all", "all", "vertex", 128, tuple(chains))
        return write_savepoint(Manifest("job", "job", 1, 0, operators={"op": operator}), self, directory)  # fmt: skip


@pytest.mark.parametrize("names", [("new", "old"), ("old", "new")], ids="-".join)
def test_subtasks_that_have_not_seen_a_change_of_the_state_are_read_rightly(tmp_path, names):
    snapshot = state.read(TwoSubtasks().savepoint(str(tmp_path), *names))
    (info,) = snapshot.operator("all").states
    assert (info.ttl, info.type) == (names[0] == "new", "Long")
    edited = state.read(state.edit(snapshot).put_value("all", "total", {"cid": 3}).write(tmp_path))
    for found in (snapshot, edited):
        values = {row.key: row.value for row in found.state("all", "total") if row.key != "cid"}
        assert values == {"ann": 1, "bob": 2}

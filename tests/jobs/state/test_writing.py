"""Savepoints that are written by hand: jobs start from them and find the state."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock import state
from penstock.common import Row, Types
from penstock.datastream import TimeWindow
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import ArgumentError, ArgumentTypeError, CheckpointError
from penstock.graph.key_groups import key_group_of
from penstock.runtime.state.schema import StateSchema
from penstock.state.edits import PutEntries
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import (
    RULES,
    VISIT,
    checkpoint,
    expiring,
    run_everything,
    run_operator_state,
    run_windows,
)


def written(writer, tmp_path):
    return state.read(writer.write(tmp_path / "savepoints"))


FRAMES = {
    "pandas": pd.DataFrame({"user": ["ann", "bob"], "spent": [5, 6]}),
    "arrow": pa.table({"user": ["ann", "bob"], "spent": [5, 6]}),
    "record batch": pa.record_batch({"user": ["ann", "bob"], "spent": [5, 6]}),
    "dictionaries": [{"user": "ann", "spent": 5}, {"user": "bob", "spent": np.int64(6)}],
    "tuples": [("ann", 5), ("bob", 6)],
    "rows": [Row(user="ann", spent=5), Row(user="bob", spent=6)],
    "generator": ({"user": user, "spent": spent} for user, spent in [("ann", 5), ("bob", 6)]),
    "mapping": {"ann": 5, "bob": np.int32(6)},
}


@pytest.mark.parametrize("name", FRAMES)
def test_all_sorts_of_rows(tmp_path, name):
    writer = state.new_savepoint()
    writer.put_value("shop", "spent", FRAMES[name], key="user", value="spent")
    found = written(writer, tmp_path).state("shop", "spent")
    assert sorted(found) == [("ann", 5), ("bob", 6)]
    assert {type(row.value) for row in found} == {int}


def test_keys_and_values_may_be_functions_or_positions(tmp_path):
    writer = state.new_savepoint()
    rows = [("ann", 5, "x"), ("bob", 6, "y")]
    writer.put_value("shop", "a", rows, key=0, value=-1)
    writer.put_value(
        "shop", "b", rows, key=lambda row: (row[0], row[2]), value=lambda row: row[1] * 2
    )
    found = written(writer, tmp_path)
    assert sorted(found.state("shop", "a")) == [("ann", "x"), ("bob", "y")]
    assert sorted(found.state("shop", "b")) == [(("ann", "x"), 10), (("bob", "y"), 12)]


def test_another_state_table_is_a_source_of_rows(everything, tmp_path):
    writer = state.new_savepoint()
    writer.put_value("new", "total", everything.state("all", "total"))
    writer.put_list("new", "seen", everything.state("all", "seen", explode=True))
    writer.put_list("new", "whole", everything.state("all", "seen"), whole=True)
    writer.put_map("new", "parity", everything.state("all", "parity", explode=True))
    writer.put_map("new", "dicts", everything.state("all", "parity").to_arrow(), map_key=None)
    found = written(writer, tmp_path)
    assert sorted(found.state("new", "total")) == [("ann", 4), ("bob", 2)]
    assert sorted(found.state("new", "seen")) == [("ann", [1, 3]), ("bob", [2])]
    assert sorted(found.state("new", "whole")) == [("ann", [1, 3]), ("bob", [2])]
    assert sorted(found.state("new", "parity")) == [("ann", {"odd": 3}), ("bob", {"even": 2})]
    assert sorted(found.state("new", "dicts")) == [("ann", {"odd": 3}), ("bob", {"even": 2})]


def test_declared_types_are_kept_and_applied(tmp_path):
    writer = state.new_savepoint()
    frame = pa.table({"key": ["ann"], "value": [{"page": "home", "count": 3}]})
    writer.put_value("all", "visit", frame, type_info=VISIT)
    found = written(writer, tmp_path)
    assert list(found.state("all", "visit")) == [("ann", Row(page="home", count=3))]
    (info,) = found.operator("all").states
    assert info.schema == StateSchema.of(ValueStateDescriptor("visit", VISIT))


def test_key_groups_are_those_of_the_max_parallelism(tmp_path):
    writer = state.new_savepoint(max_parallelism=16)
    writer.put_value("all", "n", {f"key {n}": n for n in range(100)})
    found = written(writer, tmp_path)
    assert found.operator("all").max_parallelism == 16
    (chain,) = found.chains(found.operator("all").id)
    groups = {key_group_of(row.key, 16) for row in found.state("all", "n")}
    assert chain.handles[0].key_groups == (min(groups), max(groups) + 1)


def results(found):
    return sorted(found, key=repr)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_starts_with_the_state(backend, cluster, tmp_path, parallelism):
    writer = state.new_savepoint()
    writer.put_value("all", "total", {"ann": 100, "zoe": 7}, type_info=Types.INT())
    writer.put_list("all", "seen", [("ann", 5), ("zoe", 9), ("ann", 6)], type_info=Types.INT())
    writer.put_map("all", "parity", [("ann", "odd", 5)])
    writer.put_reducing("all", "best", {"ann": 50})
    writer.put_aggregating("all", "mean", {"ann": (11, 2)})
    writer.put_value("all", expiring(ValueStateDescriptor("kept", Types.INT())), {"ann": 1})
    writer.put_timers("all", [("zoe", 50), ("ann", 60)])
    path = writer.write(tmp_path)
    options = {"execution.state-recovery.path": path}
    env = stateful_environment(backend, tmp_path, parallelism, **options)
    found = run_everything(env, [[("ann", 1)]])
    assert results(found) == results(
        [
            ("ann", 101, [1, 5, 6], 4.0),
            ("zoe", "timer", 50, 7),
            ("ann", "timer", 60, 101),
            ("ann", "timer", 101, 101),
        ]
    )
    after = state.read(checkpoint(tmp_path))
    assert after.state("all", "best").get("ann") == [("ann", 50)]
    assert after.state("all", "parity").get("ann") == [("ann", {"odd": 1})]
    assert after.state("all", "kept").get("ann")[0].value == 1


def test_operator_state_reaches_the_job(cluster, tmp_path):
    writer = state.new_savepoint()
    writer.put_operator_list("buffer", "mine", [100, 200, 300])
    writer.put_operator_list("buffer", "all", [np.int64(8)], union=True)
    writer.put_broadcast("follow", RULES, {"limit": 99, "ceiling": 5})
    path = writer.write(tmp_path)
    env = stateful_environment("hashmap", tmp_path, **{"execution.state-recovery.path": path})
    run_operator_state(env, [[("ann", 1)]])
    after = state.read(checkpoint(tmp_path))
    assert sorted(row.value for row in after.operator_state("buffer", "mine")) == [1, 100, 200, 300]
    assert dict(after.operator_state("follow", "rules")) == {"limit": 7, "floor": 1, "ceiling": 5}


@pytest.mark.parametrize("parallelism", [2, 3])
def test_an_edited_checkpoint_goes_on_where_it_was(ran, backend, cluster, tmp_path, parallelism):
    """The job had read two of three epochs; ann's total is doubled, bob is forgotten, and the last epoch comes."""
    editor = state.edit(checkpoint(ran, 2))
    editor.change("all", "total", lambda key, value: state.DROP if key == "bob" else value * 2)
    editor.change("all", "seen", lambda key, value: [*value, -1])
    editor.drop_state("all", "timers/event").put_timers("all", {"bob": 200})
    path = editor.write(tmp_path)
    assert sorted(state.read(path).state("all", "seen")) == [("ann", [1, 3, -1]), ("bob", [2, -1])]
    env = stateful_environment(
        backend, tmp_path, parallelism, **{"execution.state-recovery.path": path}
    )
    found = run_everything(env)
    assert results(found) == results(
        [
            ("cid", 12, [12], 12.0),
            ("ann", 22, [-1, 1, 3, 14], 6.0),
            ("cid", "timer", 112, 12),
            ("ann", "timer", 114, 22),
            ("bob", "timer", 200, None),
        ]
    )


def test_unedited_state_is_unchanged(everything, tmp_path):
    copied = written(state.edit(everything), tmp_path)
    assert list(everything.diff(copied, internal=True)) == []
    edited = written(state.edit(everything).put_value("all", "total", {"ann": 5}), tmp_path)
    assert [(row.state, row.key, row.before, row.after) for row in everything.diff(edited)] == [
        ("total", "ann", 4, 5)
    ]


def test_savepoints_can_be_edited_again(everything, tmp_path):
    once = state.edit(everything).put_value("all", "total", {"new": 1}).write(tmp_path)
    twice = written(state.edit(once).change("all", "total", lambda _, value: value + 1), tmp_path)
    assert sorted(twice.state("all", "total")) == [("ann", 5), ("bob", 3), ("new", 2)]


def test_last_accesses_stay_when_values_change(everything, tmp_path):
    before = {row.key: row.last_access for row in everything.state("all", "kept list")}
    editor = state.edit(everything)
    editor.change("all", "kept list", lambda key, value: value[::-1])
    editor.change("all", "kept map", lambda key, value: {**value, "new": 1})
    after = written(editor, tmp_path)
    found = {row.key: (row.value, row.last_access) for row in after.state("all", "kept list")}
    assert found == {"ann": ([3, 1], before["ann"]), "bob": ([2], before["bob"])}
    maps = {row.key: row.value for row in after.state("all", "kept map")}
    assert maps == {"ann": {1: 3, "new": 1}, "bob": {0: 2, "new": 1}}


def test_state_that_expires_goes_on_to(everything, tmp_path):
    after = written(state.edit(everything).put_value("all", "kept", {"ann": 9}), tmp_path)
    rows = {row.key: row for row in after.state("all", "kept")}
    assert rows["ann"].value == 9
    assert rows["ann"].last_access > rows["bob"].last_access


STORED = {
    "value": (ValueStateDescriptor, "put_value", {"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}),
    "list": (ListStateDescriptor, "put_list", [("a", 1), ("b", 2)], {"a": 3}, {"a": [3], "b": [2]}),
    "map": (
        MapStateDescriptor,
        "put_map",
        [("a", 7, 1), ("b", 7, 2)],
        [("a", 7, 3)],
        {"a": {7: 3}, "b": {7: 2}},
    ),
}


@pytest.mark.parametrize("on", [True, False], ids=["switched on", "switched off"])
@pytest.mark.parametrize("kind", STORED)
def test_changed_ttl_converts_existing_entries(tmp_path, kind, on):
    descriptor, method, before, after, expected = STORED[kind]
    plain, expires = descriptor("s"), expiring(descriptor("s"))
    first, second = (plain, expires) if on else (expires, plain)
    writer = state.new_savepoint()
    getattr(writer, method)("f", first, before)
    editor = state.edit(writer.write(tmp_path))
    getattr(editor, method)("f", second, after)
    found = written(editor, tmp_path).state("f", "s")
    assert {row.key: row.value for row in found} == expected
    assert ("last_access" in found.columns) == on
    if on:
        assert {type(row.last_access) for row in found} == {int}


def test_values_are_checked_by_the_type_that_the_state_has(everything, tmp_path):
    editor = state.edit(everything)
    with pytest.raises(ArgumentError, match=r"row 0: 'x' .* is not a value of type Integer"):
        editor.put_value("all", "total", {"ann": "x"})
    with pytest.raises(ArgumentError, match="row 0: 'x'"):
        editor.put_list("all", "seen", {"ann": "x"})
    with pytest.raises(ArgumentError, match="row 0: 1"):
        editor.put_map("all", "parity", [("ann", 1, 1)])
    editor.put_value("all", "visit", {"ann": {"page": "home", "count": 3}})
    after = written(editor, tmp_path)
    assert after.state("all", "visit").get("ann") == [("ann", Row(page="home", count=3))]


def test_changed_values_are_checked_by_the_type_that_the_state_has(everything, tmp_path):
    for name, function in {
        "total": lambda key, value: str(value),
        "kept": lambda key, value: str(value),
        "seen": lambda key, value: [*value, "x"],
        "parity": lambda key, value: {**value, 5: 5},
        "visit": lambda key, value: value.page,
    }.items():
        editor = state.edit(everything).change("all", name, function)
        with pytest.raises(ArgumentError, match="returned a value of another type") as raised:
            editor.write(tmp_path / "refused")
        assert f"state '{name}' of operator 'all'" in raised.value.message


def test_a_state_gets_another_type_if_it_is_dropped_and_put(everything, tmp_path):
    totals = [(row.key, str(row.value)) for row in everything.state("all", "total")]
    editor = state.edit(everything).drop_state("all", "total")
    after = written(editor.put_value("all", "total", totals, type_info=Types.STRING()), tmp_path)
    assert sorted(after.state("all", "total")) == [("ann", "4"), ("bob", "2")]
    assert {each.name: each.type for each in after.operator("all").states}["total"] == "String"


def test_operator_dropped_and_added_again_is_empty(cluster, tmp_path):
    run_operator_state(stateful_environment("hashmap", tmp_path))
    editor = state.edit(checkpoint(tmp_path, 1))
    for uid in ("numbers", "buffer", "follow"):
        editor.drop_operator(uid).add_operator(uid)
    editor.put_operator_list("buffer", "mine", [1, 2, 3])
    editor.put_broadcast("numbers", "rules", {"limit": 1})
    path = editor.write(tmp_path / "savepoints")
    after = state.read(path)
    assert [row.operator for row in after.offsets()] == ["Source: Collection Source"]
    assert [row.value for row in after.operator_state("buffer", "mine")] == [1, 2, 3]
    assert {each.name for each in after.operator("buffer").states} == {"mine"}
    assert {each.name for each in after.operator("numbers").states} == {"rules"}
    assert not after.operator("follow").states
    options = {
        "execution.state-recovery.path": path,
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    run_operator_state(
        stateful_environment("hashmap", tmp_path / "again", **options), [[("ann", 9)]]
    )
    again = state.read(checkpoint(tmp_path / "again"))
    assert sorted(row.value for row in again.operator_state("buffer", "mine")) == [1, 2, 3, 9]


def test_windows_can_be_changed(windows, tmp_path):
    editor = state.edit(windows)
    editor.change("tumbling", "window-contents", lambda key, value, window: (key, window.end))
    editor.put_value("elements", "fired", [("bob", TimeWindow(0, 10), 7)], window=1, value=2)
    after = written(editor, tmp_path)
    assert sorted(after.windows("tumbling")) == [
        ("ann", TimeWindow(0, 10), ("ann", 10)),
        ("bob", TimeWindow(0, 10), ("bob", 10)),
    ]
    assert sorted(after.state("elements", "fired")) == [
        ("ann", TimeWindow(0, 10), 2),
        ("bob", TimeWindow(0, 10), 7),
    ]


def test_windows_that_were_edited_fire(ran_windows, backend, cluster, tmp_path, capsys):
    editor = state.edit(checkpoint(ran_windows, 2))
    editor.change("tumbling", "window-contents", lambda key, value, window: (key, -value[1]))
    path = editor.write(tmp_path)
    run_windows(stateful_environment(backend, tmp_path, **{"execution.state-recovery.path": path}))
    printed = capsys.readouterr().out
    assert "('ann', -4)" in printed
    assert "('bob', -2)" in printed


def test_operators_can_be_dropped_and_added(everything, tmp_path):
    editor = state.edit(everything).drop_operator("numbers").add_operator("fresh")
    editor.put_value("fresh", "n", {"a": 1})
    after = written(editor, tmp_path)
    assert list(after.offsets()) == []
    assert {op.uid for op in after.operators if op.uid} == {"all", "fresh"}
    assert list(after.state("fresh", "n")) == [("a", 1)]


def test_state_of_a_finished_job_starts_another_one(ran, backend, cluster, tmp_path):
    """The bounded job has ended, and time with it. What comes from its state has everything before it."""
    finished = state.read(checkpoint(ran))
    assert finished.manifest.final
    path = state.edit(finished).drop_operator("numbers").write(tmp_path)
    assert {(row.watermark, row.finished) for row in state.read(path).watermarks()} == {
        (-(2**63), False)
    }
    env = stateful_environment(backend, tmp_path, **{"execution.state-recovery.path": path})
    found = run_everything(env, [[("ann", 2)]])
    assert ("ann", 20, [1, 2, 3, 14], 5.0) in found
    assert ("ann", "timer", 102, 20) in found


def test_elements_that_are_put_are_redistributed(cluster, tmp_path):
    run_operator_state(stateful_environment("hashmap", tmp_path))
    editor = state.edit(checkpoint(tmp_path, 1))
    editor.put_operator_list("buffer", "mine", [10, 20, 30])
    editor.put_operator_list("buffer", "all", [40], union=True)
    editor.change("follow", "rules", lambda key, value: state.DROP if key == "floor" else value + 1)
    after = written(editor, tmp_path)
    assert list(after.operator_state("buffer", "mine")) == [(0, 0, 10), (0, 1, 20), (1, 0, 30)]
    assert list(after.operator_state("buffer", "all")) == [(0, 0, 40)]
    assert list(after.operator_state("follow", "rules")) == [("limit", 8)]
    editor.change("buffer", "mine", lambda _, value: state.DROP if value == 20 else -value)
    editor.drop_state("buffer", "all")
    again = written(editor, tmp_path)
    assert list(again.operator_state("buffer", "mine")) == [(0, 0, -10), (1, 0, -30)]
    assert "all" not in {each.name for each in again.operator("buffer").states}


def test_put_replaces_existing_values():
    entries = PutEntries({"a": 1, "z": 2}, namespaced=False).apply(
        iter([("a", 0), ("b", 3)]), lambda key: key != "z"
    )
    assert list(entries) == [("b", 3), ("a", 1)]


@dataclasses.dataclass
class Unkeyed:
    """Equal by value, and not hashable."""

    name: str


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (lambda w: w.put_value("a", "s", FRAMES["pandas"], key="usr"), "the frame has no column 'usr'"),
        (lambda w: w.put_value("a", "s", FRAMES["arrow"], key="user", value="cost"), "no column 'cost'"),
        (lambda w: w.put_value("a", "s", [{"key": 1}]), "has no column 'value'"),
        (lambda w: w.put_value("a", "s", [(1,)]), "row (1,) (tuple) has no column 1 for value"),
        (lambda w: w.put_value("a", "s", [1]), "a row must be a tuple, a Row or a dictionary"),
        (lambda w: w.put_value("a", "s", "rows"), "cannot read rows from 'rows'"),
        (lambda w: w.put_value("a", "s", [("k", 1), ("k", 2)]), "row 1: key 'k' (str) occurs twice"),
        (lambda w: w.put_value("a", "s", [("k", None)]), "row 0: the value of key 'k' (str) is None"),
        (lambda w: w.put_value("a", "s", [({1}, 1)]), "row 0: the key must be hashable, got {1} (set)"),
        (lambda w: w.put_value("a", "s", [(object(), 1)]), "row 0: keys of type object are not supported"),
        (lambda w: w.put_value("a", "s", [(Unkeyed("x"), 1)]), "row 0: the key must be hashable, got Unkeyed"),
        (lambda w: w.put_value("a", "s", [("k", "x")], type_info=Types.INT()), "row 0: 'x' (str) is not a value"),
        (lambda w: w.put_value("a", "", []), "a state must be given as a name"),
        (lambda w: w.put_value("", "s", []), "uid must be a str"),
        (lambda w: w.put_value("a", MapStateDescriptor("s"), []), "value state needs a descriptor"),
        (lambda w: w.put_value("a", "s", {"k": 1}, key=1.5), "key must be a column name"),
        (lambda w: w.put_value("a", "s", [("k", 1)], value=lambda row: row[5]), "the function for value failed"),
        (lambda w: w.put_list("a", "s", {"k": 1}, whole=True), "row 0: state 's' of operator 'a' is list state"),
        (lambda w: w.put_map("a", "s", [("k", [], 1)]), "row 0: the key of a map must be hashable, got []"),
        (lambda w: w.put_map("a", "s", [("k", 1, 1), ("k", 1, 2)]), "row 1: key 1 (int) occurs twice in a map"),
        (lambda w: w.put_map("a", "s", [], type_info=Types.INT()), "the type of map state must be a map"),
        (lambda w: w.put_timers("a", {"k": 1.5}), "row 0: the time of a timer must be in epoch milliseconds"),
        (lambda w: w.put_timers("a", {"k": 2**63}), "row 0: the time of a timer must be in epoch milliseconds"),
        (lambda w: w.put_value("a", "s", {math.nan: 1}), "row 0: NaN is not allowed as a key: nan"),
        (lambda w: w.put_value("a", "s", {("x", math.nan): 1}), "row 0: NaN is not allowed as a key: ('x', nan)"),
        (lambda w: w.put_value("a", "s", pd.DataFrame([[1, 2]], columns=["a", "a"])), "duplicate column 'a'"),
        (lambda w: w.put_value("a", "s", {"k": pd.Timestamp(1)}), "has nanoseconds"),
        (lambda w: w.put_timers("a", {}, domain="wall"), "must be 'event' or 'processing'"),
        (lambda w: w.put_operator_list("a", "s", "text"), "the elements of a list must be iterable"),
        (lambda w: w.put_broadcast("a", "s", [({}, 1)]), "row 0: the key must be hashable, got {}"),
        (lambda w: w.put_value("a", "s", [("k", 5, 1)], value=2, window=1), "5 (int) is not a window"),
        (lambda w: w.put_value("a", "s", {}).put_list("a", "s", {}), "was value state of any type"),
        (lambda w: w.put_operator_list("a", "s", []).put_broadcast("a", "s", {}), "another kind of state"),
        (lambda w: w.change("b", "s", len), "has no operator 'b'"),
        (lambda w: w.drop_state("b", "s"), "has no operator 'b'"),
        (lambda w: w.drop_operator("b"), "has no operator 'b'"),
        (lambda w: w.put_value("a", "s", {}).change("a", "x", len), "operator 'a' has no state 'x'"),
        (lambda w: w.put_value("a", "s", {}).change("a", "s", 5), "function must be callable"),
        (lambda w: w.put_timers("a", {}).change("a", "timers/event", len), "timers have no value"),
        (lambda w: w.add_operator("a").add_operator("a"), "with the uid 'a' already"),
        (lambda w: w.write(5), "directory must be a path"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_rejected_immediately(put, message):
    with pytest.raises((ArgumentError, ArgumentTypeError, CheckpointError)) as raised:
        put(state.new_savepoint())
    assert message in raised.value.message


def test_in_an_edited_snapshot_uids_must_be_known(everything):
    with pytest.raises(ArgumentError, match="has no operator 'alll'") as raised:
        state.edit(everything).put_value("alll", "total", {})
    assert "did you mean 'all'" in raised.value.hint
    assert "add_operator('alll')" in raised.value.hint


def test_the_type_of_a_state_cannot_be_changed(everything):
    with pytest.raises(CheckpointError, match="was value state of Integer") as raised:
        state.edit(everything).put_value("all", "total", {"a": "x"}, type_info=Types.STRING())
    assert raised.value.detail == "Integer became String"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda key, value: None, "returned None for key"),
        (
            lambda key, value: 1 / 0,
            "the function that changes state 'seen' of operator 'all' failed",
        ),
        (lambda key, value: 5, "is list state, but 5 (int) is not a list"),
    ],
)
def test_functions_that_fail_leave_no_savepoint(everything, tmp_path, function, message):
    editor = state.edit(everything).change("all", "seen", function)
    with pytest.raises(ArgumentError) as raised:
        editor.write(tmp_path / "savepoints")
    assert message in raised.value.message
    assert list(tmp_path.glob("savepoints/*/_metadata")) == []


@pytest.mark.parametrize("scale", [0, 32769, "128", True])
def test_a_max_parallelism_that_cannot_be_is_refused(scale):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="max_parallelism must be"):
        state.new_savepoint(scale)

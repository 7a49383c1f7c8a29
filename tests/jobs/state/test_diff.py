"""What changed between two snapshots."""

from __future__ import annotations

import pytest

from penstock import state
from penstock.errors import ArgumentTypeError
from penstock.state.diffs import _same
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import checkpoint, run_everything, run_operator_state


class Plain:
    """Does not say what equal means."""

    def __init__(self, value):
        self.value = value


def of(rows, name):
    return sorted(
        [(row.key, row.change, row.before, row.after) for row in rows if row.state == name],
        key=repr,
    )


def test_keys_are_added_and_changed(ran):
    rows = list(state.read(checkpoint(ran, 2)).diff(state.read(checkpoint(ran, 3))))
    assert rows[0]._fields == ("operator", "state", "key", "window", "change", "before", "after")
    assert {row.operator for row in rows} == {"all", "numbers"}
    assert of(rows, "total") == [("ann", "changed", 4, 18), ("cid", "added", None, 12)]
    assert of(rows, "parity") == [
        ("ann", "changed", {"odd": 3}, {"odd": 3, "even": 14}),
        ("cid", "added", None, {"even": 12}),
    ]
    assert of(rows, "timers/event") == [
        ("ann", "added", None, 114),
        ("cid", "added", None, 112),
    ]
    assert of(rows, "offsets") == [("split-0", "changed", ("split-0", 2), ("split-0", 3))]


def test_the_other_way_round_they_are_removed(ran):
    rows = list(state.read(checkpoint(ran, 3)).diff(state.read(checkpoint(ran, 2))))
    assert of(rows, "total") == [("ann", "changed", 18, 4), ("cid", "removed", 12, None)]
    assert of(rows, "timers/event") == [
        ("ann", "removed", 114, None),
        ("cid", "removed", 112, None),
    ]


def test_a_snapshot_does_not_differ_from_itself(ran):
    path = checkpoint(ran, 2)
    assert list(state.read(path).diff(state.read(path), internal=True)) == []


def test_state_that_is_the_same_files_is_not_read(ran, monkeypatch):
    path = checkpoint(ran, 2)
    monkeypatch.setattr(state.Snapshot, "table_of", lambda *_, **__: pytest.fail("it was read"))
    assert list(state.read(path).diff(state.read(path))) == []


def test_diff_distinguishes_windows(windows, ran_windows):
    rows = list(windows.diff(state.read(checkpoint(ran_windows, 3))))
    contents = [row for row in rows if (row.operator, row.state) == ("tumbling", "window-contents")]
    assert {row.change for row in contents} == {"added", "removed"}
    assert {(row.key, row.window) for row in contents} == {
        ("ann", (0, 10)),
        ("bob", (0, 10)),
        ("ann", (10, 20)),
        ("cid", (10, 20)),
    }
    assert "merging-window-set" not in {row.state for row in rows}
    internal = windows.diff(state.read(checkpoint(ran_windows, 3)), internal=True)
    assert "merging-window-set" in {row.state for row in internal}


def test_another_backend_and_parallelism_make_no_difference(ran, backend, cluster, tmp_path):
    other = {"hashmap": "rocksdb", "rocksdb": "hashmap"}[backend]
    run_everything(stateful_environment(other, tmp_path, parallelism=3))
    rows = list(state.read(checkpoint(ran, 2)).diff(state.read(checkpoint(tmp_path, 2))))
    assert [row for row in rows if "kept" not in row.state] == []


def test_operator_state_is_compared(cluster, tmp_path):
    run_operator_state(stateful_environment("hashmap", tmp_path))
    first, third = (state.read(checkpoint(tmp_path, number)) for number in (1, 3))
    rows = list(first.diff(third))
    added = sorted(row.after for row in rows if row.state == "mine")
    assert added == [3, 12, 14]
    assert {row.change for row in rows if row.state == "mine"} == {"added"}
    assert [row for row in rows if row.state == "rules"] == []


def test_only_snapshots_can_be_compared(everything):
    with pytest.raises(ArgumentTypeError, match="cannot compare a snapshot with a str"):
        everything.diff("chk-3")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, True, False),
        ("a", "b", False),
        (Plain(1), Plain(1), True),
        (Plain(1), Plain(2), False),
        ([Plain(1)], [Plain(1)], True),
        (float("nan"), float("nan"), True),
    ],
)
def test_values_are_the_same_if_they_are_equal_or_pickle_alike(one, other, same):
    assert _same(one, other) is same

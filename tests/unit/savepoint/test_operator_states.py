"""Which operator states of a checkpoint have to find a place when a job starts from it."""

from __future__ import annotations

import pickle

import pytest

from penstock.checkpoint.manifest import Manifest, SubtaskSnapshot, VertexSnapshot
from penstock.runtime.state.operator_state import BROADCAST, EMITTED, IDLE, SPLIT, UNION, WRITERS
from penstock.savepoint.operator_states import operator_states, without_operator_states


def manifest(*subtasks):
    """A checkpoint of one vertex, by subtask the states of its operators."""
    found = tuple(
        SubtaskSnapshot(local=None if each is None else pickle.dumps({"operators": each}))
        for each in subtasks
    )
    return Manifest("job", "job", 1, 0, vertices={"v": VertexSnapshot(found)}, operators={})


@pytest.mark.parametrize(
    ("name", "value", "has_to_be_placed"),
    [
        (f"{SPLIT}elements", [1], True),
        (f"{UNION}elements", [1], True),
        (f"{BROADCAST}rules", {"a": 1}, True),
        (WRITERS, ["a file"], True),
        (f"{SPLIT}elements", [], False),
        (f"{UNION}elements", [], False),
        (f"{BROADCAST}rules", {}, False),
        (EMITTED, 5, False),
        (IDLE, True, False),
        ("timer watermark", 5, False),
    ],
)
def test_list_union_and_broadcast_state_that_hold_something_must_be_placed(
    name, value, has_to_be_placed
):
    expected = {"op": [name]} if has_to_be_placed else {}
    assert operator_states(manifest({"op": {name: value}})) == expected


def test_states_of_all_subtasks_count_once():
    held = manifest(
        {"one": {f"{SPLIT}a": [1], EMITTED: 3}},
        None,
        {"one": {f"{SPLIT}a": [2], f"{BROADCAST}b": {1: 1}}, "two": {f"{UNION}c": [1]}},
    )
    assert operator_states(held) == {"one": [f"{SPLIT}a", f"{BROADCAST}b"], "two": [f"{UNION}c"]}


def test_states_that_may_be_dropped_are_left_out():
    held = manifest({"one": {f"{BROADCAST}b": {1: 1}}, "two": {f"{UNION}c": [1]}})
    assert operator_states(without_operator_states(held, {"one"})) == {"two": [f"{UNION}c"]}
    assert without_operator_states(held, {"three"}) == held

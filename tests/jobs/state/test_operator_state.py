"""State that belongs to subtasks: list, union list, broadcast, CEP, and what operators keep of themselves."""

from __future__ import annotations

import pytest

from penstock import state
from penstock.cep import CEP, Pattern
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import MONOTONOUS, checkpoint, run_operator_state, script


@pytest.fixture
def operators(cluster, tmp_path):
    run_operator_state(stateful_environment("hashmap", tmp_path))
    return state.read(checkpoint(tmp_path, 3))


def test_list_state_by_subtask(operators):
    table = operators.operator_state("buffer", "mine")
    assert table.columns == ("subtask", "position", "value")
    assert sorted(row.value for row in table) == [1, 2, 3, 12, 14]
    assert operators.operator_state("buffer", "all").head() == [(0, 0, 14)]


def test_broadcast_state_is_shown_once(operators):
    table = operators.operator_state("follow", "rules")
    assert table.columns == ("key", "value")
    assert sorted(table) == [("floor", 1), ("limit", 7)]


def test_kinds_of_operator_state(operators):
    kinds = {s.name: s.kind for op in operators.operators for s in op.states if not s.is_keyed}
    assert kinds["mine"] == "operator list"
    assert kinds["all"] == "union list"
    assert kinds["rules"] == "broadcast"
    assert kinds["emitted"] == "operator"


def test_internal_state_of_an_operator(operators):
    table = operators.operator_state("numbers", "emitted")
    assert table.columns == ("subtask", "value")
    assert table.head()[0] == (0, 13)


def test_partial_matches_and_waiting_events_are_listed(cluster, tmp_path):
    env = stateful_environment("hashmap", tmp_path)
    source = env.from_source(script([("ann", 1), ("ann", 3)], [("bob", 5)]), MONOTONOUS, "numbers")

    def odd(pair, *_):
        return pair[1] % 2 == 1

    pattern = Pattern.begin("a").where(odd).next("b").where(odd).next("c").where(odd)
    matches = CEP.pattern(source.key_by(lambda pair: pair[0]), pattern).select(str)
    with matches.uid("cep").execute_and_collect() as found:
        list(found)
    snapshot = state.read(checkpoint(tmp_path, 1))
    states = {each.name: each for each in snapshot.operator("cep").states}
    assert states["cep/queue"].internal
    assert states["cep/runs"].internal
    assert [row.key for row in snapshot.state("cep", "cep/runs")] == ["ann"]
    assert snapshot.state("cep", "cep/queue", explode=True).head() == [("ann", 0, (3, ("ann", 3)))]

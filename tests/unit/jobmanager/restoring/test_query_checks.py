"""State that was made for another query, without running either of them."""

from __future__ import annotations

import logging
import pickle
from dataclasses import replace
from typing import Any

import pytest

from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import (
    Manifest,
    OperatorSnapshot,
    SourceSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
    decode,
    encode,
)
from penstock.checkpoint.pickled import Pickled
from penstock.errors import RestoreRefusedError
from penstock.graph.compiler import compile_program
from penstock.graph.deployment import JobSettings
from penstock.graph.settings import GraphSettings
from penstock.graph.state_description import StateDescription
from penstock.jobmanager.job import CheckpointSettings, Job, Program
from penstock.jobmanager.restoring.query_checks import check_queries
from penstock.sql.physical.translate import translate
from tests.builders.checkpoint_builders import full
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.logical.plans import plan as logical_plan
from tests.unit.sql.physical.plans import Toys, planner
from tests.unit.sql.physical.test_state_descriptions import LOOKUP, TABLES

SUM = "SELECT auction, SUM(price) AS total FROM bids GROUP BY auction"
MAX = SUM.replace("SUM", "MAX")
WAITING = "list/in flight"


def job(query: str, *, restarts: bool = False) -> Job:
    """A job that runs a query; `restarts`: operators whose query has changed start without state."""
    ends = translate(planner(Toys()).plan([logical_plan(query, Catalog(*TABLES))]))
    settings = GraphSettings(job_name="query", parallelism=2)
    plans = compile_program(ends, settings)
    return Job(
        job_id="a" * 32,
        name="query",
        program=Program(tuple(ends), settings),
        plan=plans.stage_plan,
        job_graph=plans.job_graph,
        deployments=(),
        settings=JobSettings("a" * 32, "query"),
        checkpoints=CheckpointSettings("nowhere", False, restart_changed_operators=restarts),
        restart_strategy=None,
    )


def written(query: str, *, keyed: bool = True, local: Any = None, **changed: Any) -> Manifest:
    """The last checkpoint of a query, read back: every operator with a description has state."""
    operators, vertices, sources = {}, {}, {}
    for vertex in job(query).plan.vertices:
        for each in vertex.operators:
            if each.state_description is None:
                continue
            if each.kind == "source":
                sources[each.operator_id] = SourceSnapshot(Pickled.of(None), (Pickled.of(()),) * 2)
            of_keys = keyed and each.kind != "source"
            chain = StateChain((full("shared/state", 10),) if of_keys else ())
            operators[each.operator_id] = replace(
                OperatorSnapshot(None, each.name, vertex.id, 128, (chain,) * 2),
                **{"description": each.state_description, **changed},
            )
            if each.kind == "source":
                continue
            held = {"operators": {each.operator_id: {} if local is None else {WAITING: local}}}
            subtask = SubtaskSnapshot(local=pickle.dumps(held))
            vertices[vertex.id] = VertexSnapshot((subtask, subtask))
    manifest = Manifest(
        "b" * 32, "query", 7, 0, vertices=vertices, operators=operators, sources=sources
    )
    return decode(encode(manifest), "manifest")


def test_a_changed_query_is_refused_with_both_descriptions() -> None:
    with pytest.raises(RestoreRefusedError) as refused:
        check_queries(job(MAX), written(SUM))
    lines = (refused.value.detail or "").splitlines()
    assert lines[0].endswith("differs in aggregates")
    assert lines[1].startswith(
        "  state: GroupAggregate(keys=[bids.auction BIGINT], aggregates=[SUM("
    )
    assert lines[2].startswith(
        "  query: GroupAggregate(keys=[bids.auction BIGINT], aggregates=[MAX("
    )


def test_the_same_query_goes_on_with_all_its_state(caplog: pytest.LogCaptureFixture) -> None:
    before = written(SUM)
    assert check_queries(job(SUM), before) is before
    assert caplog.messages == []


def test_an_operator_that_starts_without_state_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        left = check_queries(job(MAX, restarts=True), written(SUM))
    assert not any(each.is_stateful for each in left.operators.values())
    (line,) = caplog.messages
    assert "GroupAggregate" in line
    assert "starts without state" in line


def test_an_operator_without_state_is_not_compared() -> None:
    before = written(SUM, keyed=False)
    assert check_queries(job(MAX), before) is before


@pytest.mark.parametrize("old", ["none", "of another version"])
def test_state_that_cannot_be_compared_is_restored_with_one_warning(
    old: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = None if old == "none" else StateDescription("GroupAggregate", {}, version=99)
    before = written(SUM, description=other)
    with caplog.at_level(logging.WARNING):
        assert check_queries(job(MAX), before) is before
    (line,) = caplog.messages
    assert "has no description that this version can read" in line


BOTH = "SELECT auction, price FROM bids UNION ALL SELECT auction, price FROM asks"
SWAPPED = "SELECT auction, price FROM asks UNION ALL SELECT auction, price FROM bids"


def test_positions_of_another_table_of_the_query_are_refused() -> None:
    with pytest.raises(RestoreRefusedError) as refused:
        check_queries(job(SWAPPED), written(BOTH))
    lines = (refused.value.detail or "").splitlines()
    assert [line.strip() for line in lines[1:3]] == [
        "state: Source(table=[default_catalog.default_database.bids])",
        "query: Source(table=[default_catalog.default_database.asks])",
    ]


def test_a_source_of_another_table_starts_again_where_that_is_allowed() -> None:
    before = written(f"{BOTH} UNION ALL SELECT id, price FROM moments")
    new = job(f"{SWAPPED} UNION ALL SELECT id, price FROM moments", restarts=True)
    left = check_queries(new, before)
    assert len(before.sources) == 3
    assert len(left.sources) == 1


def test_a_source_whose_table_has_another_name_goes_on() -> None:
    before = written("SELECT auction, price FROM bids")
    assert check_queries(job("SELECT auction, price FROM asks"), before) is before


def test_records_in_flight_belong_to_the_old_query() -> None:
    before = written(SUM)
    (name, vertex), *_ = before.vertices.items()
    first, second = vertex.subtasks
    held = VertexSnapshot((first, replace(second, in_flight=full("shared/in-flight", 7))))
    unaligned = replace(before, vertices={name: held})
    with pytest.raises(RestoreRefusedError, match="from an unaligned checkpoint"):
        check_queries(job(MAX, restarts=True), unaligned)


def test_rows_that_wait_for_answers_of_a_lookup_are_compared_too() -> None:
    other = LOOKUP.replace("b.price, l.name", "b.price, b.tip, l.name")
    before = written(LOOKUP, keyed=False, local=[b"rows"])
    with pytest.raises(RestoreRefusedError, match="has state of another query"):
        check_queries(job(other), before)
    left = check_queries(job(other, restarts=True), before)
    states = [
        pickle.loads(subtask.local or b"")["operators"]
        for vertex in left.vertices.values()
        for subtask in vertex.subtasks
    ]
    assert states == [{}, {}]

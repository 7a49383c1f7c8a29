"""The plans of a dozen job shapes, as JSON. PENSTOCK_UPDATE_SNAPSHOTS=1 writes the files again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from penstock.graph.compiler import compile_program, execution_plan
from penstock.jobmanager.execution import execution_graph
from tests.unit.graph.builder import SHAPES

SNAPSHOTS = Path(__file__).parent / "snapshots"


def render(shape: str) -> str:
    plans = compile_program(*SHAPES[shape]())
    shown = {
        "explained": plans.stage_plan.explain().splitlines(),
        **plans.to_json(),
        "execution_plan": execution_plan(plans.stream_graph),
    }
    return json.dumps(shown, indent=1) + "\n"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_plans_of_a_job_shape_are_those_on_file(shape: str) -> None:
    path = SNAPSHOTS / f"{shape}.json"
    shown = render(shape)
    if os.environ.get("PENSTOCK_UPDATE_SNAPSHOTS"):
        path.write_text(shown)
    assert shown == path.read_text()


def test_there_is_no_snapshot_without_a_shape() -> None:
    assert {path.stem for path in SNAPSHOTS.glob("*.json")} == set(SHAPES)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_plan_shows_an_address(shape: str) -> None:
    plans = compile_program(*SHAPES[shape]())
    running = execution_graph.generate(plans.job_graph, job_id="j", now_ms=0)
    text = json.dumps([plans.to_json(), running.to_json()])
    assert " at 0x" not in text
    assert "object at" not in text

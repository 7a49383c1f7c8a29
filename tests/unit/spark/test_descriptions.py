"""What Spark's UI shows for the jobs of Spark that run ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.spark.descriptions import describe_epoch, describe_stage


def part(*names: str, **more: Any) -> Any:
    return SimpleNamespace(vertices=[SimpleNamespace(name=name) for name in names], **more)


def test_an_epoch_has_its_job_its_checkpoint_and_its_vertices() -> None:
    levels = [part("Source", checkpoint_id=7), part("Count -> Sink", checkpoint_id=7)]
    assert describe_epoch("fraud", levels) == "fraud: checkpoint 7: Source; Count -> Sink"
    assert describe_epoch("fraud", []) == "fraud"


def test_a_stage_has_its_job_its_attempt_and_its_vertices() -> None:
    assert describe_stage("fraud", part("Source", attempt_number=0)) == "fraud: attempt 1: Source"


def test_the_names_of_many_vertices_are_cut() -> None:
    found = describe_stage("fraud", part(*["Map"] * 100, attempt_number=2))
    assert found.startswith("fraud: attempt 3: Map; Map")
    assert found.endswith("...")
    assert len(found) < 230

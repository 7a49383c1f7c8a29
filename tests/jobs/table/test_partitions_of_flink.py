"""Partitions are committed when Flink SQL 2.3 commits them: `tools/record_flink_partitions.py` has asked it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from penstock.common import Configuration
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.modes import MODES
from tests.builders.partition_commits import (
    SCENARIOS,
    STEPS,
    committed,
    forget,
    give,
    statements,
)
from tests.builders.waiting import wait_until

RECORDED: dict[str, list[list[str]]] = json.loads(
    Path(__file__).with_name("partition_commits.json").read_text("utf-8")
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_partitions_are_committed_step_by_step(
    tmp_path: Path, name: str, mode: str
) -> None:
    configuration = Configuration()
    configuration.set_string("penstock.execution.mode", mode)
    configuration.set_string("parallelism.default", "1")
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    configuration.set_string("execution.checkpointing.dir", str(tmp_path / "checkpoints"))
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    *made, insert = statements(tmp_path, name, "parquet")
    for statement in made:
        tables.execute_sql(statement)
    with MiniCluster():
        client = tables.execute_sql(insert).get_job_client()
        assert client is not None
        for step, expected in enumerate(RECORDED[name]):
            give(tmp_path, step)
            wait_until(lambda step=step: written(tmp_path, step) == len(STEPS[step]))
            wait_until(lambda expected=expected: set(committed(tmp_path)) >= set(expected))
            # What the step before it has committed too much is here now.
            assert committed(tmp_path) == expected
            forget(tmp_path, expected)
        client.cancel().result(60)


def written(home: Path, step: int) -> int:
    """Return how many rows of a step can be read."""
    files = [*(home / "out").rglob("part-*")]
    return sum(pl.read_parquet(each)["id"].eq(step).sum() for each in files)

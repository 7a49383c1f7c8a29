"""Programs that spark-submit has started: which of their options count."""

from __future__ import annotations

import pytest

from penstock.errors import suppresses_restarts
from penstock.spark import submitted

SUBMITTED = {"spark.master": "yarn", "spark.submit.deployMode": "cluster", "spark.app.name": "x"}


def test_a_program_may_set_all_options_but_where_it_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"spark.master": "local[2]", "spark.app.name": "mine", "spark.executor.memory": "1g"}
    kept = submitted.without_submits(given, SUBMITTED)
    assert kept == {"spark.app.name": "mine", "spark.executor.memory": "1g"}
    (record,) = caplog.records
    assert record.getMessage().startswith("spark.master=local[2] is ignored")


def test_the_same_master_again_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    assert submitted.without_submits({"spark.master": "yarn"}, SUBMITTED) == {}
    assert caplog.records == []


def test_a_driver_on_the_cluster_ends_with_its_application() -> None:
    assert submitted.in_cluster_mode(SUBMITTED)
    assert not submitted.in_cluster_mode({**SUBMITTED, "spark.submit.deployMode": "client"})
    assert suppresses_restarts(submitted.ended())

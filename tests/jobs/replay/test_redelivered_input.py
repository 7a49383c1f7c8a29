"""An interval whose source delivered again is replayed from a source that delivers other things again."""

from __future__ import annotations

import pytest

from penstock.common import WatermarkStrategy
from penstock.runtime.operators.connectors.redelivery import REDELIVERED
from tests.builders.brokers import Broker
from tests.jobs.replay.programs import ShowTime
from tests.jobs.replay.recorded_runs import record_run
from tests.jobs.replay.test_replayed_epochs import OFTEN, check_all_epochs


def build(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_source(Broker((60, 90), waits=0.2), strategy, "broker")
    shown = stream.process(ShowTime())
    return shown.key_by(lambda each: each[0][1] % 5).reduce(lambda one, other: (*other, one[0]))


@pytest.mark.parametrize("keep_subtasks", [True, False], ids=["cached", "restored"])
def test_replay_is_independent_of_redelivered_records(keep_subtasks, tmp_path):
    run = record_run(build, tmp_path, seed=11, keep_subtasks=keep_subtasks, options=OFTEN)
    check_all_epochs(run)
    counted = [report.get(REDELIVERED, ("counter", 0))[1] for report in run.master.metrics.values()]
    assert sum(counted) > 0

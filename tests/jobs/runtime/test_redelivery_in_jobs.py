"""Jobs whose source delivers again: through failures, changes of parallelism and savepoints each record counts once."""

from __future__ import annotations

import logging

import pytest

from penstock.common import WatermarkStrategy
from penstock.runtime.operators.connectors.redelivery import REDELIVERED
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, moments, protocol_faults
from tests.builders.brokers import Broker
from tests.builders.environments import configured, restarts
from tests.builders.scripted import collect
from tests.builders.steps import before_each_epoch

LENGTHS = (1, 25, 60)
RECORDS = [(str(split), number) for split, length in enumerate(LENGTHS) for number in range(length)]


def stream_of(source, parallelism=2, **options):
    settings = {"execution.checkpointing.interval": "1 ms", **restarts(100), **options}
    env = configured(settings, parallelism)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "broker").uid("broker")


def redelivered(master):
    return sum(report.get(REDELIVERED, ("counter", 0))[1] for report in master.metrics.values())


@pytest.mark.parametrize("tells", ["positions", "start"])
def test_failures_between_the_steps_of_a_checkpoint(tells, caplog):
    faults = [
        StepFault(moment, occurrence) for moment in moments("epochs")[:6] for occurrence in (2, 5)
    ]
    source = Broker(LENGTHS, tells=tells)
    with (
        caplog.at_level(logging.INFO, "penstock.jobmanager.sources.source_coordinator"),
        MiniCluster() as cluster,
        protocol_faults(*faults) as injected,
    ):
        found = collect(stream_of(source))
    assert len(injected.struck) == len(faults)
    assert sorted(found) == RECORDS
    assert redelivered(cluster.masters[0]) > 0
    said = [
        record
        for record in caplog.records
        if "redelivered records that it had read" in record.message
    ]
    assert len(said) == 1


def test_splits_that_move_to_other_subtasks_take_their_positions_along():
    parallelism = {3: 3, 6: 1, 9: 2}
    with MiniCluster() as cluster:

        def act(checkpoint_id):
            if checkpoint_id in parallelism:
                cluster.masters[0].request_rescale(parallelism[checkpoint_id])

        with before_each_epoch(act):
            found = collect(stream_of(Broker(LENGTHS)))
    assert cluster.masters[0].restarts == 0
    assert max(v.parallelism for v in cluster.masters[0].job.plan.vertices) == 2
    assert sorted(found) == RECORDS
    assert redelivered(cluster.masters[0]) > 0


def test_a_savepoint_has_the_positions(tmp_path):
    answers = []
    with MiniCluster() as cluster:

        def act(checkpoint_id):
            if checkpoint_id == 4:
                answers.append(cluster.masters[0].request_savepoint(str(tmp_path), stops=True))

        with before_each_epoch(act):
            first = collect(stream_of(Broker(LENGTHS, bounded=False)))
    path = answers[0].result(60)
    with MiniCluster():
        rest = collect(
            stream_of(Broker(LENGTHS), 3, **{"execution.state-recovery.path": path}),
        )
    assert first
    assert rest
    assert sorted(first + rest) == RECORDS

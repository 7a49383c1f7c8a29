"""Splits that the source of a job finds again are not read again."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.common import WatermarkStrategy
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, moments, protocol_faults
from tests.builders.environments import configured, restarts
from tests.builders.forgetful import Forgetful


@pytest.mark.parametrize("always", [False, True], ids=["after a restart", "before every epoch"])
def test_a_job_whose_source_forgets_reads_every_record_once(always):
    env = configured({"execution.checkpointing.interval": "1 ms", **restarts(100)}, 2)
    lengths = (1, 3, 12)
    source = Forgetful(lengths, always=always)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "forgetful")
    faults = [StepFault(moment, 2) for moment in moments("epochs")[:4]]
    with (
        MiniCluster(),
        protocol_faults(*faults) as injected,
        stream.execute_and_collect() as found,
    ):
        records = Counter(found)
    assert len(injected.struck) == len(faults)
    assert records == {(str(n), i): 1 for n, size in enumerate(lengths) for i in range(1, size + 1)}

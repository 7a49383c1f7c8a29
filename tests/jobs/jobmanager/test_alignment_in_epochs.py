"""Watermark alignment in epochs: there is none, and that is said."""

from __future__ import annotations

import logging

from penstock.common import Duration
from penstock.testing import MiniCluster
from tests.builders.scripted import MONOTONOUS, collect, environment, read


def test_a_job_in_epochs_that_asks_for_alignment_is_warned(caplog):
    strategy = MONOTONOUS.with_watermark_alignment("orders", Duration.of_seconds(1))
    with MiniCluster(), caplog.at_level(logging.WARNING):
        assert collect(read(environment(), [[(1, 1)]], strategy=strategy).map(lambda n: n)) == [1]
    assert "watermark alignment (orders) has no effect in epoch mode" in caplog.text

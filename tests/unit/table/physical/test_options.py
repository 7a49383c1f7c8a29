"""Options of the planner."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.table.physical.options import check_option


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("table.exec.state.tll", "1 h", "did you mean table.exec.state.ttl?"),
        ("table.exec.state.ttl", "long", "cannot be 'long'"),
        ("table.exec.sink.upsert-materialize", "SOMETIMES", "NONE, AUTO, FORCE"),
        ("table.optimizer.reuse-sub-plan", "true", "table.optimizer.reuse-sub-plan-enabled"),
    ],
)
def test_options_that_are_unknown_or_cannot_be_read_are_refused(key, value, says):
    with pytest.raises(ConfigurationError) as caught:
        check_option(key, value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("table.exec.state.ttl", "1 h"), ("table.exec.mini-batch.size", "500"), ("table.dml-sync", "true")],
)  # fmt: skip
def test_options_of_flink_are_taken(key, value):
    check_option(key, value)

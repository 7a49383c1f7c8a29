"""Operator state that cannot be initialized."""

from __future__ import annotations

import pytest

from penstock.datastream import CheckpointedFunction, MapFunction
from penstock.errors.user_errors import UserCodeError
from tests.builders.scripted import collect, environment


def test_errors_of_initialize_state_name_the_operator(cluster):
    class Bad(MapFunction, CheckpointedFunction):
        def initialize_state(self, context):
            raise ValueError("no state today")

        def snapshot_state(self, context):
            pass

        def map(self, value):
            return value

    with pytest.raises(Exception, match="no state today") as caught:
        collect(environment().from_collection([1]).map(Bad()))
    assert "in operator 'Map'" in str(caught.value)
    assert not isinstance(caught.value, UserCodeError)

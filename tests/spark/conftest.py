"""One Spark context for the whole suite."""

from __future__ import annotations

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.session import get_context


@pytest.fixture(scope="session", autouse=True)
def spark():
    return get_context({"spark.master": "local[2,4]"})


@pytest.fixture
def env():
    """An environment that checks the order of every channel."""
    configuration = Configuration.from_dict({"penstock.debug.check-order": "true"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)

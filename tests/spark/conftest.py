"""One Spark context for the whole suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.rest import publish
from penstock.spark.session import get_context

TIMEOUT_S = 60


@pytest.fixture(scope="session", autouse=True)
def spark():
    return get_context({"spark.master": "local[2,4]"})


@pytest.fixture(autouse=True)
def _no_job_keeps_its_slots() -> Iterator[None]:
    """A job that a failed test leaves running would hold the slots that the next tests wait for."""
    yield
    endpoint = publish.publisher().endpoint
    if endpoint is not None:
        for job in endpoint.services.jobs.controllers():
            job.cancel().result(TIMEOUT_S)


@pytest.fixture
def env():
    """An environment that checks the order of every channel."""
    configuration = Configuration.from_dict({"penstock.debug.check-order": "true"})
    return StreamExecutionEnvironment.get_execution_environment(configuration)

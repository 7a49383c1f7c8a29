"""An environment per test, an executor that runs nothing, and small sources and sinks."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from penstock.client.executors import set_executor
from penstock.common import WatermarkStrategy
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Boundedness, Source
from penstock.datastream import StreamExecutionEnvironment


class FakeController:
    """A job that ends when the test says so."""

    def __init__(self):
        self.result = Future()
        self.cancelled = False
        self.job_id = JobID()

    def get_job_id(self):
        return self.job_id

    def get_job_execution_result(self):
        return self.result

    def succeed(self):
        self.result.set_result(JobExecutionResult(self.job_id, 1))

    def cancel(self):
        self.cancelled = True


class FakeExecutor:
    """Remembers what it was given."""

    def __init__(self):
        self.submitted = []
        self.controllers = []
        self.on_submit = lambda controller, transformations: controller.succeed()

    def submit(self, transformations, settings, configuration, job_name, *, step_hooks=()):
        self.submitted.append((transformations, settings, configuration, job_name))
        controller = FakeController()
        self.controllers.append(controller)
        self.on_submit(controller, transformations)
        return controller


class QuietSource(Source):
    """A source without records, whose records would have no timestamps."""

    carries_timestamps = False

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism, restored=None):
        raise NotImplementedError

    def create_reader(self):
        raise NotImplementedError


class PathSink(Sink):
    """A sink that writes to one path."""

    def __init__(self, path=None):
        self.path = path

    def create_writer(self, context, restored=None):
        raise NotImplementedError

    def output_path(self):
        return self.path


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def executor():
    fake = FakeExecutor()
    before = set_executor(fake)
    yield fake
    set_executor(before)


@pytest.fixture
def stream(env):
    """Elements without timestamps, from a parallel source."""
    return env.from_source(QuietSource(), WatermarkStrategy.no_watermarks(), "quiet")

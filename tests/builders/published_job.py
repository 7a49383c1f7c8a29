"""A small job that runs without end in this process, for the REST API to show."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream.connectors import DataGeneratorSource
from penstock.rest.routing.routes import Services
from penstock.testing import MiniCluster
from tests.builders.environments import configured


@contextlib.contextmanager
def run_numbers(services: Services, directory: Path) -> Iterator[str]:
    """Run a job of two vertices and publish it; its id."""
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(directory / "checkpoints"),
    }
    with MiniCluster("pipelined") as cluster:
        env = configured(options, 2)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1))
        source = DataGeneratorSource(lambda i: i % 5, rate_per_second=1000)
        numbers = env.from_source(source, strategy, "numbers")
        numbers.key_by(lambda n: n).reduce(lambda a, b: a + b).filter(lambda _: False).print()
        submit = cluster.submit

        def submit_and_publish(*arguments, **options):
            controller = submit(*arguments, **options)
            services.jobs.publish(controller)
            return controller

        cluster.submit = submit_and_publish
        job = env.execute_async("numbers")
        try:
            yield str(job.get_job_id())
        finally:
            job.cancel().result()

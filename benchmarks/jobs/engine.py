"""What the job files share: their command line, the engine's modules, the clock."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from types import ModuleType
from typing import Any


class Run:
    """One run of a job: the engine, where to read and where to write."""

    def __init__(self, **choices: list[str]) -> None:
        """`choices` are options that only this job has, each with its values, the default first."""
        parser = argparse.ArgumentParser()
        for name, values in choices.items():
            parser.add_argument(f"--{name}", choices=values, default=values[0])
        parser.add_argument("--engine", choices=["penstock", "pyflink"], default="penstock")
        parser.add_argument("--input", required=True)
        parser.add_argument("--output", required=True)
        parser.add_argument("--parallelism", type=int, default=2)
        parser.add_argument("--local-global", action="store_true")
        parser.add_argument("--sleep-us", type=int, default=0, help="what a record costs")
        parser.add_argument("--no-spark", action="store_true", help="run in this process")
        parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE")
        self.args = parser.parse_args()

    def module(self, name: str) -> ModuleType:
        """Import `pyflink.<name>` or `penstock.<name>`: the names in them are the same."""
        return importlib.import_module(f"{self.args.engine}.{name}")

    def environment(self) -> Any:
        """Make the environment. The JVM and, with Penstock, Spark are up when this returns, if there are any."""
        configuration = self.module("common").Configuration()
        if self.args.engine == "pyflink":
            configuration.set_string("python.executable", sys.executable)
            configuration.set_string("python.client.executable", sys.executable)
        for pair in self.args.config:
            configuration.set_string(*pair.split("=", 1))
        if self.args.no_spark:
            self.module("testing").MiniCluster().__enter__()
        elif self.args.engine == "penstock":
            warm_up = getattr(
                importlib.import_module("penstock.spark.session"), "get_context", None
            )
            if warm_up is not None:
                warm_up()
        environment = self.module("datastream").StreamExecutionEnvironment
        env = environment.get_execution_environment(configuration)
        env.set_parallelism(self.args.parallelism)
        return env

    def lines(self, env: Any) -> Any:
        """The input as a stream of lines."""
        files = self.module("datastream.connectors.file_system")
        source = files.FileSource.for_record_stream_format(
            files.StreamFormat.text_line_format(), self.args.input
        ).build()
        strategy = self.module("common").WatermarkStrategy.no_watermarks()
        return env.from_source(source, strategy, "bids")

    def write(self, stream: Any) -> None:
        """Write a stream of strings to the output."""
        files = self.module("datastream.connectors.file_system")
        encoder = self.module("common.serialization").Encoder.simple_string_encoder()
        stream.sink_to(files.FileSink.for_row_format(self.args.output, encoder).build())

    def execute(self, env: Any) -> None:
        """Run the job and print how long it took, as the last line; in one process its CPU time is what counts."""
        now = time.process_time if self.args.no_spark else time.perf_counter
        start = now()
        env.execute("benchmark")
        print(json.dumps({"seconds": now() - start}), flush=True)

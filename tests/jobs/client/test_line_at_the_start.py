"""The line at the start of a job says in which mode it runs, and why."""

from __future__ import annotations

import pytest

from penstock.client.local_cluster import LocalCluster
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import NumberSequenceSource
from tests.builders.counting_job import Slowly

BOUNDED, UNBOUNDED = NumberSequenceSource(1, 3), Slowly()
CASES = {
    "a bounded job": ("auto", BOUNDED, {}, "epoch mode (all sources are bounded)"),
    "an unbounded job": ("auto", UNBOUNDED, {}, "pipelined mode (a source is unbounded)"),
    "a batch job": (
        "auto", BOUNDED, {"execution.runtime-mode": "BATCH"}, "epoch mode (BATCH job)",
    ),
    "an option": (
        "auto", BOUNDED, {"penstock.execution.mode": "pipelined"},
        "pipelined mode (set by penstock.execution.mode)",
    ),
    "without Spark": ("epochs", UNBOUNDED, {}, "epoch mode (the default without Spark)"),
    "a cluster of a test": (
        "pipelined", BOUNDED, {}, "pipelined mode (the mode of the MiniCluster)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_mode_has_a_reason(capsys, case):
    mode, source, options, text = CASES[case]
    given = {"penstock.progress": "lines", "penstock.rest.enabled": "false", **options}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
    env.set_parallelism(1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.filter(lambda _: False).print()
    with LocalCluster(mode):
        client = env.execute_async("numbers")
    client.cancel().result()
    first = capsys.readouterr().err.splitlines()[0]
    # A page that another job of this process has opened is named after it.
    said = first.partition(", page ")[0]
    assert said.endswith(f"starts in this process in {text}, parallelism 1")

"""A warning names the sinks of a job that publish nothing, because it takes no checkpoints."""

from __future__ import annotations

import pytest

from penstock.common import Encoder, JobStatus, WatermarkStrategy
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing import MiniCluster
from tests.builders.counting_job import Slowly
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

EVERY_SECOND = {"execution.checkpointing.interval": "1 s"}


def warnings_of(caplog, mode, source, sink, options):
    env = configured(options, 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(str)
    numbers.print() if sink is None else numbers.sink_to(sink).name("archive")
    with MiniCluster(mode):
        client = env.execute_async("numbers")
    wait_until(lambda: client.get_job_status().result() is not JobStatus.CREATED)
    client.cancel().result()
    return [each.getMessage() for each in caplog.records if "publishes" in each.getMessage()]


@pytest.fixture
def files(tmp_path):
    path = str(tmp_path / "out")
    return FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()


def test_a_pipelined_job_without_checkpoints_is_warned_about_its_files(caplog, files):
    (warning,) = warnings_of(caplog, "pipelined", Slowly(), files, {})
    assert warning.startswith("job 'numbers': 'Sink: archive' publishes output with checkpoints")
    assert "set execution.checkpointing.interval" in warning


@pytest.mark.parametrize("case", ["epochs", "checkpoints", "bounded", "printed"])
def test_output_that_becomes_visible_needs_no_warning(caplog, files, case):
    mode = "epochs" if case == "epochs" else "pipelined"
    source = NumberSequenceSource(1, 3) if case == "bounded" else Slowly()
    options = EVERY_SECOND if case == "checkpoints" else {}
    sink = None if case == "printed" else files
    assert warnings_of(caplog, mode, source, sink, options) == []

"""Every user function sees every record exactly once, whatever the shape of the graph."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from penstock.common import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy

from .shapes import SHAPES

RECORDS = 120


def committed(directory: Path) -> Counter[int]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.startswith(".")]
    return Counter(int(line) for path in files for line in path.read_text().split())


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_function_sees_each_record_once(env, tmp_path, shape, parallelism):
    env.set_parallelism(parallelism)
    streams, counts, expected = shape(env, RECORDS)
    for index, stream in enumerate(streams):
        sink = FileSink.for_row_format(str(tmp_path / str(index)), Encoder.simple_string_encoder())
        stream.sink_to(
            sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
        )
    result = env.execute(shape.__name__)
    seen = {name: result.get_accumulator_result(f"{name}.seen") for name in counts}
    assert seen == counts
    assert committed(tmp_path) == expected

"""File sinks and sources whose file system fails now and then."""

from __future__ import annotations

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from penstock.errors import FileError, JobExecutionError
from penstock.files import retries
from penstock.testing import MiniCluster
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.environments import configured

ON_CHECKPOINT = RollingPolicy.on_checkpoint_rolling_policy()
DEFAULT = RollingPolicy.default_rolling_policy()
LINES = [f"{number:05d}" for number in range(3000)]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0))


def environment(tmp_path):
    options = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "disable",
    }
    return configured(options)


def copy_lines(tmp_path, rolling):
    env = environment(tmp_path)
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(tmp_path / "in")
    )
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
    sink.with_rolling_policy(rolling)
    sink.with_bucket_assigner(BucketAssigner.of(lambda line: f"digit={line[-1]}"))
    lines = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines")
    lines.map(lambda line: line, Types.STRING()).sink_to(sink.build())
    with MiniCluster() as cluster:
        env.execute()
        return cluster.masters[0]


def found(tmp_path):
    return sorted(
        line
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
        for line in path.read_text().splitlines()
    )


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "its answer is lost"])
@pytest.mark.parametrize(
    ("action", "rolling"),
    [
        ("write", ON_CHECKPOINT),
        ("read", ON_CHECKPOINT),
        ("look for", ON_CHECKPOINT),
        ("list", ON_CHECKPOINT),
        ("write", DEFAULT),
        ("look for", DEFAULT),
        ("delete", DEFAULT),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_job_continues_when_every_third_call_fails(tmp_path, action, rolling, after):
    (tmp_path / "in").mkdir()
    for part in range(3):
        text = "".join(f"{line}\n" for line in LINES[part::3])
        (tmp_path / "in" / f"part-{part}").write_text(text)
    where = {"read": "/in", "list": "/in"}.get(action, "/out")
    rule = StorageFaults(
        every=3 if action != "list" else None,
        last=1 if action == "list" else None,
        action=action,
        path=where,
        after=after,
    )
    with storage_faults(rule) as faults:
        master = copy_lines(tmp_path, rolling)
    assert faults.struck
    assert master.restarts == 0
    assert found(tmp_path) == LINES
    assert not list((tmp_path / "out").rglob(".*"))


def test_a_sink_that_is_full_says_so(tmp_path):
    (tmp_path / "in").write_text("a\n")
    rule = StorageFaults(full=True, path="/out")
    with storage_faults(rule), pytest.raises(JobExecutionError) as raised:
        copy_lines(tmp_path, ON_CHECKPOINT)
    assert "the file system is full: could not write file" in str(raised.value)


def test_a_sink_that_cannot_make_its_directory_says_so(tmp_path):
    (tmp_path / "in").write_text("a\n")
    (tmp_path / "out").write_text("a file")
    with pytest.raises(FileError, match=f"could not list the files of '{tmp_path}/out'") as raised:
        copy_lines(tmp_path, ON_CHECKPOINT)
    assert raised.value.message.endswith("is a file, not a directory")
    assert raised.value.hint == "delete the file or choose another path"

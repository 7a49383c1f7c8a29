"""Sources, sinks and what waits for its commit, with files on S3."""

from __future__ import annotations

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.errors import FileError
from penstock.files import retries
from penstock.files.file_system import resolve
from penstock.testing.storage_faults import StorageFaults, storage_faults
from tests.builders.steps import at_step
from tests.jobs.s3.jobs import EXPECTED, environment, fail, once, write_files, written


@pytest.mark.parametrize(
    "moment", ["before write_manifest", "before commit_sink", "after commit_sink"]
)
def test_output_is_published_once_wherever_the_job_fails(s3, cluster, moment):
    with at_step(moment, once(2, fail)):
        write_files(environment(s3), s3)
    assert cluster.masters[0].restarts == 1
    assert written(s3) == EXPECTED
    assert not any("/." in name for name in s3.list("out"))  # nothing is left behind


def test_nothing_is_visible_before_its_checkpoint(s3, cluster):
    seen = []
    with at_step("before write_manifest", once(2, lambda: seen.extend(written(s3)))):
        write_files(environment(s3), s3)
    assert len(seen) == 6


def test_files_are_read(s3, cluster):
    for number in range(3):
        s3.write(f"in/day={number}/part.txt", b"".join(b"%d-%d\n" % (number, n) for n in range(4)))
    s3.write("in/day=0/.hidden", b"hidden\n")
    env = environment(s3)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), s3.uri("in"))
    lines = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines")
    with lines.execute_and_collect() as found:
        assert sorted(found) == [f"{number}-{n}" for number in range(3) for n in range(4)]


def test_large_collections_and_large_results_wait_beside_the_checkpoints(s3, cluster):
    env = environment(s3)
    texts = [f"{number:06d}" * 100 for number in range(2000)]
    staged = []
    stream = env.from_collection(texts, Types.STRING()).map(lambda text: text, Types.STRING())
    with (
        at_step("before commit_sink", lambda checkpoint_id: staged.extend(s3.list("checkpoints"))),
        stream.execute_and_collect() as found,
    ):
        assert sorted(found) == texts
    assert any("/staging/output-" in name for name in staged)
    assert any("/input/" in name and "/collection-" in name for name in staged)
    left = s3.list("checkpoints")
    assert not any("/staging/" in name or "/input/" in name for name in left)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "its answer is lost"])
@pytest.mark.parametrize("action", ["write", "look for"])
def test_output_is_published_once_where_every_third_call_fails(
    s3, cluster, monkeypatch, action, after
):
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0))
    rule = StorageFaults(every=3, action=action, path="/out", after=after)
    with storage_faults(rule) as faults:
        write_files(environment(s3), s3)
    assert faults.struck
    assert cluster.masters[0].restarts == 0
    assert written(s3) == EXPECTED
    assert not any("/." in name for name in s3.list("out"))


def test_files_are_read_where_every_second_read_fails(s3, cluster, monkeypatch):
    monkeypatch.setattr(retries, "PAUSES_S", (0.0, 0.0))
    lines = [f"{number:04d}" for number in range(2000)]
    s3.write("in/part.txt", "".join(f"{line}\n" for line in lines).encode())
    env = environment(s3)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), s3.uri("in"))
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines")
    with (
        storage_faults(StorageFaults(every=2, action="read", path="/in")) as faults,
        stream.execute_and_collect() as found,
    ):
        assert sorted(found) == lines
    assert faults.struck
    assert cluster.masters[0].restarts == 0


def test_what_the_server_refuses_is_said_with_the_files_name(s3, caplog):
    files, path = resolve(s3.uri("out/part-0"))
    out = files.open_output(path)
    out.write(b"x")
    with s3.server.refusing(403, "AccessDenied"), pytest.raises(FileError) as raised:
        files.finish(out)
    assert raised.value.message.startswith("could not write file 's3://streams/")
    assert "/out/part-0?" in raised.value.message
    assert "check the credentials" in raised.value.hint
    assert caplog.records == []


def test_a_file_larger_than_what_is_kept_is_there_as_a_whole(s3):
    files, path = resolve(s3.uri("out/large"))
    out = files.open_output(path)
    block = bytes(range(256)) * 4096
    for _ in range(12):
        out.write(block)
    assert s3.list("out") == []
    assert out.tell() == 12 << 20
    files.finish(out)
    assert s3.read("out/large") == block * 12

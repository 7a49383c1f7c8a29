"""Savepoints, state tables, the command line and the journal on S3."""

from __future__ import annotations

import ast

import pytest

from penstock import state
from penstock.cli.main import main
from penstock.replay import replay
from tests.builders.steps import at_step
from tests.jobs.s3.jobs import EXPECTED, EXPECTED_AFTER_TWO, environment, once, write_files, written

SUMS = {0: 0 + 3 + 6 + 9 + 12 + 15, 1: 1 + 4 + 7 + 10 + 13 + 16, 2: 2 + 5 + 8 + 11 + 14 + 17}


def job_of(s3):
    (job,) = {name.partition("/")[0] for name in s3.list("checkpoints")}
    return f"checkpoints/{job}"


def sums_of(uri):
    return {row.key: row.value[1] for row in state.read(uri).state("sums", "reduced")}


@pytest.mark.parametrize(
    ("first", "second"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")], ids="to {}".format
)
def test_a_savepoint_that_was_copied_elsewhere_is_read_and_started_from(s3, cluster, first, second):
    asked = []

    def stop():
        asked.append(cluster.masters[0].request_savepoint(s3.uri("savepoints"), stops=True))

    with at_step("before run_pipe", once(2, stop)):
        write_files(environment(s3, **{"state.backend.type": first}), s3)
    uri = asked[0].result(0)
    name = uri.partition("?")[0].rpartition("/")[2]
    assert uri == s3.uri(f"savepoints/{name}")
    s3.copy(f"savepoints/{name}", "archive/one")
    s3.delete("savepoints")
    s3.delete("checkpoints")
    assert sums_of(s3.uri("archive/one")) == SUMS
    options = {
        "state.backend.type": second,
        "execution.state-recovery.path": s3.uri("archive/one"),
        "parallelism.default": "3",
    }
    write_files(environment(s3, **options), s3)
    assert written(s3) == EXPECTED


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_directory_opens_as_tables(s3, cluster, backend, capsys):
    options = {"state.backend.type": backend, "execution.checkpointing.num-retained": "2"}
    write_files(environment(s3, **options), s3, cluster, last=3)
    uri = s3.uri(job_of(s3))
    before = s3.uri(f"{job_of(s3)}/chk-2")
    assert sums_of(uri) == SUMS
    changes = state.read(before).diff(state.read(uri))
    assert {row.key: row.after for row in changes if row.state == "reduced"} == {
        key: (key, total) for key, total in SUMS.items()
    }
    assert main(["state", "ls", uri]) == 0
    assert "(uid sums, id " in capsys.readouterr().out
    assert main(["state", "show", before, "sums", "reduced", "--key", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["2    (2, 26)"]
    assert main(["state", "diff", before, uri, "--format", "csv"]) == 0
    assert "numbers,offsets" in capsys.readouterr().out


def test_an_epoch_is_replayed_from_its_journal(s3, cluster, capsys):
    options = {"execution.checkpointing.num-retained": "2"}
    write_files(environment(s3, **options), s3, cluster, last=3)
    third = set(written(s3)) - set(EXPECTED_AFTER_TWO)
    again = replay(s3.uri(job_of(s3)), 3, verify=True)
    assert again.state is not None
    assert again.state.matches
    (sink,) = again.sinks
    assert set(map(ast.literal_eval, again.records(sink))) == third
    assert main(["replay", s3.uri(f"{job_of(s3)}/chk-3"), "--verify"]) == 0

"""Jobs whose checkpoints are on S3."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from penstock.checkpoint.manifest_store import ManifestStore, UnreadableCheckpointError
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import FencedError
from tests.builders.steps import at_step
from tests.jobs.s3.jobs import (
    EXPECTED,
    EXPECTED_AFTER_TWO,
    collect,
    environment,
    fail,
    once,
    sums,
    write_files,
    written,
)

RECOVER = "execution.state-recovery.path"
BACKENDS = ["hashmap", "rocksdb"]


def job_of(s3, directory="checkpoints"):
    (job,) = {name.partition("/")[0] for name in s3.list(directory)}
    return f"{directory}/{job}"


def state_files(s3, job):
    return [name for name in s3.list(job) if name.startswith("shared/")]


def named_files(s3, job):
    """The state files that checkpoints name."""
    store = ManifestStore.at(CheckpointFileSystem(s3.uri(job)))
    return sorted({name for manifest in store.read_all() for name in manifest.files()})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_that_fails_goes_on_from_its_last_checkpoint(s3, cluster, backend):
    env = environment(s3, **{"state.backend.type": backend})
    with at_step("before write_manifest", once(3, fail)):
        assert sorted(collect(env)) == EXPECTED
    job, master = job_of(s3), cluster.masters[0]
    assert master.restarts == 1
    checkpoints = [name for name in s3.list(job) if name.startswith("chk-")]
    assert checkpoints == [f"chk-{master.manifest.checkpoint_id}/_metadata"]
    assert state_files(s3, job) == named_files(s3, job) != []


def test_an_epoch_asks_for_little(s3, cluster):
    begun = []
    with (
        s3.server.requests() as asked,
        at_step("before run_pipe", lambda checkpoint_id: begun.append(len(asked))),
    ):
        collect(environment(s3))
    # Two state files, a manifest, its mark and the journal are written; the checkpoint before it goes.
    checkpoint_id = [
        str(each) for each in asked[begun[2] : begun[3]] if "lease" not in each.key + each.query
    ]
    assert len(checkpoint_id) <= 19, "\n".join(checkpoint_id)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_is_resumed_by_the_uri_of_its_directory(s3, cluster, backend):
    chosen = {"state.backend.type": backend}
    write_files(environment(s3, **chosen), s3, cluster, last=3)
    job = job_of(s3)
    assert len(written(s3)) == 18
    write_files(environment(s3, "elsewhere", **chosen, **{RECOVER: s3.uri(job)}), s3)
    assert (s3.list("elsewhere"), job_of(s3)) == ([], job)
    assert written(s3) == EXPECTED


def test_a_second_driver_is_refused(s3, cluster):
    refused = []

    def start_another():
        env = environment(s3, **{RECOVER: s3.uri(job_of(s3))})
        with sums(env).execute_and_collect() as found, pytest.raises(FencedError) as raised:
            list(found)
        refused.append(raised.value.message)

    with at_step("before run_pipe", once(3, start_another)):
        assert sorted(collect(environment(s3))) == EXPECTED
    assert [message.partition(" pid ")[0] for message in refused] == [
        "another driver is running this job:"
    ]


def test_a_driver_that_lost_its_claim_writes_no_checkpoint(s3, cluster):
    def take_over():
        s3.write(f"{job_of(s3)}/lease/00000002-other", b"{}")

    with (
        at_step("before write_manifest", once(3, take_over)),
        sums(environment(s3)).execute_and_collect() as found,
        pytest.raises(FencedError),
    ):
        list(found)
    checkpoints = [name for name in s3.list(job_of(s3)) if name.startswith("chk-")]
    assert checkpoints == ["chk-2/_metadata"]


@pytest.mark.parametrize(
    ("backend", "damage"),
    [
        ("hashmap", "manifest truncated"),
        pytest.param("hashmap", "manifest gone", marks=pytest.mark.full),
        pytest.param("hashmap", "state altered", marks=pytest.mark.full),
        pytest.param("rocksdb", "state truncated", marks=pytest.mark.full),
        ("rocksdb", "state gone"),
    ],
)
def test_a_damaged_object_is_noticed_and_the_checkpoint_before_it_used_if_that_is_allowed(
    s3, cluster, caplog, backend, damage
):
    chosen = {"state.backend.type": backend, "execution.checkpointing.num-retained": "3"}
    write_files(environment(s3, **chosen), s3, cluster, last=3)
    job = job_of(s3)
    name = f"{job}/chk-3/_metadata"
    if not damage.startswith("manifest"):
        name = next(f"{job}/{each}" for each in state_files(s3, job) if "/3-" in each)
    data = s3.read(name)
    if damage.endswith("gone"):
        s3.delete_file(name)
    else:
        s3.write(name, data[:-1] if damage.endswith("truncated") else data[:-1] + b"\0")
    third = set(written(s3)) - set(EXPECTED_AFTER_TWO)
    caplog.set_level(logging.WARNING)
    before = written(s3)
    with pytest.raises(UnreadableCheckpointError, match="checkpoint 3 of job") as raised:
        write_files(environment(s3, **chosen, **{RECOVER: s3.uri(job)}), s3)
    assert "checkpoint 2: restoring it runs checkpoint interval 3 again and" in raised.value.detail
    assert written(s3) == before
    chosen["penstock.recovery.allow-fallback"] = "true"
    write_files(environment(s3, **chosen, **{RECOVER: s3.uri(job)}), s3)
    assert "Falling back to checkpoint" in caplog.text
    # What the third epoch wrote is there twice: the checkpoint was all that knew of it.
    assert Counter(written(s3)) - Counter(EXPECTED) == Counter(EXPECTED) & Counter(third)

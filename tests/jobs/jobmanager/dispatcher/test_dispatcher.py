"""A Dispatcher with real JobMasters whose tasks run in threads of this process."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.common import WatermarkStrategy
from penstock.errors import JobRequestError
from penstock.jobmanager.dispatcher.dispatcher import NotLeaderError
from penstock.jobmanager.dispatcher.job_store import FileJobStore
from tests.builders.counting_job import Slowly
from tests.builders.submissions import create_dispatcher, submission_of


def endless(environment):
    source = Slowly()
    environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(
        lambda number: number
    )


def short(environment):
    environment.from_collection([1, 2, 3]).map(lambda number: number)


def failing(environment):
    environment.from_collection([1, 2, 3]).map(lambda number: number // 0)


FOR_EVER = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "10ms",
}


@pytest.fixture
def session():
    dispatcher, store, registry = create_dispatcher()
    dispatcher.recover()
    yield dispatcher, store, registry
    dispatcher.close()


def test_a_job_is_in_the_store_until_it_has_ended(session):
    dispatcher, store, registry = session

    job_id = dispatcher.submit(submission_of(endless))
    assert [job.job_id for job in store.all()] == [job_id]

    registry.controllers[job_id].cancel()
    assert registry.wait_for_end(job_id) == "CANCELED"
    assert store.all() == []
    assert dispatcher.jobs() == []


def test_a_job_that_finishes_leaves_the_store(session):
    dispatcher, store, registry = session
    job_id = dispatcher.submit(submission_of(short))

    assert registry.wait_for_end(job_id) == "FINISHED"
    assert store.all() == []


def test_a_job_that_fails_for_ever_does_not_hurt_its_neighbours(session):
    dispatcher, _, registry = session

    bad = dispatcher.submit(submission_of(failing, FOR_EVER, name="bad"))
    first = dispatcher.submit(submission_of(short, name="first"))
    second = dispatcher.submit(submission_of(short, name="second"))

    assert registry.wait_for_end(first) == registry.wait_for_end(second) == "FINISHED"
    assert dispatcher.jobs() == [bad]
    assert not registry.controllers[bad].get_job_status().is_terminal_state()


def test_a_submission_that_is_repeated_starts_nothing(session):
    dispatcher, store, _ = session
    submission = submission_of(endless)

    assert dispatcher.submit(submission) == dispatcher.submit(submission)
    assert len(store.all()) == len(dispatcher.jobs()) == 1


def test_another_program_under_the_id_of_a_running_job_is_refused(session):
    dispatcher, _, _ = session
    submission = submission_of(endless)
    dispatcher.submit(submission)
    other = replace(submission_of(short), job_id=submission.job_id)

    with pytest.raises(JobRequestError, match="is already running"):
        dispatcher.submit(other)


def test_a_standby_takes_no_jobs():
    dispatcher, store, _ = create_dispatcher()

    with pytest.raises(NotLeaderError, match="is a standby"):
        dispatcher.submit(submission_of(short))
    assert store.all() == []


def test_a_program_that_cannot_be_unpacked_is_refused_and_not_kept(session):
    dispatcher, store, _ = session

    with pytest.raises(Exception, match="cannot read the submitted program"):
        dispatcher.submit(replace(submission_of(short), program=b"nonsense"))
    assert store.all() == []


def test_another_dispatcher_goes_on_with_the_jobs_of_a_suspended_one(tmp_path):
    checkpoints = {
        "execution.checkpointing.interval": "50ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    first, _, seen = create_dispatcher(FileJobStore(str(tmp_path / "jobs")))
    first.recover()
    job_id = first.submit(submission_of(endless, checkpoints))
    job = seen.controllers[job_id]
    while job.view().checkpoint_id < 3:
        pass
    first.suspend()
    checkpoint_id = job.view().checkpoint_id
    assert seen.wait_for_end(job_id) == "SUSPENDED"

    second, store, now = create_dispatcher(FileJobStore(str(tmp_path / "jobs")))
    assert second.recover() == [job_id]
    job = now.controllers[job_id]
    while job.view().checkpoint_id <= checkpoint_id:
        assert job.get_job_status().name in {"CREATED", "RUNNING"}
    second.cancel_all()

    assert now.wait_for_end(job_id) == "CANCELED"
    assert store.all() == []

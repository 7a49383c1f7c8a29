"""Submissions as JSON values, and job stores."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.common.job_id import JobID
from penstock.errors import ArgumentError
from penstock.jobmanager.dispatcher.job_store import FileJobStore, MemoryJobStore
from penstock.jobmanager.dispatcher.submission import Submission


def a_submission(**changes):
    submission = Submission(
        str(JobID()),
        "a job",
        b"\x00program",
        {"parallelism.default": "2"},
        {"0/lib.py": b"x = 1"},
        5,
    )
    return replace(submission, **changes)


def test_a_submission_survives_json():
    submission = a_submission()

    assert Submission.from_json(submission.to_json()) == submission


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"job_id": "abc"}, "not a job id"),
        ({"job_id": None}, "'job_id' must be a string"),
        ({"name": ""}, "'name' must be a string"),
        ({"program": "%%%"}, "'program' must be a string in base64"),
        ({"program": None}, "'program' must be a string in base64"),
        ({"configuration": {"a": 1}}, "'configuration.a' must be a string"),
        ({"configuration": []}, "'configuration' must be an object"),
        ({"files": {"../../etc/passwd": "eA=="}}, "invalid file name"),
        ({"files": {"/etc/passwd": "eA=="}}, "invalid file name"),
        ({"files": {"a": "%"}}, "'files.a' must be a string in base64"),
        ({"submitted_ms": "now"}, "must be an integer"),
        ({"other": 1}, "unknown field 'other'"),
    ],
)
def test_what_is_not_a_submission_is_refused(changes, reported):
    with pytest.raises(ArgumentError, match=reported):
        Submission.from_json({**a_submission().to_json(), **changes})


@pytest.fixture(params=["memory", "files"])
def store(request, tmp_path):
    return MemoryJobStore() if request.param == "memory" else FileJobStore(str(tmp_path / "jobs"))


def test_a_store_gives_jobs_back_the_oldest_first(store):
    new, old = a_submission(submitted_ms=9), a_submission(submitted_ms=3)
    store.put(new)
    store.put(old)

    assert store.all() == [old, new]


def test_a_store_forgets_what_was_removed(store):
    kept, removed = a_submission(), a_submission()
    store.put(kept)
    store.put(removed)

    store.remove(removed.job_id)
    store.remove(removed.job_id)

    assert store.all() == [kept]


def test_a_store_replaces_a_job_with_the_same_id(store):
    job = a_submission()
    store.put(job)
    store.put(replace(job, name="renamed"))

    assert [each.name for each in store.all()] == ["renamed"]


def test_another_process_finds_the_jobs_in_files(tmp_path):
    job = a_submission()
    FileJobStore(str(tmp_path)).put(job)

    assert FileJobStore(str(tmp_path)).all() == [job]


def test_a_damaged_file_hides_no_other_job(tmp_path, caplog):
    store, job = FileJobStore(str(tmp_path)), a_submission()
    store.put(job)
    (tmp_path / "damaged.json").write_text("{")

    assert store.all() == [job]
    assert "damaged.json: " in caplog.text

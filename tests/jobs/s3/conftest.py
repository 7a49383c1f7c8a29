"""A place on an S3 server for each test, and credentials in the environment."""

from __future__ import annotations

import uuid

import pytest

from penstock.runtime.task import subtask_cache
from penstock.testing import MiniCluster

from .s3_server import KEY, SECRET, Place, S3Server


@pytest.fixture(scope="session")
def server():
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def s3(server, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return Place(server, uuid.uuid4().hex)


@pytest.fixture
def cluster():
    with MiniCluster() as running:
        yield running
    for *_, subtask in subtask_cache._entries.values():
        subtask.close()
    subtask_cache._entries.clear()

"""A place for each test on real storage: HDFS with its own protocol and over HTTP, and S3."""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Iterator

import pytest

from tests.connectors.conftest import serving
from tools.servers.hadoop import HadoopCluster
from tools.servers.process import MissingServerError
from tools.servers.versitygw import S3GatewayServer

KINDS = ("hdfs", "webhdfs", "s3")


@pytest.fixture(scope="session")
def hadoop() -> Iterator[HadoopCluster]:
    """HDFS alone."""
    try:
        cluster = HadoopCluster(yarn=False)
    except MissingServerError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with cluster:
        yield cluster


@pytest.fixture(scope="session")
def gateway() -> Iterator[S3GatewayServer]:
    with serving(S3GatewayServer) as server:
        yield server


@pytest.fixture(params=KINDS)
def base(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a directory that is empty."""
    name = uuid.uuid4().hex
    if request.param == "s3":
        server: S3GatewayServer = request.getfixturevalue("gateway")
        for key, value in server.credentials.items():
            monkeypatch.setenv(key, value)
        return server.uri(name)
    cluster: HadoopCluster = request.getfixturevalue("hadoop")
    if request.param == "hdfs":
        return cluster.uri(name)
    # As the user of the NameNode, who owns the root: over HTTP the default is another user.
    return cluster.web_uri(name).replace("://", f"://{getpass.getuser()}@")

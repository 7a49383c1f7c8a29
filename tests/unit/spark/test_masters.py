"""A Spark master that is not there is noticed at once."""

from __future__ import annotations

import socket

import pytest

from penstock.spark.masters import MasterNotFoundError, check_master
from penstock.spark.session import get_context, master_of


@pytest.fixture
def nowhere():
    """The address of a port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_a_master_that_is_not_there_is_named(nowhere):
    with pytest.raises(MasterNotFoundError, match=f"no Spark master answers at spark://{nowhere}"):
        check_master(f"spark://{nowhere}")


def test_spark_is_not_even_started_then(nowhere):
    with pytest.raises(MasterNotFoundError) as raised:
        get_context({"spark.master": f"spark://{nowhere}"})
    assert raised.value.detail == f"{nowhere}: Connection refused"
    assert "-m" in raised.value.hint


def test_one_of_several_masters_is_enough(nowhere):
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://{nowhere},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("address", ["no port:at all", "127.0.0.1:99999999", ""])
def test_an_address_that_cannot_be_is_refused_too(address):
    with pytest.raises(MasterNotFoundError):
        check_master(f"spark://{address}", timeout_s=0.5)


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://127.0.0.1:1"])
def test_other_masters_are_spark_s_own_business(master):
    check_master(master)


def test_the_default_master_has_the_cores_of_its_executor(monkeypatch):
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    assert master_of({}) == "local[*,4]"
    assert master_of({"spark.executor.cores": "3"}) == "local[3,4]"
    assert master_of({"spark.master": "local[2]", "spark.executor.cores": "3"}) == "local[2]"
    monkeypatch.setenv("SPARK_MASTER", "spark://host:7077")
    assert master_of({"spark.executor.cores": "3"}) == "spark://host:7077"

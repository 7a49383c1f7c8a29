"""The sockets of Python workers get a directory whose path is short enough."""

from __future__ import annotations

import logging
import socket
import stat
import tempfile
import uuid
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.spark.worker_sockets import DIRECTORY, ENABLED, fits, socket_options

JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "_JAVA_OPTIONS")
LONG = "/data/" + 90 * "x"


def options(master: str, **more: str) -> dict[str, str]:
    return {"spark.master": master, ENABLED: "true"} | {
        name.replace("_", "."): value for name, value in more.items()
    }


@pytest.fixture(autouse=True)
def no_java_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JAVA_OPTIONS:
        monkeypatch.delenv(name, raising=False)


def test_the_longest_path_that_fits_can_be_bound() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # that of the test has a long path
        directory = Path(place)
        while fits(str(directory / "x")):
            directory = directory / "x"
        directory.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{directory}/.{uuid.uuid4()}.sock")
        with socket.socket(socket.AF_UNIX) as listening, pytest.raises(OSError, match="too long"):
            listening.bind(f"{directory}/xx/.{uuid.uuid4()}.sock")


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077", "k8s://https://host"])
def test_java_s_own_directory_is_left_where_it_is_short(master: str) -> None:
    assert socket_options(options(master)) == {}


def test_on_yarn_sockets_are_in_a_directory_that_all_machines_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        assert socket_options(options("yarn")) == {DIRECTORY: "/tmp"}
    assert len(caplog.messages) == 1
    assert "too long" in caplog.text


def test_executors_with_a_long_temporary_directory_use_the_short_one() -> None:
    given = options(
        "spark://host:7077", spark_executor_extraJavaOptions=f"-Xmx1g -Djava.io.tmpdir={LONG}"
    )
    assert socket_options(given) == {DIRECTORY: "/tmp"}


def test_a_local_master_gets_a_directory_that_only_its_user_can_enter() -> None:
    given = options("local[2]", spark_driver_extraJavaOptions=f"-Djava.io.tmpdir={LONG}")
    place = Path(socket_options(given)[DIRECTORY])
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert fits(str(place))


@pytest.mark.parametrize("name", JAVA_OPTIONS)
def test_java_options_of_the_environment_count(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, f"-Djava.io.tmpdir={LONG}")
    assert DIRECTORY in socket_options(options("local"))


def test_java_options_of_the_command_line_count_more_than_most_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = options("local", spark_driver_extraJavaOptions="-Djava.io.tmpdir=/var/tmp")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"-Djava.io.tmpdir={LONG}")
    assert socket_options(given) == {}
    monkeypatch.setenv("_JAVA_OPTIONS", f"-Djava.io.tmpdir={LONG}")
    assert DIRECTORY in socket_options(given)


def test_without_a_short_directory_workers_use_tcp_and_a_line_says_so(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    given = options("local[2]", spark_driver_extraJavaOptions=f"-Djava.io.tmpdir={LONG}")
    assert socket_options(given, [str(tmp_path / "missing")]) == {ENABLED: "false"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_the_user_chose_stays() -> None:
    assert socket_options(options("yarn") | {DIRECTORY: "/run/sockets"}) == {}
    assert socket_options(options("yarn") | {ENABLED: "false"}) == {}


def test_a_directory_of_the_user_that_is_too_long_is_refused() -> None:
    with pytest.raises(PenstockError, match="too long for Unix sockets") as raised:
        socket_options(options("local[2]") | {DIRECTORY: LONG})
    assert "the limit is 107" in str(raised.value.detail)

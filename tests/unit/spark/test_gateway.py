"""Waiting for the JVM that Spark runs in. A Python process stands in for it: it writes what a JVM writes, when the test lets it."""

from __future__ import annotations

import logging
import sys

import pytest

from penstock.errors import PenstockError
from penstock.spark import gateway

SLOW = "the JVM for Spark has not answered"
ANSWER = """
import os, struct, sys
from pathlib import Path
sys.stdin.readline()
info = Path(os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"])
hidden = info.with_suffix(".hidden")
hidden.write_bytes(struct.pack("!ii", 4711, 6) + b"secret")
hidden.rename(info)
"""


class _Released(logging.Handler):
    """Lets a process answer once it is called slow."""

    def __init__(self, jvm: gateway.LocalJvm) -> None:
        super().__init__()
        self._jvm = jvm
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        assert self._jvm.process.stdin is not None
        self._jvm.process.stdin.write(b"\n")
        self._jvm.process.stdin.flush()


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> gateway.LocalJvm:
    monkeypatch.setattr(gateway, "java_command", lambda *_: [sys.executable, "-c", ANSWER])
    return gateway.LocalJvm({})


def test_a_jvm_that_starts_slowly_is_waited_for_and_named_once(
    jvm: gateway.LocalJvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "_SLOW_S", 0.0)
    handler = _Released(jvm)
    logger = logging.getLogger(gateway.__name__)
    logger.addHandler(handler)
    try:
        assert jvm._wait_for_connection() == (4711, "secret")
    finally:
        logger.removeHandler(handler)
    assert [message[: len(SLOW)] for message in handler.messages] == [SLOW]


def test_a_jvm_that_never_answers_is_ended(
    jvm: gateway.LocalJvm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "_START_TIMEOUT_S", 0.0)
    with pytest.raises(PenstockError, match="the JVM for Spark did not answer within 0 s"):
        jvm._wait_for_connection()
    assert jvm.process.wait() != 0

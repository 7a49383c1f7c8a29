"""The pipe deletes the files of its exchanges, and whether it can says nothing about the epoch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.spark import pipe


class Stage:
    def __init__(self, answer):
        self._answer = answer

    def collect(self):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.fixture
def dead_context():
    """A context whose JVM has gone."""
    return SimpleNamespace(_jsc=None)


def test_the_failure_of_an_epoch_is_not_hidden_by_that_of_the_clean_up(monkeypatch, dead_context):
    lost = ConnectionError("the JVM has gone")
    monkeypatch.setattr(pipe, "build_pipe", lambda *_: [Stage([]), Stage(lost)])
    with pytest.raises(ConnectionError, match="the JVM has gone"):
        pipe.run_pipe(dead_context, [], print)


def test_an_epoch_that_has_ended_does_not_fail_in_the_clean_up(monkeypatch, dead_context, caplog):
    monkeypatch.setattr(pipe, "build_pipe", lambda *_: [Stage([]), Stage([])])
    pipe.run_pipe(dead_context, [], print)
    assert "shuffle files were not deleted" in caplog.text

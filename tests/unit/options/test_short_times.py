"""Milliseconds that were probably meant as seconds are mentioned once; times with a unit never are."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.restart_strategy import RestartStrategies
from penstock.datastream import StreamExecutionEnvironment
from penstock.options import option_checks
from penstock.options.configuration import Configuration
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.time.durations import Duration, Time
from tests.builders.cases import check_all


@pytest.fixture
def said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[[Callable[[], Any]], list[str]]:
    """Return a function that tells what a program logs, as if it were the first of the process."""

    def listen(program: Callable[[], Any]) -> list[str]:
        monkeypatch.setattr(option_checks, "_said", set())
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            program()
        return [line for line in caplog.messages if "without a unit" in line]

    return listen


def _env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def _configure(key: str, value: Any) -> None:
    _env().configure(Configuration().set(key, value))


INTERVAL = "execution.checkpointing.interval"


def test_an_interval_of_ten_milliseconds_is_mentioned_once(said: Any) -> None:
    def program() -> None:
        env = _env()
        env.enable_checkpointing(10)
        env.enable_checkpointing(10)
        env.configure(Configuration().set(INTERVAL, "10"))

    (line,) = said(program)
    assert line == (
        "a checkpoint is taken every 10 ms: a number without a unit is milliseconds. Write 10000 if seconds are meant, else "
        "Duration.of_millis(10), or '10 ms' in a configuration (option 'execution.checkpointing.interval')"
    )


def test_short_times_without_a_unit(said: Any) -> None:
    def tables(key: str, value: str) -> Callable[[], Any]:
        def program() -> None:
            env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
            env.execute_sql(f"SET '{key}' = '{value}'")

        return program

    config = _env().get_checkpoint_config
    cases: dict[str, tuple[Callable[[], Any], str]] = {
        "interval": (lambda: config().set_checkpoint_interval(60), "taken every 60 ms"),
        "timeout": (lambda: config().set_checkpoint_timeout(600), "takes more than 600 ms"),
        "pause": (lambda: config().set_min_pause_between_checkpoints(5), "least 5 ms apart"),
        "heartbeat": (
            lambda: _configure("heartbeat.timeout", 50),
            "lost after 50 ms without a heartbeat",
        ),
        "fixed delay": (
            lambda: RestartStrategies.fixed_delay_restart(3, 10),
            "starts again after 10 ms",
        ),
        "failure rate": (
            lambda: RestartStrategies.failure_rate_restart(3, 60_000, 10),
            "starts again after 10 ms",
        ),
        "option": (lambda: _configure(INTERVAL, "30"), "every 30 ms"),
        "number": (lambda: _configure(INTERVAL, 30), "every 30 ms"),
        "SQL": (tables(INTERVAL, "10"), "every 10 ms"),
        "idle": (tables("table.exec.source.idle-timeout", "30"), "idle after 30 ms"),
    }

    def check(case: tuple[Callable[[], Any], str]) -> None:
        program, expected = case
        (line,) = said(program)
        assert expected in line

    check_all(cases, check)


def test_times_that_are_meant(said: Any) -> None:
    env = _env()
    config = env.get_checkpoint_config()
    cases: dict[str, Callable[[], Any]] = {
        "long enough": lambda: env.enable_checkpointing(100),
        "off": lambda: _configure(INTERVAL, "0"),
        "a unit": lambda: _configure(INTERVAL, "10 ms"),
        "a duration": lambda: env.enable_checkpointing(Duration.of_millis(10)),  # type: ignore[arg-type]
        "a time": lambda: config.set_checkpoint_interval(Time.milliseconds(10)),  # type: ignore[arg-type]
        "a timedelta": lambda: config.set_checkpoint_timeout(dt.timedelta(milliseconds=500)),  # type: ignore[arg-type]
        "timeout": lambda: config.set_checkpoint_timeout(1000),
        "no pause": lambda: config.set_min_pause_between_checkpoints(0),
        "a pause": lambda: config.set_min_pause_between_checkpoints(500),
        "no delay": lambda: RestartStrategies.fixed_delay_restart(3, 0),
        "a delay": lambda: RestartStrategies.fixed_delay_restart(3, Time.milliseconds(10)),
        "times that fit a short interval": _checkpoint_often,
        "another option": lambda: _configure("execution.buffer-timeout.interval", "10"),
    }
    check_all(cases, lambda program: _assert_nothing(said(program)))


def _checkpoint_often() -> None:
    """Set times of less than a second, all in milliseconds."""
    config = _env().enable_checkpointing(200).get_checkpoint_config()
    config.set_min_pause_between_checkpoints(50)
    config.set_checkpoint_timeout(800)


def test_times_that_do_not_fit_the_interval(said: Any) -> None:
    def program() -> None:
        config = _env().enable_checkpointing(60_000).get_checkpoint_config()
        config.set_min_pause_between_checkpoints(30)
        config.set_checkpoint_timeout(600)

    pause, timeout = said(program)
    assert "least 30 ms apart" in pause
    assert "takes more than 600 ms" in timeout


def _assert_nothing(lines: list[str]) -> None:
    assert lines == []

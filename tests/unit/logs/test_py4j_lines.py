"""Py4J logs each call to the JVM at INFO: programs that log at INFO do not see these lines, unless they ask for them."""

from __future__ import annotations

import logging

import pytest

from penstock.logs.scope import LogScope, set_process_scope
from penstock.logs.setup import LogSettings, log_in_jobmanager, log_in_task

GATEWAY = "py4j.clientserver"  # the logger of the lines


@pytest.fixture
def py4j():
    """The logger that all of Py4J's are below, as in a new process, in a program that logs at INFO."""
    logger, root = logging.getLogger("py4j"), logging.getLogger()
    before = logger.level, root.level
    logger.setLevel(logging.NOTSET)
    root.setLevel(logging.INFO)
    yield logger
    logger.setLevel(before[0])
    root.setLevel(before[1])


def in_task(**settings):
    log_in_task(LogSettings(**settings), LogScope("job", "job"), {})


@pytest.fixture(autouse=True)
def _scope():
    yield
    set_process_scope(LogScope())


@pytest.mark.parametrize("set_up", [log_in_jobmanager, in_task])
def test_only_warnings_are_logged_by_a_program_that_logs_at_info(py4j, set_up, caplog) -> None:
    logging.getLogger(GATEWAY).info("Closing down clientserver connection")
    assert len(caplog.records) == 1
    set_up()
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger(GATEWAY).info("Closing down clientserver connection")
    logging.getLogger(GATEWAY).warning("it broke")
    logging.getLogger("of.the.user").info("mine")
    assert [each.message for each in caplog.records][1:] == ["it broke", "mine"]


@pytest.mark.parametrize("set_up", [log_in_jobmanager, in_task])
@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.ERROR])
def test_a_level_that_the_program_has_set_stays(py4j, set_up, level) -> None:
    py4j.setLevel(level)
    set_up()
    assert py4j.level == level


def test_a_level_that_is_set_later_stays_too(py4j) -> None:
    log_in_jobmanager()
    py4j.setLevel(logging.DEBUG)
    log_in_jobmanager()
    assert py4j.level == logging.DEBUG


def test_the_option_for_single_loggers_sets_the_level_in_tasks(py4j) -> None:
    in_task(overrides={"py4j": "DEBUG"})
    assert py4j.level == logging.DEBUG

"""Log lines that come again and again."""

from __future__ import annotations

import logging

import pytest

from penstock.logs.repeated_lines import LogLineKind, RepeatedLineFilter


class Times:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def passed(lines: RepeatedLineFilter, text: str, level: int = logging.ERROR) -> str | None:
    """Return what happens to a line, None if it is left out."""
    record = logging.LogRecord("any", level, __file__, 1, "%s", (text,), None)
    return f"{record.levelname} {record.getMessage()}" if lines.filter(record) else None


def test_a_line_is_logged_once_and_then_with_a_count() -> None:
    clock = Times()
    lines = RepeatedLineFilter(every_s=60, clock=clock)
    assert passed(lines, "broker away") == "ERROR broker away"
    assert [passed(lines, "broker away") for _ in range(73)] == [None] * 73
    assert passed(lines, "something else") == "ERROR something else"
    clock.now += 59
    assert passed(lines, "broker away") is None
    clock.now += 1
    assert passed(lines, "broker away") == "ERROR broker away (75 times in the last 60 s)"
    assert passed(lines, "broker away") is None


def test_a_line_that_comes_rarely_has_no_count() -> None:
    clock = Times()
    lines = RepeatedLineFilter(every_s=60, clock=clock)
    for _ in range(3):
        assert passed(lines, "slow") == "ERROR slow"
        clock.now += 61


def test_lines_are_what_was_read_of_them() -> None:
    def read(record: logging.LogRecord) -> LogLineKind:
        return LogLineKind("same", record.getMessage().upper(), logging.WARNING, times=10)

    clock = Times()
    lines = RepeatedLineFilter(read, every_s=60, clock=clock)
    assert passed(lines, "a") == "WARNING A"
    assert passed(lines, "b") is None
    clock.now += 120
    assert passed(lines, "c") == "WARNING C (20 times in the last 120 s)"


@pytest.mark.parametrize("count", [3, 5000])
def test_lines_of_many_kinds_are_all_logged(count: int) -> None:
    lines = RepeatedLineFilter(every_s=60, clock=Times())
    assert [passed(lines, f"line {n}") for n in range(count)] == [
        f"ERROR line {n}" for n in range(count)
    ]

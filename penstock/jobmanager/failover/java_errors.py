"""Extracts the cause from the long text of a Java exception of Spark."""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = f"{Path(__file__).resolve().parents[2]}/"
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "([^"]*)"')
_SPARKS = ("/pyspark/", "pyspark.zip/", "/py4j/")
_ENDINGS = ("Driver stacktrace:", " SQLSTATE:")


def explain_java(text: str) -> str:
    """Return the part of a Java exception's text that the user needs.

    If Python raised in a worker: its traceback, without the frames of Spark and Penstock. Otherwise Spark's first message
    and its causes.
    """
    lines = [line for line in text.strip().splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_ENDINGS)]
    if _TRACEBACK in text:
        return _python_part(lines)
    said = [line for line in lines if not line.lstrip().startswith(("at ", "... "))]
    first = said[0].rpartition(": ")[2] if "most recent failure:" in said[0] else said[0]
    causes = [line for line in said[1:] if line.startswith("Caused by:")]
    others = [line for line in said[1:] if line not in causes][:3]
    return "\n".join([_without_class(first), *others, *causes[-2:]])


def _without_class(line: str) -> str:
    """Remove the name of Spark's exception class; other class names are informative."""
    return line.removeprefix("org.apache.spark.SparkException: ")


def _python_part(lines: list[str]) -> str:
    start = next(index for index, line in enumerate(lines) if _TRACEBACK in line)
    kept: list[str] = [_TRACEBACK]
    shown = True
    for line in lines[start + 1 :]:
        if line.startswith("\tat "):
            break
        frame = _FRAME.match(line)
        if frame is not None:
            shown = not frame[1].startswith(_PACKAGE) and not any(s in frame[1] for s in _SPARKS)
        elif not line.startswith("    "):
            shown = True
        if shown:
            kept.append(line)
    return "\n".join(
        line
        for line, after in zip(kept, [*kept[1:], ""], strict=True)
        if line != _TRACEBACK or after.startswith("  ")
    )

"""What Flink 2.3 answers, as shapes: recorded from a JobManager of apache-flink that ran a job of two vertices.

A shape is JSON with the kinds of values in their place. A list has the shape of its elements, `*` stands for any key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[1] / "data" / "flink_rest_shapes.json"


def flink_shapes() -> dict[str, Any]:
    """Return the shapes of Flink's answers, by path."""
    shapes: dict[str, Any] = json.loads(_FILE.read_text())
    return shapes


def lacks(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    """Yield what an answer has not that Flink's has, or has of another kind."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            yield f"{where or '/'} is not an object"
            return
        for key, shape in expected.items():
            if key == "*":
                for name, value in actual.items():
                    yield from lacks(shape, value, f"{where}/{name}")
            elif key not in actual:
                yield f"{where}/{key} is missing"
            else:
                yield from lacks(shape, actual[key], f"{where}/{key}")
    elif isinstance(expected, list):
        if not isinstance(actual, list):
            yield f"{where or '/'} is not a list"
            return
        for number, value in enumerate(actual if expected else ()):
            yield from lacks(expected[0], value, f"{where}/{number}")
    elif not _is(expected, actual):
        yield f"{where} is {actual!r}, which is not a {expected}"


def _is(kind: str, value: Any) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "number":
            return value == "NaN" or (
                isinstance(value, int | float) and not isinstance(value, bool)
            )
        case "text":
            return isinstance(value, str)
        case _:  # null: whatever it is when it is there
            return True

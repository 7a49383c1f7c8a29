"""Resets event time in a drained savepoint.

A drained job advances event time to its end, and all its subtasks finish. A job that starts from its savepoint continues
reading where it stopped, so it must not be in the finished state.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, Final

from penstock.checkpoint.manifest import MIN_WATERMARK, Manifest, SubtaskSnapshot, VertexSnapshot
from penstock.errors import CheckpointError
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.operator_state import EMITTED, IDLE

# Event-time state of operators; without it they start at the minimum watermark.
_TIMES: Final = frozenset({EMITTED, IDLE, "watermark", "timer watermark"})


def with_initial_watermarks(manifest: Manifest) -> Manifest:
    """Return a manifest with nothing finished and the minimum watermark.

    Split positions are kept, and so is the state of watermark generators: a record that was late before is late again.
    """
    vertices = {
        name: VertexSnapshot(tuple(map(_restarted, vertex.subtasks)))
        for name, vertex in manifest.vertices.items()
    }
    return replace(manifest, vertices=vertices)


def _restarted(subtask: SubtaskSnapshot) -> SubtaskSnapshot:
    local = None if subtask.local is None else _without_time(subtask.local)
    return replace(subtask, watermark=MIN_WATERMARK, finished=False, local=local)


def _without_time(data: bytes) -> bytes:
    try:
        local: dict[str, Any] = pickle.loads(data)
    except Exception as error:
        raise CheckpointError(
            "could not read the state of a subtask for a drained savepoint",
            detail=f"{type(error).__name__}: {error}",
            hint="make the classes of the job importable where it was started",
        ) from error
    operators = {
        operator: {name: value for name, value in state.items() if name not in _TIMES}
        for operator, state in local["operators"].items()
    }
    return dumps(
        {
            **local,
            "valve": (MIN_WATERMARK, False, []),  # all channels start there
            "floor": MIN_WATERMARK,
            "finished": False,
            "operators": {name: state for name, state in operators.items() if state},
        }
    )

"""Back to the start of time: what a drained savepoint must forget.

A job that is drained takes event time to its end, and all its subtasks finish. A job that starts from its savepoint reads on
where it stopped reading, so it must not believe that everything has ended.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, Final

from penstock.checkpoint.manifest import MIN_WATERMARK, Manifest, SubtaskSnapshot, VertexSnapshot
from penstock.common.pickling import dumps
from penstock.errors import CheckpointError
from penstock.runtime.state.operator_state import EMITTED, IDLE

# What operators remember of event time; without it they begin at its start.
_TIMES: Final = frozenset({EMITTED, IDLE, "watermark", "timer watermark"})


def with_time_at_its_start(manifest: Manifest) -> Manifest:
    """Return a manifest in which nothing has finished and no watermark has come.

    How far splits were read stays, and so does what watermark generators know: a record that was late before is late again.
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
            "the state of a subtask cannot be opened for a drained savepoint",
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

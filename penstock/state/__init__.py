"""State as tables: read the state of a job, compare two snapshots, write savepoints.

>>> from penstock import state  # doctest: +SKIP
>>> print(state.read("checkpoints/<job id>"))  # doctest: +SKIP
"""

from penstock.checkpoint.manifest_store import CheckpointDeletedError
from penstock.state.catalog import OperatorInfo, StateInfo
from penstock.state.reading import read
from penstock.state.snapshot import Snapshot
from penstock.state.spark_format import register
from penstock.state.tables import KeyedStateTable, SnapshotTable
from penstock.state.writer import DROP, SavepointWriter, edit, new_savepoint

__all__ = [
    "DROP",
    "CheckpointDeletedError",
    "KeyedStateTable",
    "OperatorInfo",
    "SavepointWriter",
    "Snapshot",
    "SnapshotTable",
    "StateInfo",
    "edit",
    "new_savepoint",
    "read",
    "register",
]

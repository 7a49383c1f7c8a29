"""Environments for programs that keep state, with checkpoints as fast as they come."""

from __future__ import annotations

from penstock.common import Configuration
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StreamExecutionEnvironment,
)

RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "50",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


def stateful_environment(backend, directory, parallelism=2, **options):
    """Everything is kept below `directory`, all checkpoints too; without restarts, unless the options say otherwise."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if backend == "rocksdb":
        chosen = EmbeddedRocksDBStateBackend()
        chosen.set_db_storage_paths(f"{directory}/local")
        env.set_state_backend(chosen)
    else:
        env.set_state_backend(HashMapStateBackend())
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "execution.checkpointing.num-retained": "1000",
        "restart-strategy.type": "none",
    }
    env.configure(Configuration.from_dict({**settings, **options}))
    return env

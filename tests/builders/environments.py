"""Environments for programs of tests."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common import Configuration
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StreamExecutionEnvironment,
)


def configured(
    options: Mapping[str, str], parallelism: int | None = None
) -> StreamExecutionEnvironment:
    """Return an environment with these options, and with a parallelism or the one of the options."""
    configuration = Configuration.from_dict(dict(options))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if parallelism is not None:
        env.set_parallelism(parallelism)
    return env


def restarts(attempts: int, delay: str = "0 ms") -> dict[str, str]:
    """Return the options of a job that is restarted so often."""
    return {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": str(attempts),
        "restart-strategy.fixed-delay.delay": delay,
    }


RESTARTS = restarts(50, "1 ms")


def stateful_environment(backend, directory, parallelism=2, **options):
    """Everything is kept below `directory`, all checkpoints too, which come as fast as they can.

    There are not restarts, unless the options say otherwise.
    """
    env = configured({}, parallelism)
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

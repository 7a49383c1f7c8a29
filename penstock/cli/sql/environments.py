"""The TableEnvironment of the SQL client and of SQL files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.options import RUNTIME_MODE

if TYPE_CHECKING:
    from penstock.table import TableEnvironment


def create_environment() -> TableEnvironment:
    """Create an environment in the runtime mode of penstock.yaml; SET may change it, and `-D` overrides both."""
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.table import EnvironmentSettings, TableEnvironment

    streams = StreamExecutionEnvironment.get_execution_environment()
    if streams.get_configuration().get(RUNTIME_MODE) == "BATCH":
        return TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    return TableEnvironment.create(EnvironmentSettings.in_streaming_mode())

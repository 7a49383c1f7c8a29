"""Small programs whose answers are compared with PyFlink's: how they are evaluated, here and there.

This file is run by both interpreters, so it imports nothing of Penstock: `pyflink` is PyFlink in one and Penstock in the
other.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

_ADDRESS = re.compile(r"<[\w.]*?(\w+) object at 0x[0-9a-f]+>")


def namespace() -> dict[str, Any]:
    """Return the names that snippets use."""
    names: dict[str, Any] = {"pickle": pickle}
    for module in (
        "pyflink.common",
        "pyflink.common.serialization",
        "pyflink.common.watermark_strategy",
        "pyflink.datastream",
        "pyflink.datastream.checkpoint_storage",
        "pyflink.datastream.connectors.file_system",
        "pyflink.datastream.connectors.number_seq",
        "pyflink.datastream.functions",
        "pyflink.datastream.state",
        "pyflink.datastream.state_backend",
        "pyflink.datastream.window",
        "pyflink.datastream.slot_sharing_group",
    ):
        exec(f"from {module} import *", names)
    exec("from pyflink.table import DataTypes", names)
    exec(
        "from pyflink.common import JobID, JobStatus, RowKind, Instant, Time\n"
        "from pyflink.datastream.state_backend import PredefinedOptions\n"
        "from pyflink.datastream.window import *\n"
        "from pyflink.datastream.slot_sharing_group import MemorySize, SlotSharingGroup",
        names,
    )
    names.update(_helpers(names))
    return names


def _helpers(names: dict[str, Any]) -> dict[str, Any]:
    types = names["Types"]

    def env() -> Any:
        return names["StreamExecutionEnvironment"].get_execution_environment()

    def conf(options: dict[str, str]) -> Any:
        configuration = names["Configuration"]()
        for key, value in options.items():
            configuration.set_string(key, value)
        return configuration

    def numbers() -> Any:
        return env().from_collection([1, 2, 3], types.INT())

    def pairs() -> Any:
        return env().from_collection([("a", 1)], types.TUPLE([types.STRING(), types.INT()]))

    def backend_with_paths(*paths: str) -> Any:
        backend = names["EmbeddedRocksDBStateBackend"]()
        backend.set_db_storage_paths(*paths)
        return backend

    def collect_in_order(build: Any) -> list[Any]:
        environment = env()
        environment.set_parallelism(2)
        with build(environment).execute_and_collect() as results:
            return list(results)

    def collect(build: Any) -> list[Any]:
        return sorted(collect_in_order(build), key=repr)

    class Nothing(names["ProcessFunction"]):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    class KeyedNothing(names["KeyedProcessFunction"]):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value

    class Time(names["ProcessFunction"]):  # type: ignore[misc]
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield ctx.timestamp()

    class Assigner(names["TimestampAssigner"]):  # type: ignore[misc]
        def __init__(self, function: Any) -> None:
            self.function = function

        def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
            return self.function(value)

    def timestamps(environment: Any, function: Any) -> Any:
        strategy = names["WatermarkStrategy"].for_monotonous_timestamps()
        strategy = strategy.with_timestamp_assigner(Assigner(function))
        stream = environment.from_collection([1, 2], types.INT())
        return stream.assign_timestamps_and_watermarks(strategy).process(Time(), types.LONG())

    def run_without_sink() -> str:
        environment = env()
        environment.from_collection([1]).map(lambda value: value)
        environment.execute()
        return "ran"

    return {name: value for name, value in locals().items() if name not in {"names", "types"}}


def answer_of(snippet: str, names: dict[str, Any], *, plain: bool = False) -> str:
    """Return what a snippet gives, as text that does not depend on addresses; 'raises' if it raises.

    `plain` shows an object as one without a `repr` of its own would be.
    """
    try:
        value = eval(snippet, dict(names))
    except Exception:  # noqa: BLE001 - which one it is differs: theirs are Java's
        return "raises"
    if plain:
        return f"<{type(value).__name__}>"
    shown = repr(sorted(value)) if isinstance(value, set) else repr(value)
    return _ADDRESS.sub(lambda found: f"<{found[1]}>", shown)


def read_snippets(path: Any) -> list[str]:
    """Return the snippets of a file, without blank lines and comments."""
    lines = path.read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]
